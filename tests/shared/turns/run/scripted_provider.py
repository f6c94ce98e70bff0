"""A provider that runs the generator of a test, and a dispatch that runs one turn of it beside a host of models."""

import asyncio
import contextlib

import aiohttp

from functions.dispatch import Dispatch
from shared.agents import registry
from shared.core.settings import Settings
from tests.shared.turns.gateway.model_host import KEY
from tests.support import make_agent, put


class Scripted:
    """Runs ``script``, a function from a turn to its events."""

    script = None

    def check(self, config):
        """Any config is right."""

    def run(self, turn):
        """What the test says."""
        return Scripted.script(turn)


def provider():
    """For the registry."""
    return Scripted()


def use(monkeypatch, conn, script, host):
    """An agent of this provider with one message that waits; the models are at *host*."""
    monkeypatch.setitem(registry._MODULES, "scripted", __name__)
    monkeypatch.setattr(Scripted, "script", staticmethod(script))
    monkeypatch.setenv("POSTROOM_ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("POSTROOM_ANTHROPIC_BASE_URL", host.url)
    make_agent(conn, "coder", provider="scripted")
    put(conn, agent="coder")


async def ask(access, path="/v1/messages"):
    """The status of one model request with this access; None: the connection was cut."""
    headers = {"authorization": f"Bearer {access.token}"}
    body = {"model": "m", "stream": True}
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(access.socket))) as client,
            client.post(f"http://gateway{access.models}{path}", headers=headers, json=body) as answer,
        ):
            await answer.read()
            return answer.status
    except aiohttp.ClientError:
        return None


@contextlib.asynccontextmanager
async def dispatching(client=None):
    """A dispatch; *client* stands for the platforms."""
    service = Dispatch(Settings.load(), client)
    try:
        yield service
    finally:
        await service.close()


async def one_step(service):
    """Let *service* run the turns that are due to their end."""
    await service.claim_and_start()
    while service.worker.running:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def worked():
    """A dispatch runs what is due, to its end."""
    async with dispatching() as service:
        await one_step(service)
