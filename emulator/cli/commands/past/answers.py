"""The answers of then and now to one message, as facts for programs and as a table for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.cli.output import TextTable, in_dollars, local_time


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message of a person, and what was answered *then* and *now*."""

    message: Mapping[str, Any]
    then: Mapping[str, Any]
    now: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """For ``--json``; instants in ms UTC, money in micro-dollars."""
        return {**self.message, "then": dict(self.then), "now": dict(self.now)}


def exchange(then: Mapping[str, Any], now: Mapping[str, Any]) -> Exchange:
    """The exchange, from the stories of the message and of its copy (``GET /api/messages/{id}``)."""
    message = {
        "messageId": then["messageId"],
        "replayId": now["messageId"],
        "sender": then["sender"],
        "message": then["message"],
        "createdAt": then["createdAt"],
    }
    return Exchange(message, _answer(then), _answer(now))


def _answer(story: Mapping[str, Any]) -> dict[str, Any]:
    """*took*: in ms, from the message to its last answer; null without an end. *tokens*, *cost*: null if unknown."""
    usage = story["usage"]
    costs = [each["cost"] for each in usage]
    ended = [each["createdAt"] for each in story["responses"]] or (
        [story["updatedAt"]] if story["status"] in ("completed", "dead") else []
    )
    is_failed = story["status"] != "completed"
    return {
        "status": story["status"],
        "answers": [each["message"] for each in story["responses"]],
        "reason": story["lastError"] if is_failed else None,
        "took": max(ended) - story["createdAt"] if ended else None,
        "models": sorted({each["model"] for each in usage}),
        "inputTokens": sum(each["input"] + each["cacheRead"] + each["cacheWrite"] for each in usage) if usage else None,
        "outputTokens": sum(each["output"] for each in usage) if usage else None,
        "cost": sum(costs) if costs and None not in costs else None,
        "shared": max((each["messages"] for each in usage), default=1),
    }


def comparison(exchanges: Sequence[Exchange], *, then: str, now: str) -> TextTable:
    """One row a message: what was asked, and both answers with their time, tokens and cost."""
    rows = [(_asked(each.message), _shown(each.then), _shown(each.now)) for each in exchanges]
    return TextTable(("message", f"then: {then}", f"now: {now}"), rows, "Nothing was replayed.", has_lines=True)


def _asked(message: Mapping[str, Any]) -> str:
    return f"{message['message']}\n— {message['sender']}, {local_time(message['createdAt'])}"


def _shown(answer: Mapping[str, Any]) -> str:
    is_failed = answer["status"] != "completed"
    said = "\n".join(answer["answers"]) or ("" if is_failed else "(no answer of its own)")
    failed = f"({answer['status']}: {answer['reason'] or 'no reason is known'})" if is_failed else ""
    return "\n".join(each for each in (said, failed, _measures(answer)) if each)


def _measures(answer: Mapping[str, Any]) -> str:
    """Such as ``— 1.4 s, 310 + 42 tokens, $0.0021``."""
    found = [] if answer["took"] is None else [f"{answer['took'] / 1000:.1f} s"]
    if answer["inputTokens"] is not None:
        found.append(f"{answer['inputTokens']} + {answer['outputTokens']} tokens")
    if answer["cost"] is not None:
        found.append(in_dollars(answer["cost"]))
    if answer["shared"] > 1:
        found.append(f"for {answer['shared']} messages together")
    return f"— {', '.join(found)}" if found else ""
