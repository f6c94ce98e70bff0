"""The limits of a program's run, and the words for its end."""

from typing import Literal

import msgspec

from shared.core.failures import ENDED_BY, EndedBy, FailureCode

EndingWord = Literal[
    "ended", "crashed", "killed", "not_started", "stopped",
    "idle_timeout", "tool_timeout", "output_limit", "memory_limit", "disk_limit",
]  # fmt: skip


class Limits(msgspec.Struct, frozen=True):
    """Of one run. The time of a whole turn is limited for every provider alike: see ``shared/turns/run/agent_run.py``.

    Attributes:
        idle_ms: without a line of output, while no tool call is open.
        tool_ms: of one tool call.
        output_bytes: of standard output, in all.
        memory_bytes: of the program and all that it started, as the kernel counts resident pages, and of
            its ``/tmp`` and ``/dev/shm``.
        disk_bytes: of the folders where the program may write.
        agent: whose they are, for the command in a sentence.
    """

    idle_ms: int = 300_000
    tool_ms: int = 300_000
    output_bytes: int = 8 * 1024 * 1024
    memory_bytes: int = 4 * 1024**3
    disk_bytes: int = 2 * 1024**3
    agent: str = "AGENT"

    def ended(self, what: str, setting: str) -> str:
        """The reason of an end by a limit: what the program did, that Postroom ended it, and how to change the limit.

        Args:
            setting: of an agent, such as ``idle_timeout_ms``.
        """
        name, _, unit = setting.rpartition("_")
        command = f"emulator agents set {self.agent} --{name.replace('_', '-')} {_VALUES[unit]}"
        return f"{what}, so Postroom ended it ({setting} of the agent is the limit; to change it: `{command}`)"


_VALUES = {"ms": "TIME", "bytes": "BYTES", "mb": "MB"}
DEFAULT_LIMITS = Limits()


class Ending(msgspec.Struct, frozen=True):
    """How a run ended. *reason*: for the operator."""

    word: EndingWord
    reason: str

    @property
    def failure(self) -> FailureCode:
        """The word of a failed turn for the message's row."""
        return "error" if self.word == "ended" or self.word == "stopped" else self.word

    @property
    def by(self) -> EndedBy:
        """Who ended the run."""
        return "postroom" if self.word == "stopped" else ENDED_BY[self.failure]
