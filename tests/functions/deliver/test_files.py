"""Files of a response reach the chat with its text; what can't be sent is told, and never costs the rest."""

import asyncio
import json
import re

import httpx
import pytest

from shared.channels import outgoing_files
from shared.db.engine.connection import rows, transaction
from shared.runtime.http_client import NoAnswer
from tests.functions.deliver.sending import service_of, step, worked
from tests.support import answer, column, make_session, row

PNG = b"\x89PNG\r\n\x1a\n"


class Album:
    """A Discord that tells what each message holds: its text, and the names and bytes of its files."""

    def __init__(self, *script):
        self.messages = []
        self._script = list(script)

    def __call__(self, request):
        self.messages.append(parsed(request))
        act = self._script.pop(0) if self._script else sent
        return act(len(self.messages))


def parsed(request):
    kind = request.headers["Content-Type"]
    if kind == "application/json":
        return (json.loads(request.content)["content"], ())
    boundary = kind.partition("boundary=")[2].encode()
    files, text = [], None
    for part in request.content.split(b"--" + boundary)[1:-1]:
        head, _, body = part.partition(b"\r\n\r\n")
        name = re.search(rb'filename="([^"]*)"', head)
        if name is None:
            text = json.loads(body.removesuffix(b"\r\n"))["content"]
        else:
            files.append((name[1].decode(), body.removesuffix(b"\r\n")))
    return (text, tuple(files))


def sent(number):
    return httpx.Response(200, json={"id": str(9000 + number)})


def refused(status, code):
    return lambda _: httpx.Response(status, json={"code": code, "message": "Request entity too large"})


def silent(_):
    raise NoAnswer("nothing came")


@pytest.fixture
def file(tmp_path):
    def write(name, content=b"42"):
        path = tmp_path / name
        path.write_bytes(content)
        return outgoing_files.described(path)

    return write


def send(conn, text, *files, **fields):
    return answer(conn, text, channel="discord", files=outgoing_files.encode(files), **fields)


def test_a_file_goes_out_with_its_text(conn, file):
    send(conn, "Here it is", file("a.txt"))
    assert step(Album()).messages == [("Here it is", (("a.txt", b"42"),))]
    found = row(conn, "responses")
    assert (found["status"], found["platform_message_id"], found["parts"]) == ("acked", "9001", '["9001"]')


def test_a_file_without_a_text_is_a_message(conn, file):
    send(conn, "", file("a.png", PNG))
    assert step(Album()).messages == [("", (("a.png", PNG),))]
    assert row(conn, "responses")["status"] == "acked"


def test_a_long_text_goes_out_before_its_files(conn, file):
    send(conn, "word " * 600, file("a.txt"))
    texts = [(bool(text), len(files)) for text, files in step(Album()).messages]
    assert texts == [(True, 0), (True, 0), (False, 1)]


def test_many_files_go_out_in_albums_in_their_order(conn, file):
    send(conn, "all", *(file(f"{number}.txt") for number in range(12)))
    messages = step(Album()).messages
    assert [name for _, files in messages for name, _ in files] == [f"{number}.txt" for number in range(12)]
    assert len(messages) == 2


def test_a_file_that_is_gone_is_told_and_the_rest_goes_on(conn, file):
    _, session = make_session(conn)
    lost = file("lost.txt")
    send(conn, "Two files", file("a.txt"), lost, agent="assistant", session_id=session)
    lost.path.unlink()
    told = "(The file lost.txt was not sent: it is no longer on this host.)"
    assert step(Album()).messages == [("Two files", (("a.txt", b"42"),)), (told, ())]
    assert (row(conn, "responses")["status"], row(conn, "responses")["unsent_files"]) == (
        "acked",
        '[[1, "it is no longer on this host"]]',
    )
    (context,) = rows(conn, "SELECT agent, session_id, kind, trigger, status, message FROM messages")
    assert context[:5] == ("assistant", session, "system", 0, "pending")
    assert context[5].endswith(told)


def test_a_file_that_was_changed_is_not_sent(conn, file):
    changed = file("a.txt")
    send(conn, "Look", changed)
    changed.path.write_bytes(b"something else")
    messages = step(Album()).messages
    assert messages == [
        ("Look", ()),
        ("(The file a.txt was not sent: it was changed after it was handed over.)", ()),
    ]


def test_a_link_in_place_of_the_file_is_not_followed(conn, file, tmp_path):
    swapped = file("a.txt")
    send(conn, "Look", swapped)
    (tmp_path / "secret").write_bytes(b"42")
    swapped.path.unlink()
    swapped.path.symlink_to(tmp_path / "secret")
    assert [files for _, files in step(Album()).messages] == [(), ()]


def test_a_file_larger_than_the_platform_takes_is_told(conn, file):
    large = file("large.bin", b"")
    with large.path.open("wb") as opened:
        opened.truncate(11 * 1024 * 1024)
    send(conn, "Look", outgoing_files.described(large.path))
    (look, told) = step(Album()).messages
    assert look == ("Look", ())
    assert "large.bin was not sent: it is larger than 10 MiB" in told[0]


def test_an_album_that_is_refused_goes_out_file_by_file(conn, file):
    send(conn, "", file("a.txt"), file("b.txt"), file("c.txt"))
    platform = step(Album(refused(413, 40005), sent, refused(413, 40005), sent))
    album, first, second, third, told = platform.messages
    assert len(album[1]) == 3
    assert [files for _, files in (first, second, third)] == [((f"{name}.txt", b"42"),) for name in "abc"]
    assert told[0].startswith("(The file b.txt was not sent: ")
    found = row(conn, "responses")
    assert (found["status"], json.loads(found["parts"])) == ("acked", ["9002", None, "9004", "9005"])


def test_a_caption_whose_file_is_refused_still_arrives(conn, file):
    send(conn, "Read me", file("a.txt"))
    platform = step(Album(refused(413, 40005)))
    assert platform.messages[1] == ("Read me", ())
    assert platform.messages[2][0].startswith("(The file a.txt was not sent: ")
    assert row(conn, "responses")["status"] == "acked"


def test_after_a_crash_the_same_parts_follow(conn, file):
    """What was left out before the crash stays left out, although the file is back."""
    lost = file("lost.txt")
    send(conn, "", lost, *(file(f"{number}.txt") for number in range(11)))
    content = lost.path.read_bytes()
    lost.path.unlink()

    async def hang(_):
        await asyncio.sleep(300)

    first = Album(sent, lambda number: hang(number))

    async def crash():
        service = service_of(first)
        await service.claim_and_start()
        while len(first.messages) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(crash())
    lost.path.write_bytes(content)
    second = Album()

    async def resume():
        service = service_of(second)
        await service.repair()
        with transaction(conn):
            rows(conn, "UPDATE responses SET deliver_after = NULL")
        await worked(service)
        await service.close()

    asyncio.run(resume())
    names = [name for _, files in (first.messages[0], *second.messages) for name, _ in files]
    assert names == [f"{number}.txt" for number in range(11)]
    assert second.messages[-1][0].startswith("(The file lost.txt was not sent: ")


def test_a_file_send_without_an_answer_has_an_unknown_outcome(conn, file):
    send(conn, "", file("a.txt"))
    step(Album(silent))
    assert "response_outcome_unknown" in column(conn, "SELECT type FROM events")
    assert row(conn, "responses")["status"] == "pending"


def test_a_row_whose_files_can_not_be_read_is_set_aside(conn):
    answer(conn, "hi", channel="discord", files='[{"path": "/x"}]')
    platform = step(Album())
    assert platform.messages == []
    assert row(conn, "responses")["status"] == "dead"
