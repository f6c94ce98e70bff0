import asyncio

import httpx

from shared.channels import token_check
from shared.runtime.http_client import RequestNotSent
from tests.fake_client import FakeClient


def problem(channel, answer):
    def platform(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asyncio.run(token_check.problem(channel, FakeClient(platform)))


def test_an_accepted_token_has_no_problem(telegram):
    assert problem(telegram, httpx.Response(200, json={"ok": True, "result": {"id": 1}})) is None


def test_a_refusal_an_outage_and_a_bug_are_problems(telegram):
    assert "401" in problem(telegram, httpx.Response(401, json={"description": "Unauthorized"}))
    assert "can't be reached" in problem(telegram, RequestNotSent("refused"))
    assert "ZeroDivisionError" in problem(telegram, ZeroDivisionError("a bug at http://secret"))
    assert "secret" not in problem(telegram, ZeroDivisionError("a bug at http://secret"))
