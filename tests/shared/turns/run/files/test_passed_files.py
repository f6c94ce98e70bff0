"""Files from agent to agent: from the outbox of one into the inbox of the other, through a copy that none can reach."""

import asyncio
import os

import pytest

from shared.agents.base import Result
from shared.channels.outgoing import OutgoingFile
from shared.core.errors import NotFetched, WrongState
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.roster import destinations, teams
from shared.db.roster.teams import Team
from shared.queue.teamwork import mailbox
from shared.queue.teamwork.passed_files import checked
from shared.turns.run.files import old_files, passed_files
from shared.turns.run.files.inbox import no_channel
from tests.serving import environment
from tests.shared.turns.gateway.model_host import hosting, reply
from tests.shared.turns.run import scripted_provider
from tests.shared.turns.run.scripted_provider import dispatching, one_step
from tests.support import NOW, column, make_agent, row

__all__ = ["environment"]

MAIL = "SELECT message FROM messages WHERE channel = 'internal' AND kind = 'chat' ORDER BY id"
SAID = "SELECT message FROM responses ORDER BY id"


def outbox(turn, name, content):
    """Write a file of the turn's outbox, as a program does."""
    place = turn.folder / "sessions" / turn.session / "outbox" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def run(conn, monkeypatch, scripts, *, steps, **settings):
    """Turns of coder, bob and eve, each by its script, a function from the turn to the text that it says."""

    async def script(turn):
        yield Result(scripts[turn.agent](turn))

    async def go():
        async with hosting(reply(500)) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            for agent in ("bob", "eve"):
                make_agent(conn, agent, provider="scripted", **settings)
            with transaction(conn):
                teams.save(conn, Team("dev", "Dev", "coder", ("coder", "bob", "eve")), now_ms=NOW)
            async with dispatching() as service:
                for _ in range(steps):
                    await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))


def hand_off(text="[@bob: check it [send_file: report.txt]]", content=b"all is well"):
    def coder(turn):
        outbox(turn, "report.txt", content)
        return text

    return coder


def test_the_other_agent_finds_the_file_in_its_inbox(conn, monkeypatch):
    seen = {}

    def bob(turn):
        (file,) = turn.attachments
        seen["file"] = (file.path.relative_to(turn.folder), file.path.read_bytes(), file.media_type)
        seen["prompt"] = turn.prompt
        return "fine"

    run(conn, monkeypatch, {"coder": hand_off(), "bob": bob}, steps=2)
    path, content, media_type = seen["file"]
    mail = row(conn, "messages", 2)
    assert (str(path.parent.name), path.name) == (mail["message_id"], "report.txt")
    assert (content, media_type) == (b"all is well", "text/plain")
    assert "report.txt" in seen["prompt"]
    assert column(conn, MAIL)[0] == "check it"
    assert column(conn, SAID)[0] == "(Passed on to @bob.)"


def test_the_answer_brings_a_file_back(conn, monkeypatch):
    seen = []

    def bob(turn):
        outbox(turn, "mended.txt", b"mended")
        return "Here. [send_file: mended.txt]"

    def coder(turn):
        if not seen and turn.messages[-1].from_agent is None:
            seen.append(None)
            return "[@bob: mend it]"
        seen.append([(each.path.name, each.path.read_bytes()) for each in turn.attachments])
        return "It is mended."

    run(conn, monkeypatch, {"coder": coder, "bob": bob}, steps=3)
    assert seen == [None, [("mended.txt", b"mended")]]
    assert column(conn, MAIL) == ["mend it", "Here."]


def test_each_member_of_a_room_gets_it(conn, monkeypatch):
    seen = []

    def member(turn):
        seen.append((turn.agent, [each.path.read_bytes() for each in turn.attachments]))
        return "seen"

    scripts = {"coder": hand_off("[#dev: the plan [send_file: report.txt]]"), "bob": member, "eve": member}
    run(conn, monkeypatch, scripts, steps=2)
    assert sorted(seen) == [("bob", [b"all is well"]), ("eve", [b"all is well"])]


def test_a_file_that_is_not_there_is_told_and_the_hand_off_goes_on(conn, monkeypatch):
    run(conn, monkeypatch, {"coder": lambda turn: "[@bob: check it [send_file: none.txt]]"}, steps=1)
    assert column(conn, MAIL) == ["(The file none.txt was not sent: there is no such file in the outbox.)\n\n------\n\n"
                                  "Directed to you:\ncheck it"]  # fmt: skip
    assert "none.txt was not sent" in column(conn, SAID)[0]


def test_one_that_is_too_large_for_an_inbox_stops_the_hand_off(conn, monkeypatch):
    run(conn, monkeypatch, {"coder": hand_off(content=b"x" * (20 * 1024 * 1024 + 1))}, steps=1)
    assert column(conn, MAIL) == []
    notes = column(conn, "SELECT message FROM messages WHERE kind = 'system'")
    assert "the file report.txt is larger than 20 MiB, the most for an agent" in notes[0]


def test_what_waits_for_an_agent_is_limited_as_its_inboxes_are(conn, monkeypatch):
    once = "[@bob: a [send_file: report.txt]] [@bob: b [send_file: report.txt]]"
    run(conn, monkeypatch, {"coder": hand_off(once, b"x" * 700_000)}, steps=1, files_limit_mb=1)
    assert column(conn, MAIL) == ["a"]
    (note,) = column(conn, "SELECT message FROM messages WHERE kind = 'system'")
    assert "agent 'bob' may have 1 MiB of files waiting, and these are too many" in note


def test_the_copy_is_there_before_the_row_and_outlives_the_outbox(conn, monkeypatch):
    def coder(turn):
        outbox(turn, "report.txt", b"first")
        return "[@bob: check it [send_file: report.txt]]"

    run(conn, monkeypatch, {"coder": coder}, steps=1)
    for each in Settings.load().agents_dir.rglob("report.txt"):
        each.write_bytes(b"changed")
    (copy,) = Settings.load().files.rglob("report.txt")
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (b"first", 0o600)


def test_a_copy_that_waits_is_kept_and_one_that_is_over_goes(conn, monkeypatch):
    run(conn, monkeypatch, {"coder": hand_off()}, steps=1)
    store = Settings.load().files
    for folder in store.iterdir():
        os.utime(folder, (1, 1))
    assert old_files.delete_sent(conn, store, older_than_ms=NOW) == 0
    rows(conn, "UPDATE messages SET trigger = 0 WHERE files <> '[]'")  # as an answer in a room
    assert old_files.delete_sent(conn, store, older_than_ms=NOW) == 0
    rows(conn, "UPDATE messages SET status = 'completed'")
    assert old_files.delete_sent(conn, store, older_than_ms=NOW) == 1
    assert list(store.iterdir()) == []


def test_files_of_answers_in_a_room_count_as_waiting(conn, monkeypatch, tmp_path):
    """An answer stands in the sessions of the others as context, which asks for no turn."""
    big = tmp_path / "report.txt"
    big.write_bytes(b"x" * 700_000)
    one = OutgoingFile(big, "report.txt", "text/plain", 700_000, "document")
    run(conn, monkeypatch, {"coder": hand_off("[#dev: the plan [send_file: report.txt]]", big.read_bytes())}, steps=1)
    rows(conn, "UPDATE messages SET trigger = 0 WHERE channel = 'chatroom'")
    with pytest.raises(WrongState, match="agent 'bob' may have 1 MiB of files waiting"):
        checked(conn, ["bob"], [one], 1)
    rows(conn, "UPDATE messages SET status = 'completed' WHERE channel = 'chatroom'")
    assert "report.txt" in checked(conn, ["bob"], [one], 1)


def test_mail_with_files_waits_for_a_turn(conn, monkeypatch):
    run(conn, monkeypatch, {"coder": hand_off()}, steps=1)
    with transaction(conn):
        assert mailbox.consume(conn, "bob", now_ms=NOW + 10**9) == []


NAMES = ["", "x", "../x", "a/../../x", "a/b/c", "/etc/passwd", "./x", None]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_chooses_no_other_file(tmp_path, name):
    store = tmp_path / "files"
    store.mkdir()
    (tmp_path / "x").write_text("secret")
    fetch = passed_files.beside(no_channel, store)
    with pytest.raises(NotFetched):
        asyncio.run(fetch("internal", {"file_id": name}, 100))


def test_a_person_on_another_channel_names_no_copy(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x").write_text("secret")
    fetch = passed_files.beside(no_channel, tmp_path)
    with pytest.raises(NotFetched):
        asyncio.run(fetch("telegram", {"file_id": "t/x"}, 100))
    assert asyncio.run(fetch("internal", {"file_id": "t/x"}, 100)) == b"secret"


def test_a_tool_sends_a_file_along(conn, monkeypatch):
    seen = {}

    async def script(turn):
        if turn.agent == "bob":
            seen["files"] = [each.path.read_bytes() for each in turn.attachments]
            yield Result("fine")
            return
        outbox(turn, "report.txt", b"42")
        seen["answer"] = await turn.doors.tools.call("send_to_agent", {"agent": "bob", "text": "x", "file": "none"})
        given = {"agent": "bob", "text": "look", "file": "report.txt"}
        seen["sent"] = await turn.doors.tools.call("send_to_agent", given)
        yield Result("asked")

    async def go():
        async with hosting(reply(500)) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            make_agent(conn, "bob", provider="scripted")
            with transaction(conn):
                destinations.put(conn, "coder", target_agent="bob", now_ms=NOW)
            async with dispatching() as service:
                await one_step(service)
                await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert seen["answer"].text == "the file was not sent: there is no such file in the outbox"
    assert seen["sent"].text.startswith("Sent to agent bob with report.txt.")
    assert seen["files"] == [b"42"]
