"""The relay as a component of the emulator."""

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.base.console import Console
from emulator.base.errors import NotReady
from emulator.system.relay import RelayProcess
from tests.emulator.harness import ROOT, Emulator, command, fetch, wait_until

pytestmark = pytest.mark.e2e

ANA = "80000000000000001"


def test_a_relay_that_lacks_a_setting_ends_the_start_with_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        relay = RelayProcess(ROOT, Console("json", io.StringIO()), tmp_path / "clock")
        with pytest.raises(NotReady, match=r"(?s)ended with code 78.*DISCORD_BOT_TOKEN"):
            await relay.start({"PATH": os.environ["PATH"]})
        await relay.stop()

    asyncio.run(scenario())


@pytest.mark.long
def test_its_settings_come_from_the_files_too(project: Path) -> None:
    (project / ".env").write_text("DISCORD_RELAY_CONTENT=perhaps\n")
    done = command(project, "run", "--port", "0", "--no-watch", "--relay")
    assert done.returncode != 0
    assert "DISCORD_RELAY_CONTENT" in done.stdout + done.stderr
    assert "nothing here reads it" not in done.stdout + done.stderr


@pytest.mark.long
def test_what_people_type_on_discord_is_answered_also_after_the_relay_was_killed(
    emulator: Callable[..., Emulator],
) -> None:
    running = emulator("--no-watch", "--relay")
    discord = f"{running.instance['urls']['platforms']}/control/discord"

    def answers() -> list[str]:
        chats = json.loads(fetch(f"{discord}/chats")[1])["chats"]
        direct = [chat["id"] for chat in chats if chat["kind"] == "dm" and chat["members"] == [ANA]]
        found = [json.loads(fetch(f"{discord}/chats/{id_}")[1])["messages"] for id_ in direct]
        return [each["text"] for messages in found for each in messages if each["author"]["is_bot"]]

    def type_and_wait(text: str) -> None:
        body = json.dumps({"text": text}).encode()
        assert fetch(f"{discord}/users/{ANA}/message", method="POST", body=body)[0] in (200, 201)
        wait_until(lambda: any(text in each for each in answers()), what=f"an answer to {text!r}", limit_s=30)

    def connected_again() -> bool:
        return [line.get("event") in ("relay.ready", "relay.resumed") for line in running.lines].count(True) == 2

    type_and_wait("one apple")
    os.kill(running.status["relay"]["pid"], signal.SIGKILL)
    wait_until(lambda: running.said("the relay ended with code -9; restarting it"), what="a restart")
    wait_until(connected_again, what="a second connection", limit_s=30)
    type_and_wait("two pears")
    assert running.stop() == 0
