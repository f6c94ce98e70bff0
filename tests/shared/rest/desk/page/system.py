"""A whole system with work and faults behind the operator's page, and what the tests of the page ask of both."""

import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.emulator.harness import Emulator, copy_project, fetch, launch, wait_until
from tests.emulator.platforms.page.browser import Tab

FINDINGS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(
  (rule) => `${rule.id} (${rule.help}): ${rule.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`))"""
ANA = "5000000001"
DRAWN = "document.readyState === 'complete' && document.querySelector('#view h1') !== null"
CRASHES = {"provider": "command", "config": {"command": ["python3", "-c", "import sys; sys.exit(3)"]}}
SLOW = {"provider": "command", "config": {"command": ["python3", "-c", "import time; time.sleep(600)"]}}
PAGES = (
    *("", "c", "queue/waiting", "queue/running", "queue/dead", "queue/done", "agents", "schedules", "approvals"),
    *("dropped", "dropped?what=held", "replica", "past", "find/morning", f"p/telegram/{ANA}"),
)
WRITES = "[...document.querySelectorAll('#view button.act:not(.more)')].map((button) => button.innerText)"
ROWS = "[...document.querySelectorAll('#view li')].map((row) => row.innerText)"

Scenario = Callable[[Tab], Coroutine[Any, Any, None]]


def ask(running: Emulator, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    status, answer = fetch(
        running.url + path, method=method, body=data, headers={"content-type": "application/json"} if data else {}
    )
    assert status < 300, answer
    return json.loads(answer)


def overview(running: Emulator) -> Any:
    return ask(running, "GET", "/api/overview")


@contextmanager
def working(folder: Path) -> Iterator[Emulator]:
    """A whole system in *folder*, with work and faults."""
    project = copy_project(folder / "project")
    (project / ".env").write_text("POSTROOM_MAX_ATTEMPTS=1\n")
    running = launch(project)
    try:
        running.wait_ready()
        for agent, settings in {"crash": CRASHES, "slow": SLOW}.items():
            ask(running, "PUT", f"/api/agents/{agent}", settings)
        say(running, "Good <b>morning</b>!")
        wait_until(lambda: ask(running, "GET", "/api/responses"), limit_s=60, what="the answer, before others write")
        for number, text in enumerate(("@crash one", "@crash two", "@slow first")):
            ask(running, "POST", "/api/message", {"message": text, "sender": f"person {number}", "channel": "web"})
        wait_until(lambda: ask(running, "GET", "/api/lists/running?agent=slow"), limit_s=60, what="a turn that runs")
        ask(running, "POST", "/api/message", {"message": "@slow second", "sender": "person 2", "channel": "web"})
        ask(running, "POST", "/api/schedules", {"agentId": "assistant", "message": "What is new?", "cron": "0 9 * * *"})
        wait_until(lambda: overview(running)["numbers"]["dead"] == 2, limit_s=60, what="two dead messages")
        yield running
    finally:
        running.stop()


def say(running: Emulator, text: str) -> None:
    """Ana writes to the bot on Telegram."""
    ask(running, "POST", "/_emulator/chat/telegram/say", {"chat": ANA, "person": ANA, "text": text})


async def text(tab: Tab, selector: str) -> str:
    return str(await tab.run(f"document.querySelector({json.dumps(selector)}).innerText"))
