"""Real programs of agents in a running system: its processes, leash and gateway, and a scripted model behind it."""

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents.model_api import Asked, ModelApi
from tests.e2e.conftest import System, until

KEY = "sk-the-real-key-of-the-operator"


def program(name: str) -> Path:
    """The installed program."""
    folder = os.environ.get("POSTROOM_TEST_AGENTS")
    if folder is None:
        pytest.fail("the agents' programs are not installed: run `make agents`, which installs them")
    path = Path(folder).absolute() / name
    if not path.exists():
        pytest.fail(f"{path} is missing: delete its folder, and run `make agents`")
    return path


def environment(api: ModelApi, **more: str) -> dict[str, str]:
    """The shell of an operator whose models are the scripted one."""
    return {
        "PATH": f"{program('claude').parent}:{os.environ['PATH']}",
        "POSTROOM_ANTHROPIC_BASE_URL": api.url,
        "POSTROOM_ANTHROPIC_API_KEY": KEY,
        "POSTROOM_OPENAI_BASE_URL": f"{api.url}/v1",
        "POSTROOM_OPENAI_API_KEY": KEY,
        "POSTROOM_LOCAL_MODELS_URL": f"{api.url}/v1",
        **more,
    }


class AgentSystem:
    """The running system, and the model that its agents ask."""

    def __init__(self, system: System, api: ModelApi) -> None:
        self.system = system
        self.api = api

    def make(self, agent: str, provider: str, **settings: Any) -> str:
        """An agent of *provider*; its id."""
        self.system.call("PUT", f"/api/agents/{agent}", {"provider": provider, "model": "scripted-1", **settings})
        return agent

    def send(self, agent: str, text: str) -> str:
        """Post a message to *agent*; its id."""
        sent: str = self.system.call("POST", "/api/message", {"message": text, "agent": agent})["messageId"]
        return sent

    def ask(self, agent: str, text: str, wait_s: float = 40) -> str:
        """What the agent answers to *text*; several answers are joined by lines."""
        message = self.send(agent, text)
        return self.answer(message, wait_s)

    def answer(self, message: str, wait_s: float = 40) -> str:
        """The answer to a message that was sent before."""
        found = self.system.get(f"/api/messages/{message}?wait={wait_s:g}")[1]
        assert found["status"] == "completed", (found["status"], self.row(message))
        return "\n".join(response["message"] for response in found["responses"])

    def fails(self, agent: str, text: str, wait_s: float = 40) -> dict[str, Any]:
        """The row of a message to *agent*, once its first attempt has failed."""
        message = self.send(agent, text)
        return self.until_row(message, lambda row: row["failure"] is not None, wait_s)

    def until_row(self, message: str, look: Callable[[dict[str, Any]], bool], wait_s: float = 40) -> dict[str, Any]:
        """The row of *message* once *look* is true of it."""

        def found() -> dict[str, Any] | None:
            row = self.row(message)
            return row if look(row) else None

        return until(f"message {message} as expected; it is {self.row(message)}", found, wait_s)

    def row(self, message: str) -> dict[str, Any]:
        """Status, failure, reason, attempts and the next instant of a message."""
        names = ("status", "failure", "last_error", "retry_count", "process_after")
        found = self.system.query(f"SELECT {', '.join(names)} FROM messages WHERE message_id = ?", message)
        return dict(zip(names, found[0], strict=True))

    def said(self, message: str) -> list[str]:
        """What was said in answer to *message*, also in a turn that failed."""
        sql = "SELECT message FROM responses WHERE message_id = ? OR in_reply_to = ? ORDER BY id"
        return [text for (text,) in self.system.query(sql, message, message)]

    def asked(self, text: str) -> list[Asked]:
        """The requests to the model whose body has *text*."""
        return self.api.asked(text)

    def until_asked(self, text: str, wait_s: float = 40) -> Asked:
        """The first request to the model with *text*: the agent's turn is running."""
        return until(f"a request with {text!r}", lambda: next(iter(self.asked(text)), None), wait_s)

    def folder(self, agent: str) -> Path:
        """The agent's folder."""
        return self.system.state / "agents" / agent

    def processes(self, agent: str) -> list[int]:
        """The processes that were started for *agent*, whatever became of their parents."""
        mark = f"POSTROOM_AGENT_ID={agent}".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in _environment_of(pid)]  # noqa: PTH208

    def until_alone(self, agent: str, wait_s: float = 10) -> float:
        """Wait until nothing of *agent* runs; the seconds that it took."""
        began = time.monotonic()
        until(f"the end of the processes of {agent}", lambda: not self.processes(agent), wait_s)
        return time.monotonic() - began


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def secrets_in(values: Mapping[str, str] | str) -> list[str]:
    """What of our own an agent must never see."""
    ours = (KEY, "TELEGRAM_BOT_TOKEN", "DISCORD_BOT_TOKEN", "TICK_SECRET", "AWS_SECRET")
    return [word for word in ours if word in str(values)]


def names_this_host(given: Any) -> bool:
    """Whether the name of this host stands in it as a word: a short one may well be a part of an id."""
    return re.search(rf"\b{re.escape(os.uname().nodename)}\b", str(given)) is not None
