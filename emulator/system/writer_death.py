"""The death of the writer for a drill: every function and Litestream are killed, and stay dead until they are revived.

The fake platforms, S3 and this process live on: they stand for the people, the bucket, and the machine that restarts
what has died.
"""

import asyncio
import secrets
from typing import Any

from aiohttp import web

from emulator.base.console import Console
from emulator.base.errors import NotReady
from emulator.system.components import Components

HELD_LIMIT_S = 60.0  # a drill that was given up must not leave everything dead; a longer restore goes on beside it
KILL_LIMIT_S = 10.0
_REVIVED_LIMIT_S = 60.0


class WriterDeath:
    """Kills and revives the writer of one emulator.

    Args:
        kill_limit_s: for the end of every process; what did not end by then is brought back.
        held_limit_s: how long a drill may hold the writer dead.
    """

    def __init__(
        self,
        components: Components,
        console: Console,
        *,
        kill_limit_s: float = KILL_LIMIT_S,
        held_limit_s: float = HELD_LIMIT_S,
    ) -> None:
        self._components = components
        self._console = console
        self._kill_limit_s = kill_limit_s
        self._held_limit_s = held_limit_s
        self._given_up: asyncio.TimerHandle | None = None

    async def kill(self) -> dict[str, Any]:
        """Kill Litestream and the functions; the process ids of both.

        Raises:
            NotReady: they are dead already, or did not end in time; then they are brought back.
        """
        if self._given_up is not None:
            raise NotReady("another drill keeps the writer down: wait until it ends")
        self._given_up = asyncio.get_running_loop().call_later(self._held_limit_s, self._revive)
        self._console.event("drill", "kills every function and Litestream", level="warning")
        litestream = self._components.litestream.kill()  # first, so that it sends nothing of their last moment
        try:
            async with asyncio.timeout(self._kill_limit_s):
                functions = await self._components.functions.kill()
        except TimeoutError:
            self._revive()
            raise NotReady(
                f"the functions did not end within {self._kill_limit_s:.0f} s, and everything is brought back. Is the "
                f"disk stuck? Try again when `emulator status` shows no problem"
            ) from None
        return {"litestream": litestream, "functions": functions}

    async def revive(self) -> dict[str, Any]:
        """Bring everything back, and wait until it works.

        Raises:
            NotReady: something did not come back in time.
        """
        self._revive()
        try:
            async with asyncio.timeout(_REVIVED_LIMIT_S):
                while True:
                    down = [each.name for each in self._components.functions.all if each.problem is not None]
                    if not down:
                        break
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise NotReady(f"these functions did not come back: {', '.join(down)}") from None
        problem = await self._components.litestream.wait_begun(_REVIVED_LIMIT_S)
        if problem is not None:
            raise NotReady(f"replication did not come back: {problem}")
        self._console.event("drill", "everything is back")
        return {"replica": self._components.litestream.current_url}

    def _revive(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None
        self._components.litestream.revive()
        self._components.functions.revive()


def routes(death: WriterDeath, secret: str) -> list[web.RouteDef]:
    """``POST /_emulator/drill/kill`` and ``…/revive``, for those who know the secret of the ticks.

    A page in a browser can send a POST to this address, and must not be able to kill anything.
    """

    def answering(work: Any) -> Any:
        async def answer(request: web.Request) -> web.Response:
            told = request.headers.get("Authorization", "")
            if not secrets.compare_digest(told.encode(), f"Bearer {secret}".encode()):
                return web.json_response({"error": "the secret of the ticks is missing or wrong"}, status=401)
            try:
                return web.json_response(await work())
            except NotReady as error:
                return web.json_response({"error": str(error)}, status=503)

        return answer

    return [
        web.post("/_emulator/drill/kill", answering(death.kill)),
        web.post("/_emulator/drill/revive", answering(death.revive)),
    ]
