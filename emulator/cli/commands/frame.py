"""What every command over REST has in common: where the API is, ``--json``, and how it ends.

A command is a function of the API, and of what it is told, to an answer; :func:`command` gives it the options that all
of them have, shows its result, and ends it with a sentence and its failure's exit code when it can't be done.
"""

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.base.hints import STATE
from emulator.cli import client, output
from emulator.cli.output import CommandResult
from shared.core.errors import PostroomError

State = Annotated[Path | None, typer.Option(help="The folder of the emulator that is meant.", show_default=str(STATE))]
Url = Annotated[
    str | None,
    typer.Option(
        envvar="POSTROOM_URL",
        show_envvar=False,
        help="The API of a Postroom elsewhere (or POSTROOM_URL); its token is read from POSTROOM_API_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="What the API says, as JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]
_COMMON = {"state": (State, None), "url": (Url, None), "as_json": (Json, False)}


def group(help_: str) -> typer.Typer:
    """Commands about one subject."""
    return typer.Typer(no_args_is_help=True, help=help_)


def command(
    app: typer.Typer, name: str, *, takes_minus: bool = False
) -> Callable[[Callable[..., CommandResult]], Callable[..., CommandResult]]:
    """Make a command of a function whose first parameter is the API; the function itself stays as it is.

    Args:
        takes_minus: an argument may begin with a minus, as the ids of Telegram's groups do.
    """

    def made(run: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
        hints = get_type_hints(run, include_extras=True)
        _, *own = inspect.signature(run).parameters.values()

        @wraps(run)
        def entry(*, state: Path | None, url: str | None, as_json: bool, **told: Any) -> None:
            said = _run(lambda: run(client.find(state, url), **told))
            output.write(said, as_json=as_json)
            raise typer.Exit(said.code)

        kinds = {each.name: hints[each.name] for each in own} | {name: kind for name, (kind, _) in _COMMON.items()}
        parameters = [each.replace(annotation=hints[each.name], kind=each.KEYWORD_ONLY) for each in own] + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in _COMMON.items()
        ]
        entry.__annotations__ = kinds
        entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        del entry.__wrapped__  # typer would look at the function behind it
        app.command(name, context_settings={"ignore_unknown_options": takes_minus})(entry)
        return run

    return made


def _run(work: Callable[[], CommandResult]) -> CommandResult:
    try:
        return work()
    except EmulatorError as error:
        fail(str(error), error.exit_code)
    except PostroomError as error:
        fail(str(error), errors.Misconfigured.exit_code)


def fail(text: str, code: int) -> NoReturn:
    """End with a sentence on stderr."""
    print(f"error: {output.clean(text, keep=chr(10))}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)
