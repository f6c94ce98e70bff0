"""What stands between the functions and the hosts of models, once a fault of models was set.

The first such fault starts ``dispatch`` anew, with this address in place of the hosts'. From then on a request that has
no fault goes to its host with all that it has, our key too, and the answer comes back as it comes. Programs with a
login of their own ask their host themselves, and have no faults.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from emulator.base import ports
from emulator.base.door import is_other_user
from emulator.base.faults import Fault, Faults
from emulator.base.limited_site import LimitedSite
from emulator.platforms.request_parts import hang_up

_MOST_BYTES = 100 * 1024 * 1024  # of a request; the model gateway takes less
_NOT_PASSED_ON = frozenset(("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"))
_WORDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "model_not_found",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_PAGE = "<!doctype html><title>502 Bad Gateway</title><h1>A page of a proxy, in place of an answer</h1>"


class ModelHosts:
    """Passes requests on to the hosts of models, unless they have a fault.

    Args:
        variables: the settings that name the hosts, each with its value where none is set.
    """

    def __init__(self, faults: Faults, variables: Mapping[str, str | None]) -> None:
        self._faults = faults
        self._variables = variables
        self._hosts: dict[str, str] = {}  # the real addresses, by name
        self._url = ""
        self._site: LimitedSite | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Serve on a free port."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{host}/{rest:.*}", self._answer)
        self._site = LimitedSite("the hosts of models", app, handler_cancellation=True, shutdown_timeout=0.5)
        listening = ports.listen(0)
        self._url = f"http://127.0.0.1:{listening.port}"
        tls = await asyncio.to_thread(ssl.create_default_context)  # it reads all certificates of this machine
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        await self._site.start(listening.sock)

    async def stop(self) -> None:
        """Cut off what is under way."""
        if self._site is not None:
            await self._site.stop()
        if self._session is not None:
            await self._session.close()

    def instead(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The settings of *environment* with our address in place of each host's that it has."""
        changed = {}
        for variable, default in self._variables.items():
            if not variable.endswith("_URL"):
                continue
            if real := environment.get(variable) or default:
                name = variable.removeprefix("POSTROOM_").lower().partition("_")[0]
                self._hosts[name] = real.rstrip("/")
                changed[variable] = f"{self._url}/{name}"
        return changed

    def is_asked_with(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this *environment* asks us."""
        return any(value.startswith(f"{self._url}/") for value in environment.values())

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["host"]
        if is_other_user(request) or name not in self._hosts:
            return web.json_response({"error": "this is for the functions of the emulator only"}, status=403)
        fault = self._faults.take(name)
        if fault is not None and fault.kind == "delay":
            await asyncio.sleep(fault.delay_ms / 1000)
        elif fault is not None and fault.kind == "drop":
            return hang_up(request)
        elif fault is not None and fault.kind == "garbage":
            return web.Response(text=_PAGE, content_type="text/html")
        elif fault is not None and fault.kind == "status":
            return _error(name, fault)
        return await self._pass_on(request, name, is_cut=fault is not None and fault.kind == "cut")

    async def _pass_on(self, request: web.Request, name: str, *, is_cut: bool) -> web.StreamResponse:
        if self._session is None:
            return hang_up(request)
        path = request.rel_url.raw_path_qs.removeprefix(f"/{name}")
        url = URL(self._hosts[name] + path, encoded=True)
        try:
            async with self._session.request(
                request.method, url, headers=_passed(request.headers), data=await request.read(), allow_redirects=False
            ) as answer:
                return await _stream_back(request, answer, is_cut=is_cut)
        except (aiohttp.ClientError, TimeoutError):  # the gateway says then that the host can't be reached
            return hang_up(request)


async def _stream_back(request: web.Request, answer: aiohttp.ClientResponse, *, is_cut: bool) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_passed(answer.headers))
    await response.prepare(request)
    async for piece in answer.content.iter_any():
        await response.write(piece[: (len(piece) + 1) // 2] if is_cut else piece)
        if is_cut:
            if request.transport is not None:
                request.transport.close()  # what was written still arrives
            break
    else:
        await response.write_eof()
    return response


def _passed(headers: Any) -> CIMultiDict[str]:
    """The headers, without those of one connection."""
    kept: CIMultiDict[str] = CIMultiDict()
    for header, value in headers.items():
        if header.lower() not in _NOT_PASSED_ON:
            kept.add(header, value)
    return kept


def _error(name: str, fault: Fault) -> web.Response:
    """The error of a host, in the form that programs expect of this one."""
    word = _WORDS.get(fault.status, "api_error")
    error = {"type": word, "message": fault.description or "a fault is set by hand"}
    body = {"type": "error", "error": error} if name == "anthropic" else {"error": {**error, "code": word}}
    waits = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
    return web.json_response(body, status=fault.status, headers=waits)
