"""``emulator import``: agents, chats, people, schedules and files of another program, from a copy of its folder."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.base.terminal import escape
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, Part, TextTable, result, shorten
from emulator.moving import clockwork, nanoclaw, tinyagi
from emulator.moving.move_plan import TOKENS, MovePlan, PlannedFile
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder
from shared.core.time import clock

app = group("Move in: turn another program's folder into agents, chats, people, schedules and files here.")

Folder = Annotated[Path, typer.Argument(metavar="PATH", help="A copy of its folder. It is only read.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Zone = Annotated[str | None, typer.Option(help="The time zone in which the other program ran.")]
Prefix = Annotated[str, typer.Option(help="Begin the ids of agents and teams, and the labels of schedules, with this.")]
SameAgents = Annotated[
    bool,
    typer.Option("--same-agents", help="An agent of this id is the same one, also where it has another name here."),
]
ShowTexts = Annotated[bool, typer.Option("--show-texts", help="Show the texts of messages that are not answered.")]


@command(app, "nanoclaw")
def import_nanoclaw(
    api: RestClient,
    path: Folder,
    dry_run: DryRun = False,
    timezone: Zone = None,
    prefix: Prefix = "",
    same_agents: SameAgents = False,
    allowlist: Annotated[
        Path | None, typer.Option(help="Of version 1: its sender-allowlist.json, which is outside its folder.")
    ] = None,
    show_texts: ShowTexts = False,
) -> CommandResult:
    """Move in from a checkout of NanoClaw, of version 2 or 1. What is here already stays; repeat it as you like."""
    options = MoveOptions(_now(), clockwork.known_zone(timezone), prefix, same_agents, allowlist=allowlist)
    return _move(api, nanoclaw.read, path, options, is_dry=dry_run, with_texts=show_texts)


@command(app, "tinyagi")
def import_tinyagi(
    api: RestClient,
    path: Folder,
    dry_run: DryRun = False,
    timezone: Zone = None,
    prefix: Prefix = "",
    same_agents: SameAgents = False,
    answers: Annotated[
        str | None,
        typer.Option(metavar="CHANNEL:ID", help="The chat that gets the answers of schedules, such as telegram:4711."),
    ] = None,
    crontab: Annotated[
        Path | None, typer.Option(help="Of TinyClaw: the output of `crontab -l`, which has its schedules.")
    ] = None,
    show_texts: ShowTexts = False,
) -> CommandResult:
    """Move in from a home of TinyAGI or TinyClaw. What is here already stays; repeat it as you like."""
    options = MoveOptions(_now(), clockwork.known_zone(timezone), prefix, same_agents, _chat(answers), crontab)
    return _move(api, tinyagi.read, path, options, is_dry=dry_run, with_texts=show_texts)


def _now() -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def _chat(answers: str | None) -> tuple[str, str] | None:
    if answers is None:
        return None
    channel, _, platform_id = answers.partition(":")
    if channel not in TOKENS or not platform_id:
        raise errors.UsageError(f"--answers {answers!r} is no chat, such as telegram:4711")
    return channel, platform_id


def _move(
    api: RestClient,
    read: Callable[[SourceFolder, MoveOptions], MovePlan],
    path: Path,
    options: MoveOptions,
    *,
    is_dry: bool,
    with_texts: bool,
) -> CommandResult:
    """Read, let everything be checked, and only then write: the rows in one step, then the files, each once."""
    if not path.is_dir():
        raise errors.DoesNotExist(f"{path} is no folder")
    plan = read(SourceFolder(path), options)
    plan.same_agents = options.same_agents
    bots = _bots(plan)
    try:
        items = api.post("imports", body=plan.body, check="true")["items"]
    except (errors.NotReady, errors.TimedOut, errors.Unsafe):
        raise
    except EmulatorError as error:
        error.args = (f"{error}. Nothing was changed",)
        raise
    files = [{"agent": each.agent, "path": each.path, "state": "new", "note": ""} for each in plan.files]
    if not is_dry:
        for sentence in bots:
            print(f"note: {escape(sentence)}", file=sys.stderr)  # noqa: T201 - before anything is written
        items = api.post("imports", body=plan.body)["items"]
        files = _put_all(api, plan.files)
    facts: dict[str, Any] = {
        "source": plan.source,
        "version": plan.version,
        "dryRun": is_dry,
        "items": items,
        "files": files,
        "left": [each._asdict() for each in plan.left],
        "bots": bots,
        "texts": plan.texts if with_texts else [],
    }
    is_whole = all(each["state"] != "refused" for each in files)
    parts = _told(plan, items, files, bots, is_dry=is_dry, with_texts=with_texts)
    return result(facts, *parts, code=0 if is_whole else EmulatorError.exit_code)


def _put_all(api: RestClient, files: list[PlannedFile]) -> list[dict[str, str]]:
    """Write the files one by one; where Postroom does not answer, the error says how far that came."""
    done: list[dict[str, str]] = []
    try:
        done.extend(_put(api, each) for each in files)
    except EmulatorError as error:
        error.args = (
            f"{error}. All rows are here, and {len(done)} of {len(files)} files: run it again, and it goes on",
        )
        raise
    return done


def _put(api: RestClient, file: PlannedFile) -> dict[str, str]:
    """Write one file. Where that is refused, the others are written all the same."""
    try:
        state = api.put("agents", file.agent, "files", body={"path": file.path, "text": file.text})["state"]
    except (errors.NotReady, errors.TimedOut, errors.Unsafe):
        raise
    except EmulatorError as error:
        return {"agent": file.agent, "path": file.path, "state": "refused", "note": str(error)}
    note = "it has another text, which stays" if state == "other" else ""
    return {"agent": file.agent, "path": file.path, "state": state, "note": note}


def _bots(plan: MovePlan) -> list[str]:
    return [
        f"{channel}: stop {plan.source} before Postroom gets {TOKENS[channel][0]}, and start it no more with that "
        f"token. {TOKENS[channel][1]}."
        for channel in plan.bots
    ]


def _told(
    plan: MovePlan,
    items: list[dict[str, Any]],
    files: list[dict[str, str]],
    bots: list[str],
    *,
    is_dry: bool,
    with_texts: bool,
) -> list[Part]:
    made = "would be made" if is_dry else "made"
    words = {"made": made, "there": "already there", "other": "already there", "refused": "refused"}
    words["new"] = "would be made, unless it is there"  # a dry run does not look at files
    rows = [(each["kind"], each["name"], words[each["state"]], each["note"]) for each in items]
    rows += [("file", f"{each['agent']}/{each['path']}", words[each["state"]], each["note"]) for each in files]
    parts: list[Part] = [
        f"{f'{plan.source} {plan.version}'.strip()}: {'a dry run, nothing was changed' if is_dry else 'moved in'}.",
        TextTable(("what", "name", "state", "note"), rows, "There is nothing to move in."),
    ]
    if plan.left:
        left = [(each.what, each.why, each.do) for each in plan.left]
        parts += ["What does not come along as it was:", TextTable(("what", "why", "what to do"), left, "")]
    if with_texts:
        parts += [shorten(each) for each in plan.texts]
    if not any(user["roles"] for user in plan.users):
        parts.append("No owner comes along: `emulator pair` makes one.")
    return [*parts, *(bots if is_dry else ())]
