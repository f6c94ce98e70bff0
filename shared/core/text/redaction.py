"""Removes our secrets from text that is kept: rows, events, logs. A platform may repeat the address that it was sent.

The settings register their secrets when they are read, and an adapter registers the tokens of single requests. A secret
is found in the forms that a URL and JSON give it. Code that shortens a foreign text redacts it first, because a part of
a secret is not found.
"""

import json
import re
from typing import Any
from urllib.parse import quote

MASK = "***"
SHORTEST = 8  # characters; a shorter secret would also be found in ordinary words
MOST_BRIEF = 256  # tokens of single requests; an error comes within minutes of its request

_lasting: tuple[str, ...] = ()  # forms of secrets; replaced as a whole, because several threads write logs
_brief: tuple[tuple[str, ...], ...] = ()


def register(secret: str) -> None:
    """Redact *secret* for the life of this process."""
    global _lasting
    _lasting = _longest_first({*_lasting, *_forms(secret)})


def register_brief(token: str) -> None:
    """Redact the token of a single request, until many more have come."""
    global _brief
    forms = _forms(token)
    _brief = (*(each for each in _brief if each != forms), forms)[-MOST_BRIEF:]


def redact(text: str) -> str:
    """*text* with a mask in place of each secret."""
    for forms in (_lasting, *_brief):
        for form in forms:
            if form in text:
                text = text.replace(form, MASK)
    return text


def redact_all(value: Any) -> Any:
    """The JSON *value* with each text in it redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_all(each) for each in value]
    if isinstance(value, dict):
        return {redact(str(key)): redact_all(each) for key, each in value.items()}
    return value


def _forms(secret: str) -> tuple[str, ...]:
    """The secret as it is, in a URL (hexadecimal digits in either case), and in JSON."""
    if len(secret) < SHORTEST:
        return ()
    encoded = quote(secret, safe="", errors="replace")
    lower = re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)
    return _longest_first({secret, encoded, lower, json.dumps(secret)[1:-1]})


def _longest_first(forms: set[str]) -> tuple[str, ...]:
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))
