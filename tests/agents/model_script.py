"""What a scripted model does next, by directives in the text that it is asked. It keeps nothing but how often it was
asked the same, so that tests run beside each other.

::

    [[say TEXT]]                    answers TEXT
    [[tool NAME {"key": "value"}]]  calls a tool, by the last part of its name; the next directives follow its result
    [[again NAME {"key": "value"}]] calls it with the id of the call before, as a program that got no answer does
    [[result]]                      repeats what the last tool answered
    [[history]] [[system]] [[tools]] [[media]] [[model]] [[asked]]
                                    says what it was given: earlier turns, instructions, tools, images and documents,
                                    its own name, the text without directives
    [[think TEXT]] [[big BYTES]] [[empty]] [[refusal]]
                                    thinks before it speaks; a long answer; none; a refusal of the model
    [[slow MS]]                     waits so long before each word of the answer
    [[status 529]] [[status 429 retry-after=3600]] [[quota SECONDS]]
                                    an error of HTTP; a plan or an account that is used up, until then
    [[hang]] [[stall]] [[garbage]] [[html]] [[cut]] [[end]]
                                    never answers; begins and falls silent; no event; a page; breaks off in the middle;
                                    ends cleanly in the middle
    [[die]]                         takes the process down that asks; in a simulated world only

A failure happens each time, or as often as ``times=2`` says, and only for a model as ``model=NAME`` says. A text
without directives is repeated: "You said: …".
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.sax.saxutils import unescape

FAILURES = ("status", "quota", "hang", "stall", "garbage", "html", "cut", "end", "die")

CALLS = ("tool", "again")

_BEGIN = re.compile(r"\[\[(\w+)")
_NAME = re.compile(r"\s*([^\s\]]+)\s*")
_BODY = re.compile(r"<(message|task|webhook|system_response)\b[^>]*>(.*?)</\1>", re.DOTALL)


class Directive(NamedTuple):
    """One of the text: *rest* is what follows the word, *arguments* of a tool."""

    word: str
    rest: str = ""
    arguments: dict[str, object] | None = None

    def option(self, name: str) -> str | None:
        """The value of ``name=value``."""
        found = re.search(rf"\b{name}=(\S+)", self.rest)
        return found and found[1]


class Entry(NamedTuple):
    """One thing of a conversation: *role* is ``user``, ``assistant``, ``call`` or ``result``.

    *is_error*: a result that the program gives as an error, where the dialect has a word for that.
    """

    role: str
    text: str
    is_error: bool = False


@dataclass
class Conversation:
    """A request, the same for all dialects. *media*: such as ``image/png 68``, the bytes as sent."""

    model: str
    system: str = ""
    entries: list[Entry] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    media: list[str] = field(default_factory=list)
    is_streamed: bool = False


@dataclass
class Answer:
    """What the model does: it speaks, calls a tool, or fails. *call*: name and arguments; *is_again*: its id is that of
    the call before."""

    text: str = ""
    thinking: str = ""
    call: tuple[str, dict[str, Any]] | None = None
    is_again: bool = False
    failure: Directive | None = None
    slow_s: float = 0.0
    is_refusal: bool = False


class Script:
    """Decides each answer."""

    def __init__(self) -> None:
        self._asked = Counter[tuple[object, ...]]()

    def answer(self, conversation: Conversation) -> Answer:
        """The next step of what the last text of the conversation wants."""
        asked, done = _asked(conversation.entries)
        directives = parse(asked)
        if not directives:
            return Answer(text=f"You said: {_bodies(asked).strip()}")
        found = Answer()
        for directive in _after(directives, done):
            if directive.word in FAILURES:
                if self._fails(directive, conversation, asked, done):
                    found.failure = directive
                    return found
            elif directive.word == "again" and self._was_called_again(conversation, asked, done):
                continue  # the program has thrown one of two results with the same id away
            elif directive.word in CALLS:
                found.call, found.is_again = (directive.rest, directive.arguments or {}), directive.word == "again"
                return found
            else:
                _speak(found, directive, conversation, asked)
        return found

    def _fails(self, directive: Directive, conversation: Conversation, asked: str, done: int) -> bool:
        if directive.option("model") not in (None, conversation.model):
            return False
        key = (directive.word, directive.rest, conversation.model, asked, done)
        self._asked[key] += 1
        return self._asked[key] <= int(directive.option("times") or 10**9)

    def _was_called_again(self, conversation: Conversation, asked: str, done: int) -> bool:
        key = ("again", conversation.model, asked, done)
        self._asked[key] += 1
        return self._asked[key] > 1


def parse(text: str) -> list[Directive]:
    """The directives of the messages in *text*, in order; of all of it where it wraps no message."""
    bodies, at = _bodies(text), 0
    found: list[Directive] = []
    while begin := _BEGIN.search(bodies, at):
        word, at = begin[1], begin.end()
        if word in CALLS:
            name = _NAME.match(bodies, at)
            assert name is not None, f"a tool without a name: {text}"
            arguments: dict[str, object] = {}
            at = name.end()
            if bodies.startswith("{", at):
                arguments, at = json.JSONDecoder().raw_decode(bodies, at)
            found.append(Directive(word, name[1], arguments))
        else:
            end = bodies.index("]]", at)
            found.append(Directive(word, bodies[at:end].strip()))
            at = end + 2
    return found


def tool_named(name: str, known: list[str]) -> str:
    """The tool of the program whose name ends so; the name itself if there is none, as a model may invent one."""
    return next((each for each in known if each == name or each.endswith((f"_{name}", f"/{name}"))), name)


def _asked(entries: list[Entry]) -> tuple[str, int]:
    """What people asked last, and how many tools have answered since."""
    at = max((i for i, each in enumerate(entries) if each.role == "user"), default=-1)
    results = sum(each.role == "result" for each in entries[at + 1 :])
    return (entries[at].text if at >= 0 else ""), results


def _after(directives: list[Directive], done: int) -> list[Directive]:
    """The directives behind as many tools as have answered."""
    at = 0
    for _ in range(done):
        is_call = [each.word in CALLS for each in directives[at:]]
        if True not in is_call:
            break
        at += is_call.index(True) + 1
    return directives[at:]


def _bodies(text: str) -> str:
    found = [unescape(each[2]) for each in _BODY.finditer(text)]
    return "\n".join(found) if found else text


def _speak(answer: Answer, directive: Directive, conversation: Conversation, asked: str) -> None:
    entries = conversation.entries
    match directive.word:
        case "think":
            answer.thinking = directive.rest
        case "slow":
            answer.slow_s = float(directive.rest) / 1000
        case "empty":
            answer.text = ""
        case "refusal":
            answer.is_refusal = True
        case _:
            said = {
                "say": lambda: directive.rest,
                "big": lambda: "x" * int(directive.rest),
                "result": lambda: next((each.text for each in reversed(entries) if each.role == "result"), "no result"),
                "history": lambda: " / ".join(f"{each.role}: {each.text}" for each in entries[:-1]) or "no history",
                "system": lambda: conversation.system,
                "tools": lambda: " ".join(conversation.tools) or "no tools",
                "media": lambda: ", ".join(conversation.media) or "no media",
                "model": lambda: conversation.model,
                "asked": lambda: re.sub(r"\[\[.*?\]\]", "", asked),
            }[directive.word]()
            answer.text = f"{answer.text}\n{said}" if answer.text else said
