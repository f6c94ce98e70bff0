"""Which callers wait for the replica, which of them together, and what counts as an answer. A socket plays
Litestream."""

import asyncio
import contextlib
import json
import math
import shutil
import tempfile
from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid, NotReplicated
from shared.core.settings import Settings
from shared.db.engine import write_gate
from shared.db.replica import sync_permit
from shared.db.replica.sync import API, Replication
from tests.shared.db.engine.test_write_gate import in_a_commit

SYNCED = b'HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n{"txid": 7, "replicated_txid": 7}\n'


class Stranger:
    """Listens while it is entered, and answers a question when the test says so; ``asked`` holds the bodies.

    With *keeps* it answers further questions over the same connection, as Litestream does.
    """

    def __init__(self, path, answer=SYNCED, *, is_held=False, keeps=False):
        self.path = path
        self.answer = answer
        self.keeps = keeps
        self.asked = []
        self.may_answer = asyncio.Event()
        if not is_held:
            self.may_answer.set()
        self.came = asyncio.Condition()
        self.answering = set()

    async def __aenter__(self):
        self.server = await asyncio.start_unix_server(self.serve, self.path)
        return self

    async def __aexit__(self, *_):
        self.may_answer.set()
        for _ in range(3):  # until a connection that nobody waits for any more is taken, and closed
            await asyncio.sleep(0)
        self.server.close()
        await asyncio.gather(*self.answering)

    async def serve(self, reader, writer):
        self.answering.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self.answer_one(reader, writer)
                while self.keeps:
                    await self.answer_one(reader, writer)
        finally:  # also where the loop ends first
            writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def answer_one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
        self.asked.append(json.loads(await reader.readexactly(length)))
        async with self.came:
            self.came.notify_all()
        await self.may_answer.wait()
        each = [self.answer] if isinstance(self.answer, bytes) else self.answer
        writer.write(each[min(len(self.asked), len(each)) - 1])
        await writer.drain()

    async def until_asked(self, times):
        async with self.came:
            await asyncio.wait_for(self.came.wait_for(lambda: len(self.asked) >= times), 60)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as name:
        sync_permit.grant(Path(name) / "l.sock", math.inf)
        yield Path(name)


def replication(folder, durability="replicated", **fields):
    values = {"db": folder / "p.db", "litestream_socket": folder / "l.sock", "durability": durability}
    values |= {"replication_timeout_ms": 60_000, **fields}
    return Replication(Settings.model_construct(**values), ("telegram", "discord"))


def play(folder, scenario, *, answer=SYNCED, is_held=False, keeps=False, **fields):
    """Run *scenario* with a Litestream that answers at once, or when the test says so."""

    async def go():
        async with Stranger(folder / "l.sock", answer, is_held=is_held, keeps=keeps) as stranger:
            waits = replication(folder, **fields)
            try:
                return await scenario(waits, stranger)
            finally:
                await waits.close()

    return asyncio.run(go())


def test_local_durability_asks_nothing(folder):
    async def scenario(waits, stranger):
        for channel in ("telegram", "discord", API):
            await waits.confirm(channel)
        return stranger.asked

    assert play(folder, scenario, durability="local") == []


def test_only_the_channels_that_say_so_wait(folder):
    async def scenario(waits, stranger):
        await waits.confirm("telegram")
        await waits.confirm(API)
        before = len(stranger.asked)
        await waits.confirm("discord")
        return before, len(stranger.asked)

    assert play(folder, scenario, durability="local, discord=replicated") == (0, 1)
    assert play(folder, scenario, durability="replicated,telegram=local,api=local") == (0, 1)


def test_the_question_names_the_database_and_asks_to_wait(folder):
    async def scenario(waits, stranger):
        await waits.confirm("telegram")
        return stranger.asked

    assert play(folder, scenario) == [{"path": str(folder / "p.db"), "wait": True, "timeout": 60}]


def test_a_later_caller_shares_the_next_answer_and_not_the_current_one(folder):
    """The question under way may have been asked before their commit."""

    async def scenario(waits, stranger):
        first = asyncio.create_task(waits.confirm("telegram"))
        await stranger.until_asked(1)
        later = [asyncio.create_task(waits.confirm("telegram")) for _ in range(20)]
        await asyncio.sleep(0)
        stranger.may_answer.set()
        await first
        stranger.may_answer.clear()
        await stranger.until_asked(2)
        assert not any(task.done() for task in later)
        stranger.may_answer.set()
        await asyncio.gather(*later)
        return len(stranger.asked)

    assert play(folder, scenario, is_held=True) == 2


class Timeless(asyncio.SelectorEventLoop):
    """No time passes: what waits for a timer waits for ever."""

    def time(self):
        return 0.0


def test_a_caller_that_is_alone_waits_for_no_timer(folder):
    async def scenario():
        async with Stranger(folder / "l.sock") as stranger:
            waits = replication(folder)
            for _ in range(3):
                await waits.confirm("telegram")
            await waits.close()
        return len(stranger.asked)

    with asyncio.Runner(loop_factory=Timeless) as runner:
        assert runner.run(scenario()) == 3


def http(body, status=b"200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


NO = {
    "an error of the bucket": (http(b'{"error":"replica sync: no such bucket"}', b"500 E"), "no such bucket"),
    "another database": (http(b'{"error":"database not found: /x"}', b"404 N"), "database not found"),
    "a replica that is behind": (http(b'{"txid":8,"replicated_txid":7}'), '"replicated_txid":7'),
    "an answer that did not wait": (http(b'{"txid":8}'), '{"txid":8}'),
    "no JSON": (http(b"fine"), "fine"),
    "nothing": (http(b""), "status 200"),
    "no HTTP": (b"what?\r\n\r\n", "does not answer"),
    "half an answer": (SYNCED[:-4], "does not answer"),
    "a closed connection": (b"", "does not answer"),
}


@pytest.mark.parametrize(("answer", "reason"), NO.values(), ids=NO)
def test_any_answer_but_yes_is_a_no(folder, answer, reason):
    async def scenario(waits, _):
        with pytest.raises(NotReplicated) as refused:
            await waits.confirm("telegram")
        return str(refused.value)

    assert reason in play(folder, scenario, answer=answer, keeps=answer.endswith(b"}"))


def test_a_yes_without_a_valid_permit_is_a_no(folder):
    """Litestream sends to where no restore reads, or another machine may have restored before."""

    async def scenario(waits, stranger):
        for until_s in (sync_permit.now_s() - 0.001, math.nan):
            sync_permit.grant(stranger.path, until_s)
            with pytest.raises(NotReplicated, match="lease has run out"):
                await waits.confirm("telegram")
        sync_permit.grant(stranger.path, sync_permit.now_s() + 60)
        await waits.confirm("telegram")
        sync_permit.revoke(stranger.path)
        with pytest.raises(NotReplicated, match="no full copy"):
            await waits.confirm("telegram")

    play(folder, scenario)


def test_the_permit_is_read_after_litestream_has_answered(folder):
    async def scenario(waits, stranger):
        waiting = asyncio.create_task(waits.confirm("telegram"))
        await stranger.until_asked(1)
        sync_permit.revoke(stranger.path)
        stranger.may_answer.set()
        with pytest.raises(NotReplicated):
            await waiting

    play(folder, scenario, is_held=True)


def test_a_yes_after_a_death_in_a_commit_is_a_no_until_another_litestream_begins(folder, fresh_database):
    """Litestream may have sent that commit. Its supervisor is frozen, say: the permit is still valid."""
    database = Path(shutil.copy(fresh_database, folder / "p.db"))
    with in_a_commit(database) as victim:
        victim.die()
    assert write_gate.check_torn(database)

    async def scenario(waits, _):
        with pytest.raises(NotReplicated, match="died in a commit"):
            await waits.confirm("telegram")
        with write_gate.reset_marks(database, 0):  # as before the start of another
            pass
        await waits.confirm("telegram")

    play(folder, scenario)


def test_a_position_that_moved_on_is_asked_again(folder):
    """Litestream's monitor takes in newer commits between its sync and its answer: the next answer decides."""
    newer = http(b'{"txid":9,"replicated_txid":7}')

    async def scenario(waits, stranger):
        await waits.confirm("telegram")
        return len(stranger.asked)

    assert play(folder, scenario, answer=(newer, http(b'{"txid":12,"replicated_txid":9}')), keeps=True) == 2
    with pytest.raises(NotReplicated, match='"replicated_txid":8'):
        play(folder, scenario, answer=(newer, http(b'{"txid":9,"replicated_txid":8}')), keeps=True)


def test_a_missing_litestream_is_a_no_and_the_next_question_reaches_a_new_one(folder):
    async def scenario():
        waits = replication(folder)
        with pytest.raises(NotReplicated, match="FileNotFoundError"):
            await waits.confirm("telegram")
        for _ in range(2):
            (folder / "l.sock").unlink(missing_ok=True)
            async with Stranger(folder / "l.sock"):
                await waits.confirm("telegram")
        await waits.close()

    asyncio.run(scenario())


def test_a_silent_litestream_is_a_no_in_time_and_is_asked_again(folder):
    async def scenario(waits, stranger):
        for _ in range(2):
            with pytest.raises(NotReplicated):
                await waits.confirm("telegram")
        stranger.may_answer.set()
        waits._patience._limit_s = waits._question._limit_s = 60.0  # of a busy machine
        await waits.confirm("telegram")

    play(folder, scenario, is_held=True, replication_timeout_ms=50)


def test_a_later_caller_waits_no_longer_than_the_first_for_a_silent_litestream(folder):
    """A question for the second caller may still be under way then; nothing has waited for its end."""

    async def scenario(waits, stranger):
        waiting = [asyncio.create_task(waits.confirm("telegram"))]
        await stranger.until_asked(1)
        waiting.append(asyncio.create_task(waits.confirm("telegram")))
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert len(stranger.asked) == 1 or waits._question._connecting or waits._question._connection
        return [type(each) for each in told]

    assert play(folder, scenario, is_held=True, replication_timeout_ms=1000) == [NotReplicated] * 2


def test_marks_that_can_not_be_read_are_a_no_and_are_not_asked_about_for_ever(folder):
    (folder / "p.db-gate").mkdir()

    async def scenario(waits, stranger):
        with pytest.raises(NotReplicated, match="IsADirectoryError"):
            await waits.confirm("telegram")
        return len(stranger.asked)

    assert play(folder, scenario, replication_timeout_ms=2000) == 1


def test_nothing_is_asked_after_a_stop(folder):
    """Not even for a caller that has come in the same turn of the event loop, or that comes later."""

    async def scenario(waits, stranger):
        await waits.confirm("telegram")
        waiting = asyncio.create_task(waits.confirm("telegram"))
        closing = asyncio.create_task(waits.close())
        late = asyncio.create_task(waits.confirm("telegram"))
        told = await asyncio.gather(waiting, late, return_exceptions=True)
        await closing
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stranger.until_asked(2), 0.2)
        return len(stranger.asked), [type(each) for each in told]

    assert play(folder, scenario, keeps=True) == (1, [NotReplicated] * 2)


def test_a_position_of_an_earlier_litestream_says_nothing_about_a_later_one(folder):
    """The first one said: not yet. It ended, and the next one, which counts from elsewhere, is further on than that."""
    behind, other = http(b'{"txid":9,"replicated_txid":7}'), http(b'{"txid":30,"replicated_txid":12}')

    async def scenario(waits, _):
        with pytest.raises(NotReplicated, match="does not answer"):
            await waits.confirm("telegram")

    play(folder, scenario, answer=(behind, other))


def test_a_stop_fails_the_waiting_callers(folder):
    async def scenario(waits, stranger):
        waiting = [asyncio.create_task(waits.confirm("telegram"))]
        await stranger.until_asked(1)
        waiting.append(asyncio.create_task(waits.confirm("telegram")))
        await asyncio.sleep(0)
        await waits.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(each) for each in play(folder, scenario, is_held=True)] == [NotReplicated] * 2


WRONG = (
    "replicate",
    "telegram",
    "=local",
    "local,replicated",
    "telegram=local,telegram=replicated",
    "local,",
    "*=local,local",
)


@pytest.mark.parametrize("text", WRONG)
def test_an_impossible_setting_is_refused(monkeypatch, text):
    monkeypatch.setenv("POSTROOM_DURABILITY", text)
    with pytest.raises(ConfigInvalid, match=r"POSTROOM_DURABILITY.*local,telegram=replicated"):
        Settings.load()


def test_an_unknown_channel_and_a_missing_socket_are_refused_at_the_start(folder):
    with pytest.raises(ConfigInvalid, match=r"known: .*telegram"):
        replication(folder, "telegramm=replicated")
    with pytest.raises(ConfigInvalid, match="POSTROOM_LITESTREAM_SOCKET"):
        replication(folder, "telegram=replicated", litestream_socket=None)
    replication(folder, "telegram=local", litestream_socket=None)
