import asyncio

import pytest

from shared.core import redaction
from shared.db.spending.usage import TurnName
from shared.gateway.tokens import ModelTurn, TokenBook

FIRST = ModelTurn(TurnName("turn_1", "coder", "session_1"), "anthropic", print)
SECOND = ModelTurn(TurnName("turn_2", "coder", "session_1"), "anthropic", print)


def test_a_token_is_good_only_in_a_turn():
    book = TokenBook()
    token = book.issue()
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


def test_two_programs_have_two_tokens_in_the_form_that_they_want():
    book = TokenBook()
    one, two = book.issue("sk-ant-oat01-"), book.issue("sk-ant-oat01-")
    assert one != two
    assert one.startswith("sk-ant-oat01-")
    book.begin(one, FIRST)
    assert book.turn(two) is None


def test_a_token_is_never_in_a_log():
    token = TokenBook().issue()
    assert redaction.redact(f"Bearer {token}") == "Bearer ***"


def test_the_end_of_a_turn_cuts_its_requests_off():
    async def go():
        book, turn = TokenBook(), ModelTurn(TurnName("turn_1", "coder", "session_1"), "anthropic", print)
        token = book.issue()
        book.begin(token, turn)
        request = asyncio.create_task(asyncio.sleep(300))
        turn.requests.add(request)
        await asyncio.sleep(0)
        book.end(token)
        return await asyncio.gather(request, return_exceptions=True)

    (ended,) = asyncio.run(go())
    assert isinstance(ended, asyncio.CancelledError)
