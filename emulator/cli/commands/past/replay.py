"""``emulator replay``: a conversation of the past given to another agent, and the answers of then and now side by side.

The messages of people are given one after the other, each when the one before is answered. The conversation of the past
stays as it was, and no answer of the replay is sent. Only a copy of the past takes replays.
"""

import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.terminal import escape
from emulator.cli.client import RestClient
from emulator.cli.commands.past.answers import Exchange, comparison, exchange
from emulator.cli.output import CommandResult, result
from emulator.cli.spans import timeout_option

_WAIT_S = 10  # for one request
_ENDED = ("completed", "dead", "cancelled")
_KINDS = ("chat", "chat-sdk")  # what people write; tasks and webhooks are not of the conversation
_MOST = 1000
_LONGEST_ID = 64
# What a new agent has from the agent of then. The model and the config belong to its provider.
_INHERITED = ("instructions", "timezone", "turn_timeout_ms", "idle_timeout_ms", "tool_timeout_ms", "batch_size")

Text = Annotated[str | None, typer.Option(metavar="TEXT")]


def replay(
    api: RestClient,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="The conversation: a session, or the number of a chat with one session."
        ),
    ],
    agent: Annotated[
        str | None, typer.Option(help="The agent that answers now; without it, the one of then in a fresh session.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="Make an agent like the one of then with this provider, such as echo or api.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model of the agent that is made.")] = None,
    program: Annotated[
        str | None,
        typer.Option("--command", help="The command line of a program that answers (docs/agents/programs.md)."),
    ] = None,
    instructions_file: Annotated[
        Path | None, typer.Option(help="The instructions of the agent that is made; default: those of then.")
    ] = None,
    begin: Annotated[str | None, typer.Option("--from", metavar="MESSAGE", help="The first message to replay.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="MESSAGE", help="The last message to replay.")] = None,
    timeout: Annotated[float, timeout_option("How long to wait for each answer", "5m")] = 300.0,
) -> CommandResult:
    """Give a conversation of the past to another agent, and compare the answers. Ends with 1 if an answer failed."""
    past = _check_past(api)
    session = _session_of(api, session)
    original = api.get("sessions", session)
    messages = chosen(api.get("sessions", session, "messages", limit=_MOST), begin, end)
    now_agent = _agent_of_now(api, original["agent"], agent, provider, model, program, instructions_file)
    _check_works(api, now_agent)
    made = api.post("past", "replays", body={"session": session, "agent": now_agent})["sessionId"]
    found = list(_exchanges(api, made, messages, timeout))
    agents = api.get("agents")
    facts = {
        "past": past,
        "session": session,
        "replay": made,
        "then": _described(original["agent"], agents),
        "now": _described(now_agent, agents),
        "messages": [each.facts() for each in found],
    }
    failed = sum(each.now["status"] != "completed" for each in found)
    count = f"{len(found)} message{'' if len(found) == 1 else 's'}"
    # Where the emulator is found by its folder, every command prints that sentence first.
    place = [] if api.past is not None else [f"{past['sentence'][0].upper()}{past['sentence'][1:]}."]
    return result(
        facts,
        *place,
        comparison(found, then=_title(facts["then"]), now=_title(facts["now"])),
        f"Replayed {count} of {session} in {made}" + (f"; {failed} of the answers failed." if failed else "."),
        f"The replay alone: {api.command_line(f'sessions show {made}')}",
        code=ExitCode.FAILED if failed else 0,
    )


def _session_of(api: RestClient, named: str) -> str:
    """The session; where a chat is named by its number, the one that was active there.

    Raises:
        DoesNotExist: none was active there.
        UsageError: several were.
    """
    if not named.isdecimal():
        return named
    found = [each["sessionId"] for each in api.get("sessions", chatId=int(named), status="active", limit=_MOST)]
    if not found:
        raise errors.DoesNotExist(
            f"no session was active in chat {named}; `{api.command_line('sessions list')}` has all"
        )
    if len(found) > 1:
        raise errors.UsageError(f"several sessions were active in chat {named}; name one of {', '.join(found)}")
    return str(found[0])


def chosen(messages: list[dict[str, Any]], begin: str | None, end: str | None) -> list[dict[str, Any]]:
    """The messages of people from *begin* to *end*, with the context between them.

    Raises:
        DoesNotExist: one of them is not in the conversation, or nothing in it asks for an answer.
    """
    ids = [each["messageId"] for each in messages]
    for name in (begin, end):
        if name is not None and name not in ids:
            raise errors.DoesNotExist(f"the session has no message {name!r}; `sessions show` lists those that are kept")
    first = 0 if begin is None else ids.index(begin)
    last = len(ids) if end is None else ids.index(end) + 1
    found = [each for each in messages[first:last] if each["kind"] in _KINDS]
    if not any(each["trigger"] for each in found):
        raise errors.DoesNotExist(
            "nothing to replay: no message of a person in this part of the session is kept. Completed messages are "
            "kept for a day (POSTROOM_RETENTION_MS); name an earlier --timestamp"
        )
    return found


def _exchanges(api: RestClient, replay: str, messages: list[dict[str, Any]], timeout_s: float) -> Iterator[Exchange]:
    """Give each message, and wait for its answer. After one without an end, the rest would wait behind it."""
    asked = [each for each in messages if each["trigger"]]
    for each in messages:
        given = api.post("past", "replays", replay, "messages", body={"message": each["messageId"]})["messageId"]
        if not each["trigger"]:
            continue
        _progress(f"{asked.index(each) + 1} of {len(asked)}: {escape(each['message'])[:60]}")
        now = _wait(api, given, timeout_s)
        yield exchange(api.get("messages", each["messageId"]), now)
        if now["status"] not in _ENDED:
            return


def _wait(api: RestClient, message: str, timeout_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = deadline - time.monotonic()
        found: dict[str, Any] = api.get("messages", message, wait=max(0, min(_WAIT_S, round(left_s))))
        if found["status"] in _ENDED:
            return found
        if paused := api.get("agents", found["agent"]).get("paused"):
            return {**found, "lastError": f"agent {found['agent']} is paused: {paused['reason']}"}
        if left_s <= 0:
            why = api.get("why", ref=message)["reason"]
            return {**found, "lastError": f"no answer within {timeout_s:g} s: {found['lastError'] or why}"}


def _agent_of_now(
    api: RestClient,
    then: str,
    agent: str | None,
    provider: str | None,
    model: str | None,
    program: str | None,
    instructions_file: Path | None,
) -> str:
    """The agent that answers now: one of the past, or one that is made like the one of then."""
    is_made = any(each is not None for each in (provider, model, program, instructions_file))
    if agent is not None and is_made:
        raise errors.UsageError("--agent names an agent of the past; --provider and the others make one: use either")
    if program is not None and provider not in (None, "command"):
        raise errors.UsageError("--command needs no --provider: it makes an agent of the provider 'command'")
    if not is_made:
        return str(agent or then)
    like = api.get("agents", then)
    body = {name: like[name] for name in _INHERITED if like[name] is not None}
    chosen_provider = "command" if program is not None else provider or like["provider"]
    if chosen_provider == like["provider"]:
        body |= {"config": like["config"], "model": like["model"]}
    if program is not None:
        body["config"] = {"command": shlex.split(program)}
    if model is not None:
        body["model"] = model
    if instructions_file is not None:
        body["instructions"] = instructions_file.read_text("utf-8")
    name = _free_name(api.get("agents"), then, chosen_provider, model)
    api.put("agents", name, body={**body, "name": name, "provider": chosen_provider})
    return name


def _free_name(known: Mapping[str, Any], then: str, provider: str, model: str | None) -> str:
    """A name that no agent has, such as ``assistant-api-qwen3-2``."""
    name = re.sub(r"[^a-z0-9_-]+", "-", "-".join(each for each in (then, provider, model) if each).lower()).strip("-")
    name, number = name[: _LONGEST_ID - 5], 1
    while (found := name if number == 1 else f"{name}-{number}") in known:
        number += 1
    return found


def _described(agent: str, agents: Mapping[str, Any]) -> dict[str, Any]:
    known = agents.get(agent, {})
    return {"agent": agent, "provider": known.get("provider"), "model": known.get("model") or None}


def _title(of: Mapping[str, Any]) -> str:
    how = ", ".join(each for each in (of["provider"], of["model"]) if each)
    return f"{of['agent']} ({how})" if how else str(of["agent"])


def _check_past(api: RestClient) -> dict[str, Any]:
    found: dict[str, Any] | None = api.get("past")["past"]
    if found is None:
        raise errors.Unsafe(
            f"{api.url} is no copy of the past: the answers of a replay would go to people there. Open the past with "
            f"`{api.command_line('run --from-replica URL --timestamp T')}`, and replay there"
        )
    return found


def _check_works(api: RestClient, agent: str) -> None:
    if paused := api.get("agents", agent).get("paused"):
        raise errors.EmulatorError(
            f"agent {agent} is paused, as it was then: {paused['reason']}. To let it work here: "
            f"`{api.command_line(f'agents resume {agent}')}`"
        )


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\033[2K{text}", end="\r", file=sys.stderr, flush=True)  # noqa: T201
