"""A function that misbehaves on request, served by the runner's tests as it would serve a real one."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from shared.core import logs
from shared.runtime import framework
from shared.runtime.app import AppResponse

log = logs.get()


async def healthz(_):
    return JSONResponse({"ok": True})


async def hello(request):
    return JSONResponse({"lifespan": request.state.made_by, "query": request.url.query})


async def slow(request):
    try:
        await asyncio.sleep(float(request.query_params["s"]))
    finally:
        log.info("sample.slow_left")
    return PlainTextResponse("slept")


async def block(request):
    log.info("sample.blocking")
    time.sleep(float(request.query_params["s"]))  # noqa: ASYNC251 - the point of it
    return PlainTextResponse("blocked")


async def threads(_):
    return JSONResponse({"hand_over_after_s": sys.getswitchinterval()})


async def drip(request):
    """Starts at once and takes its time: 1 byte every *s* / 10 seconds."""

    async def parts():
        for _ in range(10):
            yield b"."
            await asyncio.sleep(float(request.query_params["s"]) / 10)

    return StreamingResponse(parts(), media_type="text/plain")


async def stream(_):
    async def events():
        try:
            yield "data: connected\n\n"
            await asyncio.Event().wait()
        finally:
            log.info("sample.stream_left")

    return StreamingResponse(events(), media_type="text/event-stream")


async def broken(_):
    secret_local = "do-not-log-me"
    raise RuntimeError(f"broken on purpose, {len(secret_local)}")


async def breaks_off(_):
    async def parts():
        yield b"half"
        raise RuntimeError("broken in the middle")

    return StreamingResponse(parts(), media_type="text/plain")


async def own_timeout(_):
    raise TimeoutError("of something that the function waited for")


_app = Starlette(
    routes=[
        Route("/healthz", healthz),
        Route("/hello", hello),
        Route("/slow", slow),
        Route("/block", block),
        Route("/threads", threads),
        Route("/drip", drip),
        Route("/stream", stream),
        Route("/broken", broken),
        Route("/breaks-off", breaks_off),
        Route("/own-timeout", own_timeout),
    ]
)


@framework.http
async def sample(_):
    return AppResponse(_app)


@asynccontextmanager
async def lifespan(_):
    log.info("sample.opened")
    yield {"made_by": "lifespan"}
    log.info("sample.closed")
