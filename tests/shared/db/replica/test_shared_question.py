"""One connection for many questions. A socket plays a Litestream that keeps connections open."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest

from shared.db.replica import control_socket
from shared.db.replica.shared_question import SharedQuestion

YES = b'{"txid": 7, "replicated_txid": 7}'
BEHIND = b'{"txid": 9, "replicated_txid": 7}'


class Litestream:
    """Answers each question with *answers* in turn, the last one for ever; while ``may_answer`` is not set, none."""

    def __init__(self, *answers):
        self.answers = list(answers) or [YES]
        self.questions = []  # the number of the connection, for each
        self.connections = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    async def serve(self, reader, writer):
        self.connections.append(writer)
        number = len(self.connections)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
                await reader.readexactly(length)
                self.questions.append(number)
                self.asked.set()
                await self.may_answer.wait()
                body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async def until_asked(self):
        await asyncio.wait_for(self.asked.wait(), 60)
        self.asked.clear()


@pytest.fixture
def path():
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as name:
        yield Path(name) / "l.sock"


def play(path, scenario, *answers, limit_s=60.0, check=lambda: None):
    async def go():
        litestream = Litestream(*answers)
        request = control_socket.sync_request(Path("/p.db"), limit_s, wait=True)
        question = SharedQuestion(path, request, limit_s, check)
        async with await asyncio.start_unix_server(litestream.serve, path):
            try:
                return await asyncio.wait_for(scenario(question, litestream), 60)
            finally:
                await question.close()
                for _ in range(3):  # the handlers read the end of their connections
                    await asyncio.sleep(0)

    return asyncio.run(go())


def test_questions_that_follow_each_other_use_one_connection(path):
    async def scenario(question, litestream):
        found = [await question.wait() for _ in range(3)]
        return found, litestream.questions

    assert play(path, scenario) == ([None] * 3, [1, 1, 1])


def test_callers_of_one_turn_share_a_question(path):
    async def scenario(question, litestream):
        found = await asyncio.gather(*(question.wait() for _ in range(20)))
        return found, len(litestream.questions)

    assert play(path, scenario) == ([None] * 20, 1)


def test_the_next_question_is_sent_before_the_callers_of_the_last_go_on(path):
    """They take the event loop for milliseconds; Litestream works meanwhile."""
    sent = []

    async def scenario(question, litestream):
        send = control_socket.Connection.send
        litestream.may_answer.clear()
        first = question.wait()
        await litestream.until_asked()
        second = question.wait()
        first.add_done_callback(lambda _: sent.append("first goes on"))
        connection = question._connection
        connection.send = lambda request: sent.append("second is asked") or send(connection, request)
        litestream.may_answer.set()
        await second

    play(path, scenario)
    assert sent == ["second is asked", "first goes on"]


def test_who_comes_while_a_question_is_under_way_is_not_told_its_answer(path):
    async def scenario(question, litestream):
        litestream.may_answer.clear()
        first = question.wait()
        await litestream.until_asked()
        second = question.wait()
        litestream.may_answer.set()
        return await first, await second, len(litestream.questions)

    first, second, asked = play(path, scenario, YES, b'{"txid": 9, "replicated_txid": 8}')
    assert (first, second) == (None, '{"txid": 9, "replicated_txid": 8}')
    assert asked == 3  # the second one twice: the replica was behind


def test_a_question_that_litestream_took_along_when_it_ended_is_asked_again_of_the_next_one(path):
    async def scenario(question, litestream):
        await question.wait()
        litestream.may_answer.clear()
        waiting = question.wait()
        await litestream.until_asked()  # of the first question
        while len(litestream.questions) < 2:  # noqa: ASYNC110 - each round lets the server read
            await asyncio.sleep(0)
        litestream.connections[0].transport.abort()
        while len(litestream.connections) < 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        litestream.may_answer.set()
        return await waiting, litestream.questions

    assert play(path, scenario) == (None, [1, 1, 2])


def test_a_litestream_that_closes_each_new_connection_is_a_no(path):
    async def scenario(question, litestream):
        litestream.may_answer.clear()
        waiting = question.wait()
        await litestream.until_asked()
        litestream.connections[0].transport.abort()
        return await waiting, litestream.questions

    problem, questions = play(path, scenario)
    assert "does not answer" in problem
    assert questions == [1]


def test_the_late_answer_to_a_question_that_was_given_up_is_nobodys_answer(path):
    """It says nothing about what was committed since."""

    async def scenario(question, litestream):
        litestream.may_answer.clear()
        given_up = await question.wait()
        question._limit_s = 60.0  # of a busy machine
        later = question.wait()
        litestream.may_answer.set()
        return given_up, await later, litestream.questions

    given_up, later, questions = play(path, scenario, limit_s=0.05)
    assert "did not answer within 0.05 s" in given_up
    assert later is None
    assert questions == [1, 2], "the old connection is closed with its answer"


def test_what_is_wrong_beside_a_yes_is_a_no(path):
    async def scenario(question, _):
        return await question.wait()

    assert play(path, scenario, check=lambda: "the lease has run out") == "the lease has run out"


def test_a_replica_that_was_behind_at_the_first_answer_is_a_yes_once_it_is_there(path):
    async def scenario(question, litestream):
        return await question.wait(), len(litestream.questions)

    assert play(path, scenario, BEHIND, b'{"txid": 12, "replicated_txid": 9}') == (None, 2)
