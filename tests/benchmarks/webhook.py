"""Webhook to reply on real processes: functions by the runner, a fake platform that notes when it is called."""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.benchmarks.measure import percentile

_SECRET = "benchmark-secret"
_SERVE = """
import socket, sys
from infra.runner import serve
name, package, fd = sys.argv[1:]
sys.exit(serve(name, package=package, sock=socket.socket(fileno=int(fd)), timeout_ms=10_000))
"""
_REPLIES = 300
_LOAD_S = 3.0
_ROUNDS = 5
_CONCURRENCY = 32


@contextmanager
def _function(name: str, environment: dict[str, str], package: str = "functions") -> Iterator[str]:
    """The function in a process of its own; its URL, once it is healthy."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, name, package, str(sock.fileno())],
        env=environment,
        pass_fds=[sock.fileno()],
        stdout=subprocess.DEVNULL,
    )
    sock.close()
    try:
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _environment(folder: Path, platform_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path.cwd()),
        "POSTROOM_DB": str(folder / "postroom.db"),
        "POSTROOM_RUN_DIR": str(folder / "run"),
        "POSTROOM_AGENTS_DIR": str(folder / "agents"),
        "POSTROOM_NEW_CHATS": "wire",
        "POSTROOM_TICK_SECRET": "benchmark",
        "TELEGRAM_BOT_TOKEN": "7100200300:benchmark-token-benchmark-token-aaaa",
        "TELEGRAM_WEBHOOK_SECRET": _SECRET,
        "TELEGRAM_API_BASE": platform_url,
    }


def _update(number: int, chat: int) -> dict[str, object]:
    person = {"id": chat, "is_bot": False, "first_name": "Ana"}
    return {
        "update_id": number,
        "message": {
            "message_id": number,
            "date": 1_760_000_000,
            "chat": {"id": chat, "type": "private", "first_name": "Ana"},
            "from": person,
            "text": f"message {number}",
        },
    }


class _Platform:
    """Answers sendMessage, and remembers when it was called with which text."""

    def __init__(self) -> None:
        self.called: dict[str, asyncio.Future[float]] = {}

    async def send_message(self, request: web.Request) -> web.Response:
        text = (await request.json())["text"]
        waiter = self.called.get(text)
        if waiter is not None and not waiter.done():
            waiter.set_result(time.perf_counter())
        return web.json_response({"ok": True, "result": {"message_id": 1}})


async def _latencies(ingest: str, platform: _Platform, session: aiohttp.ClientSession) -> list[float]:
    """Milliseconds from the webhook's first byte to the platform's call, one message at a time."""
    found = []
    for number in range(1, _REPLIES + 1):
        waiter: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        platform.called[f"You said: message {number}"] = waiter
        start = time.perf_counter()
        await _post(session, ingest, number, chat=1000 + number % 10)
        found.append((await asyncio.wait_for(waiter, 20) - start) * 1000)
    return found[_REPLIES // 10 :]


async def _post(session: aiohttp.ClientSession, url: str, number: int, *, chat: int) -> None:
    async with session.post(
        f"{url}/webhooks/telegram",
        data=json.dumps(_update(number, chat)),
        headers={"X-Telegram-Bot-Api-Secret-Token": _SECRET},
    ) as answer:
        if answer.status != 200:
            raise RuntimeError(f"ingest answered {answer.status}: {await answer.text()}")


async def _load(session: aiohttp.ClientSession, url: str, first: int) -> tuple[float, list[float]]:
    """Requests per second and their milliseconds, with 32 at a time."""
    numbers = iter(range(first, first + 10_000_000))
    times: list[float] = []
    end = time.perf_counter() + _LOAD_S

    async def client() -> None:
        while (start := time.perf_counter()) < end:
            number = next(numbers)
            await _post(session, url, number, chat=5000 + number % 50)
            times.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(client() for _ in range(_CONCURRENCY)))
    return len(times) / _LOAD_S, times


async def _measure(folder: Path) -> list[str]:
    platform = _Platform()
    app = web.Application()
    app.router.add_post("/bot{token}/sendMessage", platform.send_message)
    runner = web.AppRunner(app)
    await runner.setup()
    sock = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, sock).start()
    environment = _environment(folder, f"http://127.0.0.1:{sock.getsockname()[1]}")
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
            with (
                _function("ingest", environment) as ingest,
                _function("parse_only", environment, "tests.benchmarks") as parse_only,
            ):
                await _healthy(session, ingest)
                await _healthy(session, parse_only)
                with _function("dispatch", environment) as dispatch, _function("deliver", environment) as deliver:
                    await _healthy(session, dispatch)
                    await _healthy(session, deliver)
                    latencies = await _latencies(ingest, platform, session)
                rounds = []
                for number in range(_ROUNDS):
                    reference, _ = await _load(session, parse_only, 10_000_000 * (2 * number + 1))
                    measured, times = await _load(session, ingest, 10_000_000 * (2 * number + 2))
                    rounds.append((measured, measured / reference, percentile(times, 0.99)))
    finally:
        await runner.cleanup()
    return [*_reply_lines(latencies), *_ingest_lines(rounds)]


def _reply_lines(latencies: list[float]) -> list[str]:
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    return [
        "| what | measured | bar | measured / bar |",
        "|---|---|---|---|",
        f"| webhook in → platform called, echo agent, idle: p50 | {p50:.1f} ms | ≤ 15 ms | {p50 / 15:.2f} |",
        f"| the same, p99 | {p99:.1f} ms | ≤ 60 ms | {p99 / 60:.2f} |",
    ]


def _ingest_lines(rounds: list[tuple[float, float, float]]) -> list[str]:
    rate, ratio, p99 = (statistics.median(column) for column in zip(*rounds, strict=True))
    spread = f"{min(each[1] for each in rounds):.2f} to {max(each[1] for each in rounds):.2f}"
    return [
        f"| ingest, 32 at a time, FULL: rate / the same without storing | {rate:,.0f}/s, {ratio:.2f} ({spread})"
        f" | ≥ 0.60 | {ratio / 0.60:.2f} |",
        f"| the same, p99 (the client shares the machine) | {p99:.1f} ms | ≤ 20 ms | {p99 / 20:.2f} |",
    ]


async def _healthy(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(15), session.get(f"{url}/healthz") as answer:
        answer.raise_for_status()


def run() -> list[str]:
    """The table's lines."""
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_measure(Path(name)))
