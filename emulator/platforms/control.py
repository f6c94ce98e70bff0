"""The control API for tests and the emulator: makes people act, injects faults, lists calls and deliveries.

Everything is JSON. A request that can't be done gets 400 or 404 with ``{"error": sentence}``. A request from a page of
another site gets 403: a website must not control the emulator.

``POST /control/limits {"on": false}`` switches the limits of all off.

Below ``/control/NAME`` of a platform; its fake may have more, and begins with Ana and Ben::

    GET  /people                                     {people: [{id, name, username}]}
    POST /people                      {name}         a new person; on Discord in #general, without a direct chat
    GET  /chats, /chats/{chat}                       conversations; one with its messages, deliveries and calls
    GET  /chats/{chat}?after=                        its messages after the number (``seq``; ``newest`` of /chats)
    POST /chats          {title, members, super?}    a group or a server channel, with people by id and the bot
    POST /chats/{chat}/members        {person}       a person joins
    POST /chats/{chat}/block          {blocked}      block or remove the bot; false: undo it
    POST /chats/{chat}/messages/{message}/press   {person, data}    press a button; data as in the transcript
    GET  /calls?chat=&method=&after=                 the bot's calls
    GET, POST, DELETE /faults, DELETE /faults?id=    make calls fail, list, lift: see :mod:`emulator.base.faults`
"""

import re
from collections.abc import Awaitable, Callable, Mapping

import apsw
from aiohttp import web
from aiohttp.typedefs import Middleware

from emulator.base.door import Door
from emulator.base.errors import NotReady
from emulator.base.fakes import PLATFORMS
from emulator.base.faults import Fault, Faults, as_facts
from emulator.platforms import limits
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.fakes import PlatformFake
from emulator.platforms.page_actions import PageActions
from emulator.platforms.page_data import PageData
from emulator.platforms.request_parts import EITHER, find_chat, platform_of, read_json, text
from emulator.platforms.store import FakeChat, PlatformStore
from shared.core.errors import ConfigInvalid

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlApi:
    """The control API of all fakes."""

    def __init__(
        self,
        store: PlatformStore,
        fakes: Mapping[str, PlatformFake],
        page_data: PageData,
        actions: PageActions,
        register: Callable[[], Awaitable[None]],
        faults: Mapping[str, Faults],
        before_fault: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store, self._fakes, self._page_data = store, fakes, page_data
        self._actions, self._register_all = actions, register
        self._faults, self._before_fault = faults, before_fault

    def routes(self) -> list[web.AbstractRouteDef]:
        either = f"/control/{EITHER}"
        return [
            web.post("/control/register", self._register),
            web.post("/control/limits", self._switch_limits),
            web.get(either + "/calls", self._list_calls),
            web.get("/control/faults", self._list_faults),
            web.delete("/control/faults", self._lift_faults),
            web.get("/control/{target}/faults", self._list_faults),
            web.post("/control/{target}/faults", self._add_fault),
            web.delete("/control/{target}/faults", self._lift_faults),
            web.get(either + "/people", self._list_people),
            web.post(either + "/people", self._actions.add_person),
            web.get(either + "/chats", self._list_chats),
            web.post(either + "/chats", self._actions.create_chat),
            web.get(either + "/chats/{chat}", self._transcript),
            web.post(either + "/chats/{chat}/members", self._join),
            web.post(either + "/chats/{chat}/block", self._block),
            web.post(either + "/chats/{chat}/messages/{message}/press", self._press),
        ]

    async def _register(self, request: web.Request) -> web.Response:
        await self._register_all()
        return web.json_response({"registered": PLATFORMS})

    async def _switch_limits(self, request: web.Request) -> web.Response:
        """``{"on": false}`` switches flood control and rate limits off, for a load test; also over restarts."""
        is_on = (await read_json(request)).get("on", True) is True
        limits.switch(self._store, is_on=is_on)
        return web.json_response({"limits": "on" if is_on else "off"})

    async def _list_calls(self, request: web.Request) -> web.Response:
        query = request.query
        calls = self._store.requests.calls(
            platform_of(request), chat=query.get("chat"), method=query.get("method"), after=int(query.get("after", "0"))
        )
        return web.json_response({"calls": calls})

    async def _list_faults(self, request: web.Request) -> web.Response:
        found = [as_facts(fault) for faults in self._named_faults(request) for fault in faults.standing()]
        return web.json_response({"faults": found})

    async def _add_fault(self, request: web.Request) -> web.Response:
        (faults,) = self._named_faults(request)
        fault = Fault.parse(faults.target, await read_json(request))
        await self._before_fault(faults.target)
        faults.add(fault)
        return web.json_response({"ordered": True, "fault": as_facts(fault)}, status=201)

    async def _lift_faults(self, request: web.Request) -> web.Response:
        """All of them, or the one of ``?id=``."""
        id_ = request.query.get("id")
        number = None if id_ is None else int(id_)
        return web.json_response({"lifted": sum(faults.lift(number) for faults in self._named_faults(request))})

    def _named_faults(self, request: web.Request) -> list[Faults]:
        """The faults of the target in the path; without one, those of each."""
        target = request.match_info.get("target")
        if target is None:
            return list(self._faults.values())
        if target not in self._faults:
            raise web.HTTPNotFound(text=f"there are no faults of {target!r}, only of {', '.join(self._faults)}")
        return [self._faults[target]]

    async def _list_chats(self, request: web.Request) -> web.Response:
        chats = [self._page_data.chat(chat) for chat in self._store.chats(platform_of(request))]
        return web.json_response({"chats": chats, "newest": self._store.newest()})

    async def _list_people(self, request: web.Request) -> web.Response:
        return web.json_response({"people": self._page_data.people(platform_of(request))})

    async def _join(self, request: web.Request) -> web.Response:
        person, chat = text(await read_json(request), "person"), self._chat(request)
        return web.json_response(self._fake(request).people.join(chat.id, person), status=201)

    async def _transcript(self, request: web.Request) -> web.Response:
        chat, after = self._chat(request), request.query.get("after")
        if after is not None:
            return web.json_response(self._page_data.newer(chat, after=int(after)))
        return web.json_response(self._page_data.transcript(chat))

    async def _block(self, request: web.Request) -> web.Response:
        is_blocked = (await read_json(request)).get("blocked", True) is True
        chat = self._chat(request)
        return web.json_response(self._fake(request).people.block(chat.id, is_blocked=is_blocked))

    async def _press(self, request: web.Request) -> web.Response:
        body, match = await read_json(request), request.match_info
        pressed = (match["chat"], match["message"], text(body, "person"), text(body, "data"))
        return web.json_response(await self._fake(request).press(*pressed, waits=True), status=201)

    def _fake(self, request: web.Request) -> PlatformFake:
        return self._fakes[platform_of(request)]

    def _chat(self, request: web.Request) -> FakeChat:
        return find_chat(self._store, platform_of(request), request.match_info["chat"])


_OF_BOTS = tuple(f"/{name}" for name in PLATFORMS)  # their callers know the token of a bot, or a signed address
_FURTHER_ACCOUNT = re.compile(r"^/accounts/[^/]+")  # before the paths of a further account


def plain_errors(door: Door) -> Middleware:
    """Errors of the control API and the chat page as ``{"error": sentence}``, and only for whom *door* lets in."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_OF_BOTS):
            return await handler(request)
        if (refused := door.refuse(request)) is not None:
            return refused
        try:
            return await handler(request)
        except web.HTTPException as refusal:
            return web.json_response({"error": refusal.text}, status=refusal.status)
        except ConfigInvalid as problem:
            return web.json_response({"error": str(problem)}, status=502)
        except NotReady as problem:
            return web.json_response({"error": str(problem)}, status=503)
        except apsw.Error as problem:
            return web.json_response({"error": f"the fake platforms can't store it: {_of_disk(problem)}"}, status=507)
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:  # ActionRefused is a ValueError
            return web.json_response({"error": str(problem)}, status=400)

    return answer


def slow_network(config: PlatformsConfig) -> Middleware:
    """Calls of bots come late, by the faults of the network."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        network, path = config.faults.get("network"), _FURTHER_ACCOUNT.sub("", request.path)
        if network is not None and path.startswith(_OF_BOTS) and (fault := network.take()) is not None:
            await config.clock.sleep(fault.delay_ms)
        return await handler(request)

    return answer


def _of_disk(problem: apsw.Error) -> str:
    if isinstance(problem, apsw.FullError):
        return "the disk of the emulator's state is full. Delete other files there; `emulator status` says which disk"
    return str(problem)
