"""What a message holds that is neither text nor file: a poll, a location, a venue, a contact, a dice.

``detail["poll"]`` keeps a poll with its votes, ``detail["content"]`` all others as the Bot API shows them.

Source: https://core.telegram.org/bots/api#sendpoll, #sendlocation, #sendvenue, #sendcontact, #senddice; wording after
the open source of the server.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from emulator.platforms.telegram import schema
from emulator.platforms.telegram.calls import Params, TelegramError, integer, is_true, parse_nested

MAX_QUESTION, MAX_OPTION, MAX_OPTIONS = 300, 100, 12
MIN_OPEN_S, MAX_OPEN_S = 5, 2_628_000
DICE: Mapping[str, int] = {"🎲": 6, "🎯": 6, "🎳": 6, "🏀": 5, "⚽": 5, "🎰": 64}  # the highest value of each
_BOUNDS = {"latitude": 90.0, "longitude": 180.0}


def location(params: Params) -> dict[str, Any]:
    """A point on the map. Raises 400."""
    for name, most in _BOUNDS.items():
        if abs(_number(params, name)) > most:
            raise TelegramError(400, f"Bad Request: wrong {name} specified")
    return {"location": _fields("Location", params)}


def venue(params: Params) -> dict[str, Any]:
    """A point with a name; its message has the location too."""
    place = location(params)
    return {"venue": {**place, **_texts(params, "title", "address"), **_fields("Venue", params)}, **place}


def contact(params: Params) -> dict[str, Any]:
    """A name with a number to call."""
    return {"contact": {**_texts(params, "phone_number", "first_name"), **_fields("Contact", params)}}


def dice(params: Params) -> dict[str, Any]:
    """A throw."""
    emoji = str(params.get("emoji") or "🎲")
    if emoji not in DICE:
        raise TelegramError(400, "Bad Request: invalid dice emoji specified")
    return {"dice": {"emoji": emoji, "value": 1 + secrets.randbelow(DICE[emoji])}}


CONTENTS: Mapping[str, Callable[[Params], dict[str, Any]]] = {
    "sendLocation": location,
    "sendVenue": venue,
    "sendContact": contact,
    "sendDice": dice,
}


def words(detail: Mapping[str, Any]) -> list[str]:
    """The lines that a terminal shows of a poll, a place, a contact or a dice; none for any other message."""
    if (poll := detail.get("poll")) is not None:
        return [f"Poll: {poll['question']}", *(f"- {each}" for each in poll["options"])]
    content = detail.get("content", {})
    if (person := content.get("contact")) is not None:
        return [f"Contact: {person['first_name']} {person.get('last_name', '')}".rstrip(), person["phone_number"]]
    if (thrown := content.get("dice")) is not None:
        return [f"{thrown['emoji']} {thrown['value']}"]
    if (point := content.get("location")) is None:
        return []
    named = content.get("venue")
    lines = [f"Place: {named['title']}", named["address"]] if named else ["Location:"]
    return [*lines, f"{point['latitude']}, {point['longitude']}"]


# -- polls


def poll(params: Params, *, now_ms: int) -> dict[str, Any]:
    """What ``detail["poll"]`` keeps of a new poll. Raises 400."""
    question, options = str(params.get("question") or "").strip(), _options(params)
    if not question:
        raise TelegramError(400, "Bad Request: poll question must be non-empty")
    if len(question) > MAX_QUESTION:
        raise TelegramError(400, f"Bad Request: poll question length must not exceed {MAX_QUESTION}")
    open_s = integer(params.get("open_period"), 0)
    if open_s and not MIN_OPEN_S <= open_s <= MAX_OPEN_S:
        raise TelegramError(400, "Bad Request: invalid poll open period")
    closes_s = integer(params.get("close_date"), 0) or (now_ms // 1000 + open_s if open_s else 0)
    is_quiz = params.get("type") == "quiz"
    correct = parse_nested(params.get("correct_option_ids") or [])
    if is_quiz and not (correct and all(isinstance(each, int) and 0 <= each < len(options) for each in correct)):
        raise TelegramError(400, "Bad Request: wrong correct option ID specified")
    return {
        "id": str(secrets.randbits(62)),
        "question": question,
        "options": options,
        "multiple": is_true(params.get("allows_multiple_answers")),
        "anonymous": params.get("is_anonymous") in (None, "") or is_true(params["is_anonymous"]),
        "open_s": open_s,
        "closes_ms": closes_s * 1000,
        "correct": correct if is_quiz else [],
        "explanation": str(params.get("explanation") or "") if is_quiz else "",
        "closed": is_true(params.get("is_closed")),
        "votes": {},
    }


def _options(params: Params) -> list[str]:
    given = parse_nested(params.get("options", "[]"))
    if not isinstance(given, list):
        raise TelegramError(400, "Bad Request: can't parse options JSON object")
    options = [str(each.get("text") if isinstance(each, dict) else each or "").strip() for each in given]
    if not options:
        raise TelegramError(400, "Bad Request: poll must have at least 1 option")
    if len(options) > MAX_OPTIONS:
        raise TelegramError(400, f"Bad Request: poll can't have more than {MAX_OPTIONS} options")
    if not all(options):
        raise TelegramError(400, "Bad Request: poll options must be non-empty")
    if any(len(each) > MAX_OPTION for each in options):
        raise TelegramError(400, f"Bad Request: poll options length must not exceed {MAX_OPTION}")
    return options


def wired_poll(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The Poll object, with the votes so far."""
    votes: list[list[int]] = list(kept.get("votes", {}).values())
    options = [
        {"persistent_id": str(at), "text": each, "voter_count": sum(at in chosen for chosen in votes)}
        for at, each in enumerate(kept["options"])
    ]
    quiz = {"correct_option_ids": kept["correct"]} if kept.get("correct") else {}
    return {
        "id": kept["id"],
        "question": kept["question"],
        "options": options,
        "total_voter_count": len(votes),
        "is_closed": bool(kept.get("closed")),
        "is_anonymous": kept["anonymous"],
        "type": "quiz" if quiz else "regular",
        "allows_multiple_answers": kept["multiple"],
        "allows_revoting": not quiz,
        "members_only": False,
        **quiz,
        **({"explanation": kept["explanation"]} if kept.get("explanation") else {}),
        **({"open_period": kept["open_s"]} if kept["open_s"] else {}),
        **({"close_date": kept["closes_ms"] // 1000} if kept.get("closes_ms") else {}),
    }


def _fields(type_name: str, params: Params) -> dict[str, Any]:
    """The parameters that are fields of *type_name*, as numbers where they are numbers."""
    found: dict[str, Any] = {}
    for name, (_, *types) in schema.spec()["types"][type_name]["fields"].items():
        if params.get(name) in (None, ""):
            continue
        if types == ["Float"]:
            found[name] = _number(params, name)
        elif types == ["Integer"]:
            found[name] = integer(params[name], 0)
        elif types == ["String"]:
            found[name] = str(params[name])
    return found


def _texts(params: Params, *names: str) -> dict[str, str]:
    for name in names:
        if not str(params.get(name) or "").strip():
            raise TelegramError(400, f"Bad Request: {name.replace('_', ' ')} is empty")
    return {name: str(params[name]) for name in names}


def _number(params: Params, name: str) -> float:
    try:
        return float(params[name])
    except (KeyError, TypeError, ValueError):
        raise TelegramError(400, f"Bad Request: {name} is empty") from None
