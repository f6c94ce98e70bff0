"""The page of an agent's settings in the docs, made from their one list: ``docs/agents/settings.md``.

``python -m shared.roster.agents_page > docs/agents/settings.md`` writes it anew; a test compares them.
"""

import sys
from collections.abc import Iterator
from typing import get_args

from annotated_types import Ge, Le, MaxLen, MinLen

from shared.core.row_settings import SettingField
from shared.db.roster.agents import SETTINGS

_KINDS = {bool: "`true` or `false`", dict: "JSON object", int: "number", list: "list of texts", str: "text"}


def page() -> str:
    """Markdown: one line for each setting."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The settings of an agent"
    yield ""
    yield "`emulator agents set AGENT` sets them by the option, `PUT /api/agents/{id}` and `postroom.toml` by the name."
    yield "What a command or a file does not name stays; `emulator agents show AGENT` shows them all. Where a setting"
    yield 'may be nothing, `null` over REST removes the agent\'s own value, and so does `""` on the command line.'
    yield ""
    yield "| setting | option | of a new agent | a value | |"
    yield "|---|---|---|---|---|"
    for each in SETTINGS.values():
        yield f"| `{each.name}` | `{each.option}` | {_unset(each)} | {_allowed(each)} | {each.says.help} |"
    yield ""
    yield "[REST](../api.md#agents-teams-schedules) says more of some, and [the other pages](README.md) what they do."


def _unset(each: SettingField) -> str:
    if each.says.unset:
        return each.says.unset
    return f"`{str(each.default).lower()}`" if each.default or each.kind is bool else "none"


def _allowed(each: SettingField) -> str:
    """The kind of a value and its limits: ``number, 1 to 1 000``."""
    least, most = None, None
    for limit in get_args(each.annotation)[1:]:
        match limit:
            case Ge(ge=bound) | MinLen(min_length=bound):
                least = bound
            case Le(le=bound) | MaxLen(max_length=bound):
                most = bound
    if most is None:
        return _KINDS[each.kind]
    limits = f"at most {most:,}" if least is None else f"{least:,} to {most:,}"
    unit = " characters" if each.kind is str else ""
    return f"{_KINDS[each.kind]}, {limits.replace(',', ' ')}{unit}"


if __name__ == "__main__":
    sys.stdout.write(page())
