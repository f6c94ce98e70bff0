"""A model API on loopback that does what the prompt says (``model_script``), in three dialects, streamed and whole.

For a test: ``async with serving() as api``, then ``api.url`` and ``api.asked()``; ``serving_beside`` in a thread.
By hand: ``python -m tests.agents.model_api 8999``, then ``POSTROOM_ANTHROPIC_BASE_URL=http://127.0.0.1:8999`` (for
OpenAI's dialects ``POSTROOM_OPENAI_BASE_URL=http://127.0.0.1:8999/v1``) and any key; ``GET /log`` has the requests.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from threading import Thread

from aiohttp import web

from tests.agents.model_dialects import DIALECTS, Event
from tests.agents.model_script import Answer, Conversation, Directive, Script
from tests.shared.turns.gateway.model_host import hosting

_FOR_EVER_S = 3600.0


@dataclass
class Asked:
    """One request of a model. *answered*: the status, or the word of a failure."""

    path: str
    headers: dict[str, str]
    conversation: Conversation
    body: dict
    answered: str = ""


@dataclass
class ModelApi:
    """Answers requests. *key*: what each must bring as its key or bearer; None: anything goes."""

    key: str | None = None
    url: str = ""
    log: list[Asked] = field(default_factory=list)
    script: Script = field(default_factory=Script)

    def asked(self, text: str = "") -> list[Asked]:
        """The requests whose body has *text*."""
        return [each for each in list(self.log) if text in json.dumps(each.body, ensure_ascii=False)]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        if request.path == "/log":
            return web.json_response(
                [{"path": each.path, "body": each.body, "got": each.answered} for each in self.log]
            )
        dialect = next((each for each in DIALECTS if request.path.endswith(each.path)), None)
        if request.method != "POST" or dialect is None:
            return self._small(request)
        body = json.loads(await request.read())
        asked = Asked(request.path, dict(request.headers), dialect.read(body), body)
        self.log.append(asked)
        if self.key not in (None, request.headers.get("x-api-key"), _bearer(request)):
            asked.answered = "401"
            return web.json_response(dialect.error(401, "invalid x-api-key"), status=401)
        answer = self.script.answer(asked.conversation)
        asked.answered = answer.failure.word if answer.failure else "200"
        return await _Reply(request, dialect, asked.conversation, answer).send()

    def _small(self, request: web.Request) -> web.Response:
        if request.path.endswith("/count_tokens"):
            return web.json_response({"input_tokens": 1})
        if request.path.endswith("/models"):
            return web.json_response({"object": "list", "data": [{"id": "scripted-1", "object": "model"}]})
        return web.Response(status=200 if request.method == "HEAD" else 404)


class _Reply:
    """The answer to one request."""

    def __init__(self, request: web.Request, dialect, conversation: Conversation, answer: Answer) -> None:
        self._request = request
        self._dialect = dialect
        self._conversation = conversation
        self._answer = answer

    async def send(self) -> web.StreamResponse:
        failure = self._answer.failure
        if failure is None:
            return await self._whole() if not self._conversation.is_streamed else await self._stream(self._events())
        match failure.word:
            case "status":
                return self._status(failure)
            case "quota":
                return self._quota(int(failure.rest.split()[0]))
            case "hang":
                await asyncio.sleep(_FOR_EVER_S)
            case "html":
                return web.Response(text="<html><body>Bad gateway</body></html>", content_type="text/html")
            case "garbage":
                return await self._stream([(None, "{not json"), (None, "\x00\x01")])
        return await self._broken(failure.word)

    async def _whole(self) -> web.Response:
        await asyncio.sleep(self._answer.slow_s * len(self._answer.text.split()))
        return web.json_response(self._dialect.write(self._conversation, self._answer))

    async def _broken(self, word: str) -> web.StreamResponse:
        """An answer that begins: then silence (``stall``), a torn connection (``cut``) or a clean end (``end``)."""
        self._answer.failure = None
        self._answer.text = "This answer is not"
        events = self._events()
        reply = await self._stream(events[: len(events) // 2 + 1], is_whole=False)
        if word == "stall":
            await asyncio.sleep(_FOR_EVER_S)
        if word == "cut" and self._request.transport is not None:
            self._request.transport.abort()
        else:
            await reply.write_eof()
        return reply

    def _events(self) -> list[Event]:
        return list(self._dialect.events(self._conversation, self._answer))

    async def _stream(self, events: Iterable[Event], *, is_whole: bool = True) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(self._request)
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            text = data if isinstance(data, str) else json.dumps(data)
            await reply.write(f"{head}data: {text}\n\n".encode())
            await asyncio.sleep(self._answer.slow_s)
        if is_whole:
            await reply.write_eof()
        return reply

    def _status(self, failure: Directive) -> web.Response:
        status, wait = int(failure.rest.split()[0]), failure.option("retry-after")
        headers = {"retry-after": wait} if wait else {}
        return web.json_response(self._dialect.error(status, f"scripted {status}"), status=status, headers=headers)

    def _quota(self, wait_s: int) -> web.Response:
        body, headers = self._dialect.quota(int(time.time()) + wait_s, wait_s)
        return web.json_response(body, status=429, headers=headers)


def _bearer(request: web.Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


@contextlib.asynccontextmanager
async def serving(key: str | None = None, port: int = 0) -> AsyncGenerator[ModelApi, None]:
    """A running model API."""
    api = ModelApi(key)
    async with hosting(api.answer, port) as host:
        api.url = host.url
        yield api


@contextlib.contextmanager
def serving_beside(key: str | None = None):
    """The same in a thread of its own, for a test that starts processes."""
    loop, api_ready = asyncio.new_event_loop(), asyncio.Event()
    started: list[ModelApi] = []
    over = asyncio.Event()

    async def serve() -> None:
        async with serving(key) as api:
            started.append(api)
            loop.call_soon(api_ready.set)
            await over.wait()

    thread = Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(api_ready.wait(), loop).result(30)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


async def _main(port: int) -> None:
    async with serving(port=port) as api:
        print(f"a scripted model listens on {api.url}; what it can: tests/agents/model_script.py", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
