"""The frame of every command over REST: it finds the API, knows ``--json``, and ends with an exit code.

A command is a function from the API and its own options to a result. :func:`command` adds the options that all commands
share, writes the result, and turns a failure into a sentence and an exit code.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer

from emulator.base.errors import EmulatorError, ExitCode
from emulator.base.hints import STATE
from emulator.base.terminal import PROSE, escape, indent_more
from emulator.cli import client, output
from emulator.cli.commands import setting_options
from emulator.cli.output import CommandResult
from shared.core.errors import PostroomError
from shared.core.row_settings import SettingField

State = Annotated[Path | None, typer.Option(help="The state folder of the emulator.", show_default=str(STATE))]
Url = Annotated[
    str | None,
    typer.Option(
        envvar="POSTROOM_URL",
        show_envvar=False,
        help="The API of a Postroom elsewhere (or POSTROOM_URL); the token comes from POSTROOM_API_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the response of the API as JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="The maximum number of rows.")]
T = TypeVar("T")

_COMMON = {"state": (State, None), "url": (Url, None), "as_json": (Json, False)}


def group(help_: str) -> typer.Typer:
    """A group of commands about one subject."""
    return typer.Typer(no_args_is_help=True, help=help_)


def command(
    app: typer.Typer, name: str, *, takes_minus: bool = False, settings: Mapping[str, SettingField] | None = None
) -> Callable[[Callable[..., CommandResult]], Callable[..., CommandResult]]:
    """Register a function whose first parameter is the API as a command; the function itself stays unchanged.

    Args:
        takes_minus: an argument may begin with a minus, as the ids of Telegram's groups do.
        settings: those of a row; the command takes each as an option, and gets them by keyword.
    """

    def made(run: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
        hints = get_type_hints(run, include_extras=True)
        _, *named = inspect.signature(run).parameters.values()
        own = [each.replace(annotation=hints[each.name]) for each in named if each.kind is not each.VAR_KEYWORD]
        if settings is not None:
            own = setting_options.parameters(settings, own)

        @wraps(run)
        def entry(*, state: Path | None, url: str | None, as_json: bool, **arguments: Any) -> None:
            api = run_or_fail(lambda: client.find(state, url))
            if api.past is not None:
                print(f"note: {escape(api.past)}", file=sys.stderr)  # noqa: T201
            with client.time_of(api):
                end_with(lambda: run(api, **arguments), as_json=as_json)

        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in own] + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in _COMMON.items()
        ]
        entry.__annotations__ = {each.name: each.annotation for each in parameters}
        entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        del entry.__wrapped__  # typer would look at the function behind it
        app.command(name, context_settings={"ignore_unknown_options": takes_minus})(entry)
        return run

    return made


def run_on_either(
    state: Path | None,
    url: str | None,
    *,
    of_emulator: Callable[[Path], CommandResult],
    of_postroom: Callable[[client.RestClient], CommandResult],
) -> CommandResult:
    """The result for the emulator in the state folder, or for the Postroom at *url*, whichever the options mean."""

    def work() -> CommandResult:
        folder = client.emulator_folder(state, url)
        return of_emulator(folder) if folder is not None else of_postroom(client.find(None, url))

    return run_or_fail(work)


def end_with(work: Callable[[], CommandResult], *, as_json: bool) -> NoReturn:
    """Write the result of *work*, and end the command with its code."""
    command_result = run_or_fail(work)
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def run_or_fail(work: Callable[[], T]) -> T:
    """The result of *work*; a failure is printed, and ends the command with its exit code."""
    try:
        return work()
    except EmulatorError as error:
        fail(str(error), error.exit_code)
    except PostroomError as error:
        fail(str(error), ExitCode.MISCONFIGURED)


def fail(text: str, code: int) -> NoReturn:
    """Print the error on stderr and end with *code*."""
    print(f"error: {indent_more(escape(text, keep=PROSE), 2)}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)
