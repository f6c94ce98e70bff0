import asyncio

import pytest

from shared.core.text import redaction
from shared.db.spending.usage import TurnName
from shared.turns.gateway.tokens import ProgramTurn, TokenBook

NAME = TurnName("turn_1", "coder", "session_1")
FIRST = ProgramTurn(NAME, print)
SECOND = ProgramTurn(TurnName("turn_2", "coder", "session_1"), print)


def issue(book, prefix=""):
    return book.issue(NAME, "anthropic", prefix)


def test_a_token_is_good_only_in_a_turn():
    book = TokenBook()
    token = issue(book)
    assert (book.knows(token), book.turn(token)) == (True, None)
    book.begin(token, FIRST)
    assert book.turn(token) is FIRST
    book.begin(token, SECOND)
    assert book.turn(token) is SECOND
    book.end(token)
    assert (book.knows(token), book.turn(token)) == (True, None)
    book.revoke(token)
    book.revoke(token)
    assert (book.knows(token), book.turn(token)) == (False, None)


def test_a_token_that_was_never_issued_begins_no_turn():
    with pytest.raises(KeyError):
        TokenBook().begin("made up", FIRST)


@pytest.mark.parametrize("other", [NAME._replace(agent="writer"), NAME._replace(session="session_2")])
def test_a_program_runs_turns_of_its_own_session_only(other):
    book = TokenBook()
    token = issue(book)
    with pytest.raises(KeyError, match="another session"):
        book.begin(token, ProgramTurn(other, print))
    assert book.turn(token) is None


def test_two_programs_have_two_tokens_in_the_form_that_they_want():
    book = TokenBook()
    one, two = issue(book, "sk-ant-oat01-"), issue(book, "sk-ant-oat01-")
    assert one != two
    assert one.startswith("sk-ant-oat01-")
    book.begin(one, FIRST)
    assert book.turn(two) is None


def test_a_token_is_never_in_a_log():
    token = issue(TokenBook())
    assert redaction.redact(f"Bearer {token}") == "Bearer ***"


def test_the_end_of_a_turn_cuts_its_requests_off():
    async def go():
        book, turn = TokenBook(), ProgramTurn(NAME, print)
        token = issue(book)
        book.begin(token, turn)
        request = asyncio.create_task(asyncio.sleep(300))
        turn.requests.add(request)
        await asyncio.sleep(0)
        book.end(token)
        return await asyncio.gather(request, return_exceptions=True)

    (ended,) = asyncio.run(go())
    assert isinstance(ended, asyncio.CancelledError)
