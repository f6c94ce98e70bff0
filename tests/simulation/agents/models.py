"""The host of models of the world: it does what the text says that it is asked (``tests/agents/model_script.py``).

Beside that, it can take the process down that asks: ``[[die times=2]]``, as a program does that uses up all memory.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module

from tests.agents.model_dialects import Chat
from tests.agents.model_script import Answer, Conversation, Script
from tests.simulation.machine.wires import Asked, Told

_EARLIER = re.compile(r"<earlier_messages .*?</earlier_messages>\s*", re.DOTALL)
_LATE = (
    "openai",
    "pydantic_ai.models.openai",
    "shared.agents.providers.api.model_run",
    "shared.agents.providers.api.provider",
    "shared.turns.gateway.proxy",
    "shared.turns.gateway.server",
    "shared.turns.mcp.server",
)
_CHAT = Chat()
_BYTES_A_TOKEN, _USUAL_OUTPUT = 4, 1000  # by which the gateway estimates a request
_MOODS = ("busy", "broken", "unwilling", "slow", "half")  # of the host itself, whatever it is asked
_REFUSALS = {"busy": 429, "broken": 503, "unwilling": 401}


def load() -> None:
    """Import what asks models, as ``casting.load`` does."""
    for name in _LATE:
        import_module(name)


class Models:
    """The host. *die* takes down the process that asks.

    Attributes:
        unsteady: how many of a hundred requests meet a mood at the moment.
        told: how often it answered how.
        used: the tokens of all whole answers, and of those whose asker died first.
        most: of one request, as its size and the usual answer allow.
    """

    ADDRESS = ("models.test", 80)
    URL = "http://models.test/v1"

    def __init__(self, dice: random.Random, die: Callable[[], None]) -> None:
        self._dice = dice
        self._die = die
        self._script = Script()
        self.unsteady = 0.0
        self.told: Counter[str] = Counter()
        self.used = self.most = 0

    def host(self, asked: Asked) -> Told | None:
        how = self._dice.choice(_MOODS) if self.unsteady and self._dice.random() * 100 < self.unsteady else ""
        if how in _REFUSALS:
            return self._refusal(how)
        if asked.method == "GET":
            return Told(body=json.dumps({"object": "list", "data": []}).encode())
        return self._ask(asked, how)

    def _refusal(self, how: str) -> Told:
        self.told[how] += 1
        told = Told(_REFUSALS[how], json.dumps(_CHAT.error(_REFUSALS[how], "not at the moment")).encode())
        if how == "busy" and self._dice.random() < 0.7:
            told.headers = {"Retry-After": str(self._dice.randint(1, 20))}
        return told

    def _ask(self, asked: Asked, how: str) -> Told | None:
        """The model's own answer; where the host is *slow*, later, and of *half* of it the rest never comes."""
        conversation = _CHAT.read(json.loads(asked.body))
        entries = [each._replace(text=_EARLIER.sub("", each.text)) for each in conversation.entries]
        conversation.entries = entries  # what was said in a lost session is not asked again
        answer = self._script.answer(conversation)
        self.told[answer.failure.word if answer.failure else how or "answers"] += 1
        asking = len(asked.body) // _BYTES_A_TOKEN
        self.most = max(self.most, asking + _USUAL_OUTPUT)
        answering = self._dice.randint(1, _USUAL_OUTPUT)
        if answer.failure is None and how == "half":
            return _half(_stream(conversation, answer, asking, answering))
        if answer.failure is None:
            self.used += asking + answering
            told = _stream(conversation, answer, asking, answering)
            told.after_s = self._dice.uniform(0.5, 25.0) if how == "slow" else 0.0
            return told
        match answer.failure.word:
            case "die":
                self.used += asking + answering
                self._die()
                return None
            case "hang":
                return None
            case "cut":
                return _half(_stream(conversation, Answer("It ends in the midd"), asking, 0))
            case _:
                status = int(answer.failure.rest.split()[0])
                return Told(status, json.dumps(_CHAT.error(status, "it can't at the moment")).encode())


def _half(told: Told) -> Told:
    told.cut = len(told.as_bytes()) // 2
    return told


def _stream(conversation: Conversation, answer: Answer, asking: int, answering: int) -> Told:
    usage = {"prompt_tokens": asking, "completion_tokens": answering, "total_tokens": asking + answering}
    events = [
        data if isinstance(data, str) else json.dumps(data | ({"usage": usage} if "usage" in data else {}))
        for _, data in _CHAT.events(conversation, answer)
    ]
    body = "".join(f"data: {each}\n\n" for each in events).encode()
    return Told(body=body, headers={"Content-Type": "text/event-stream"})
