"""Writes docs/field-failures.md from the scenarios: ``python -m tests.field.page > docs/field-failures.md``."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tests.field.reports import PROMISES, Report

GROUPS = ("lost", "doubled", "misordered", "misrouted", "leaked", "stuck", "spent")

BEGIN = """\
# The field's failures

The ways in which gateways between chat platforms and AI agents, and bots of other kinds, were reported to lose,
double, misorder, misroute or leak messages, to get stuck, and to spend. Each is a scenario in plain words, with its
reports, the [promise](promises.md) that forbids it, and a test that runs against a whole system of real processes.
A report is a source, not a judgement: many are mended where they were found.

`pytest -m long tests/field` runs them all; `python -m tests.field.page > docs/field-failures.md` writes this page
from them.
"""

END = """\
## What does not hold

- **Telegram, a send without an answer.** Telegram has no key by which it knows a repetition, and shows a bot
  nothing of what it took. An answer whose send ended in silence is sent once more, so a person may read it twice,
  never three times. `POSTROOM_UNKNOWN_SENDS=hold` sends it once, and then a person may not read it at all. Either
  way the row says so ([states](states.md#a-response)). Discord has such a key.
- **What an agent itself says twice.** An agent that says something by a tool and the same again as its answer is
  read twice. No rule can tell a repetition that is meant from one that is not.

## What is not tried here

- Voice, WhatsApp, Slack, iMessage and other platforms that Postroom has no channel for.
- The programs of agents: the model is behind an API here, and no program is started. Options, prompts and files of
  Claude Code, Codex and opencode are tried by `make agents`, the leash by
  `tests/functions/test_hostile_program.py`.
- Schedules that run twice or never, the loss of a disk, two hosts on one database, a full disk: they need more than
  HTTP. `make crash` and [the tests behind the promises](promises.md) have them.
- Agents that write to each other without end: [promises](promises.md#agents-among-themselves-come-to-an-end).

## Another system in the place of Postroom

The scenarios speak HTTP alone: a fake Telegram and a fake Discord as a bot calls them, a fake model of Anthropic's
and OpenAI's form, and the webhooks of the system. An adapter starts and kills the system and gives it the
addresses: `System` in `tests/field/systems.py` is the whole list, `tests/field/postroom.py` and
`tests/field/tinyagi.py` are two examples of a page each.

<!-- not run: the adapter is yours -->
```console
$ FIELD_SYSTEM=my_package.my_adapter:MySystem pytest -m long tests/field
```

What the adapter does not offer (`System.offers`) is left out. A waiting test gives a system 90 seconds. A
difference is no fault by itself: some scenarios look for Postroom's own words (`Sorry`, `cut off`) where a person
has to be told something.

`tests/field/tinyagi.py` speaks TinyAGI's API, with a channel client of its own before it. TinyAGI's own program is
in no package registry, so `tests/field/test_tinyagi.py` runs the adapter against Postroom, which speaks that API
too ([differences](tinyagi-compat.md)). It says nothing about TinyAGI itself.
"""


def scenarios(group: str) -> Iterator[tuple[str, Callable[..., Any], Report]]:
    """The scenarios of a group, in order: name, test and report."""
    module = importlib.import_module(f"tests.field.test_{group}")
    for name, test in vars(module).items():
        if name.startswith("test_"):
            yield name, test, test.report


def page() -> str:
    """The text of the page."""
    parts = [BEGIN]
    for group in GROUPS:
        module = importlib.import_module(f"tests.field.test_{group}")
        title, _, what = (module.__doc__ or "").strip().partition(": ")
        parts.append(
            f"## {title}\n\n{what[0].upper()}{what[1:]}\n\n"
            "| what was reported | where | forbidden by | test |\n|---|---|---|---|\n"
        )
        parts[-1] += "".join(_line(group, *each) for each in scenarios(group))
    return "\n".join([*parts, END])


def _line(group: str, name: str, test: Callable[..., Any], report: Report) -> str:
    story = " ".join((inspect.getdoc(test) or "").split())
    where = ", ".join(f"[{each}](https://github.com/{each.replace('#', '/issues/')})" for each in report.sources)
    promise = f"{report.promise}, {PROMISES[report.promise]}"
    return f"| {story} | {where} | {promise} | `tests/field/test_{group}.py::{name}` |\n"


if __name__ == "__main__":
    print(page(), end="")
