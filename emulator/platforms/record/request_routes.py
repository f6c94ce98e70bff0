"""The record of requests over HTTP, for ``emulator requests``.

Below ``/control/requests``, and below ``/accounts/NAME/control/requests`` for a further account::

    GET  ?platform=&chat=&refused=1&limit=   {requests: [...]}, without bodies, the newest last
    GET  /{id}                               one with its bodies; in-7 is a webhook, out-7 a call
    POST /{id}/replay                        send a webhook again
"""

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from emulator.platforms.record.request_log import RequestLog

MOST = 1000
_BODIES = ("params", "body", "answer")
_ONE = "/control/requests/{way:in|out}-{seq:[0-9]{1,15}}"


class RequestRoutes:
    """Reads the record. *send_again* gets a platform and the id of an update or interaction; False: it is gone."""

    def __init__(self, log: RequestLog, send_again: Callable[[str, str], bool]) -> None:
        self._log, self._send_again = log, send_again

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get("/control/requests", self._list),
            web.get(_ONE, self._show),
            web.post(f"{_ONE}/replay", self._replay),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        query = request.query
        limit = min(int(query.get("limit", "50")), MOST)
        wanted: dict[str, Any] = {"chat": query.get("chat"), "is_refused": query.get("refused") == "1", "limit": limit}
        found = [
            *(_named("in", each) for each in self._log.webhooks(query.get("platform"), **wanted)),
            *(_named("out", each) for each in self._log.calls(query.get("platform"), **wanted)),
        ]
        newest = sorted(found, key=lambda each: each["at_ms"])[-limit:]
        return web.json_response(
            {"requests": [{key: each[key] for key in each if key not in _BODIES} for each in newest]}
        )

    async def _show(self, request: web.Request) -> web.Response:
        """A call has ``cause`` too: the id of the newest webhook before it in its chat, or None."""
        found = self._find(request)
        if request.match_info["way"] == "out":
            earlier = self._log.webhooks(found["platform"], chat=found["chat"], limit=MOST)
            before = [each["seq"] for each in earlier if each["at_ms"] <= found["at_ms"]]
            found["cause"] = f"in-{before[-1]}" if before and found["chat"] else None
        return web.json_response(found)

    async def _replay(self, request: web.Request) -> web.Response:
        found = self._find(request)
        if request.match_info["way"] == "out":
            raise web.HTTPBadRequest(text="a call is the bot's own: only a webhook (in-…) can be sent again")
        if not self._send_again(found["platform"], found["ref"]):
            raise web.HTTPNotFound(text=f"{found['id']} can't be sent again: it is being sent, or its record is gone")
        return web.json_response(found, status=201)

    def _find(self, request: web.Request) -> dict[str, Any]:
        way, seq = request.match_info["way"], int(request.match_info["seq"])
        found = (self._log.webhooks if way == "in" else self._log.calls)(None, after=seq - 1, until=seq)
        if not found:
            raise web.HTTPNotFound(text=f"there is no request {way}-{seq}: `emulator requests list` names them")
        return _named(way, found[0])


def _named(way: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its id, and with one name for what it is."""
    more = {key: each for key, each in row.items() if key not in ("seq", "kind", "method")}
    return {"id": f"{way}-{row['seq']}", "what": row["kind"] if way == "in" else row["method"], **more}
