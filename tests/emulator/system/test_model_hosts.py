"""Faults of models, between the real gateway of agents' programs and a host: what the turn learns of each."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from emulator.base.faults import Fault, Faults
from emulator.system.model_hosts import ModelHosts
from tests.shared.turns.gateway.model_host import KEY, NAMES, PATHS, Program, hosting, running, stream_of

VARIABLES = {
    "POSTROOM_ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    "POSTROOM_OPENAI_BASE_URL": "https://api.openai.com/v1",
    "POSTROOM_LOCAL_MODELS_URL": None,
    "POSTROOM_MODEL_PRICES": None,
}
ASKED = {"model": "m", "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@contextlib.asynccontextmanager
async def before(url: str, variable: str = "POSTROOM_ANTHROPIC_BASE_URL") -> AsyncIterator[tuple[Faults, str]]:
    """The faults of models, and the address that the gateway asks in place of *url*."""
    faults = Faults("models", lambda: 0)
    hosts = ModelHosts(faults, VARIABLES)
    await hosts.start()
    try:
        yield faults, hosts.instead({variable: url})[variable]
    finally:
        await hosts.stop()


def turn(
    db: Path, folder: Path, *faults: dict[str, Any], dialect: str = "messages"
) -> tuple[list[Any], list[Any], list[Any]]:
    """Two requests of a turn, where the first has the faults: what the program gets, and the turn, and the host."""

    async def ask(program: Program) -> Any:
        path = PATHS[dialect].removeprefix("/v1") if dialect != "messages" else PATHS[dialect]
        try:
            async with program.post(path, json=ASKED) as answer:
                body = await answer.read()
                kind = answer.headers["content-type"].partition(";")[0]
                return answer.status, kind, answer.headers.get("retry-after"), body
        except aiohttp.ClientError as error:
            return type(error).__name__

    async def scenario() -> tuple[list[Any], list[Any], list[Any]]:
        name, upstream = NAMES[dialect], dialect
        variable = f"POSTROOM_{name.upper()}_BASE_URL"
        async with hosting(stream_of(upstream)) as host, before(host.url, variable) as (book, url):
            for fault in faults:
                book.add(Fault.parse("models", fault))
            given = {f"{name}_base_url": url}
            async with running(db, folder / "run", host, name, **given) as program:
                got = [await ask(program), await ask(program)]
                return got, [each.reason for each in program.refusals], host.requests

    return asyncio.run(scenario())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def test_without_a_fault_the_host_gets_all_and_its_stream_comes_back(db: Path, place: Path) -> None:
    (first, _), reasons, requests = turn(db, place)
    assert (first[0], first[1], reasons) == (200, "text/event-stream", [])
    assert [each.headers["x-api-key"] for each in requests] == [KEY, KEY]


@pytest.mark.parametrize(
    ("fault", "reason", "reaches_host"),
    [
        ({"kind": "status"}, "overloaded", False),
        ({"kind": "status", "status": 429, "retry_after": 7}, "rate_limited", False),
        ({"kind": "status", "status": 401}, "login_refused", False),
        ({"kind": "drop"}, "unreachable", False),
        ({"kind": "cut"}, "cut", True),
        ({"kind": "garbage"}, "cut", False),
        ({"kind": "status", "method": "anthropic"}, "overloaded", False),
    ],
)
@pytest.mark.parametrize("dialect", ["messages"])
def test_a_fault_is_told_to_the_turn_as_that_of_a_host_is_and_the_next_request_goes_through(
    db: Path, place: Path, fault: dict[str, Any], reason: str, *, reaches_host: bool, dialect: str
) -> None:
    (_, second), reasons, requests = turn(db, place, fault, dialect=dialect)
    assert reasons == [reason]
    assert second[0] == 200
    assert len(requests) == 1 + reaches_host


def test_a_rate_limit_names_its_seconds(db: Path, place: Path) -> None:
    (first, _), _, _ = turn(db, place, {"kind": "status", "status": 429, "retry_after": 7})
    assert (first[0], first[2]) == (429, "7")
    assert json.loads(first[3])["error"]["type"] == "rate_limit_error"


def test_a_fault_of_another_host_is_not_of_this_one(db: Path, place: Path) -> None:
    got, reasons, requests = turn(db, place, {"kind": "drop", "method": "openai"})
    assert ([each[0] for each in got], reasons, len(requests)) == ([200, 200], [], 2)


def test_every_host_that_is_set_is_asked_through_us_and_no_other_setting_changes() -> None:
    hosts = ModelHosts(Faults("models", lambda: 0), VARIABLES)
    assert set(hosts.instead({"PATH": "/bin"})) == {"POSTROOM_ANTHROPIC_BASE_URL", "POSTROOM_OPENAI_BASE_URL"}
    local = hosts.instead({"POSTROOM_LOCAL_MODELS_URL": "http://127.0.0.1:11434/v1/"})["POSTROOM_LOCAL_MODELS_URL"]
    assert local.endswith("/local")
