"""The environment of child processes: nothing of the developer's shell but a few named variables.

A developer's shell holds proxies, cloud profiles, certificate bundles (``AWS_CA_BUNDLE`` makes Litestream 0.5.17 refuse
to start) and real tokens. None of them reaches a child. A function gets the variables of these sources; a later source
overrides an earlier one:

1. the template's Environment
2. the template's ``Metadata.Emulator.Environment``
3. ``.env``
4. ``.env.local``
5. the variables of the shell in ``FROM_SHELL``, which choose how to run, and those that the caller names: of the model
   gateway
6. the emulator's own variables, which keep a local run local
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from emulator.base.errors import Misconfigured, Unsafe
from emulator.base.fakes import FAKES
from emulator.base.shell import of_shell
from shared.core import setting_places

FROM_SHELL = ("POSTROOM_DURABILITY", "POSTROOM_CONFIG", "POSTROOM_LEASH", "POSTROOM_API_TOKEN")
FILES = (".env", ".env.local")
DUMMY_AWS = {
    "AWS_ACCESS_KEY_ID": "emulator",
    "AWS_SECRET_ACCESS_KEY": "emulator",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "NO_PROXY": "127.0.0.1,localhost",
}

# What has failed in a replay is told, and not tried again.
OF_PAST = {"POSTROOM_MAX_ATTEMPTS": "1"}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOUD = re.compile(r"arn:aws|amazonaws\.com|\$\{|\{\{resolve:")


@dataclass(frozen=True, slots=True)
class EnvSetting:
    """One variable from a file; ``where`` is such as ``.env:3``."""

    name: str
    value: str
    where: str


def read_files(project: Path) -> list[EnvSetting]:
    """The settings of ``.env`` and ``.env.local``, in order.

    Raises:
        Misconfigured: names each line that can't be read.
        Unsafe: a value looks like a live token. The emulator must not be able to reach real people.
    """
    settings: list[EnvSetting] = []
    problems: list[str] = []
    for name in FILES:
        path = project / name
        if path.is_file():
            _read(path.read_text("utf-8", "replace"), name, settings, problems)
    if problems:
        raise Misconfigured("\n".join(problems))
    for setting in settings:
        kind = _live(setting.value)
        if kind:
            raise Unsafe(
                f"{setting.name} in {setting.where} looks like a live {kind} token. The emulator has its own tokens "
                f"for its fake platforms: delete the line from {setting.where.partition(':')[0]}, and keep real tokens "
                f"where you deploy (infra/README.md)"
            )
    return settings


def for_function(
    environ: Mapping[str, str],
    template: Mapping[str, str],
    emulator: Mapping[str, str],
    files: Iterable[EnvSetting],
    own: Mapping[str, str],
    from_shell: Iterable[str] = FROM_SHELL,
) -> dict[str, str]:
    """The whole environment of one function, without the values of the template that point into a cloud."""
    declared = {name: value for name, value in template.items() if not _CLOUD.search(value)}
    chosen = {name: environ[name] for name in from_shell if name in environ}
    of_files = [each for each in files if not each.name.startswith("AWS_")]
    places = {each.name: each.where for each in of_files if each.name not in chosen and each.name not in own}
    return (
        of_shell(environ)
        | declared
        | dict(emulator)
        | _local(of_files)
        | chosen
        | dict(own)
        | setting_places.variable(places)
    )


def for_relay(environ: Mapping[str, str], files: Iterable[EnvSetting], own: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the relay of Discord's Gateway: the files, and above them the emulator's variables."""
    return of_shell(environ) | _local(files) | dict(own)


def _local(files: Iterable[EnvSetting]) -> dict[str, str]:
    return {setting.name: setting.value for setting in files if not setting.name.startswith("AWS_")}


def ignored(files: Iterable[EnvSetting], own: Mapping[str, str]) -> list[str]:
    """A sentence for each setting of a file that has no effect, because the emulator sets it."""
    return [
        f"{setting.where}: {setting.name} is set by the emulator itself; this line has no effect here"
        for setting in files
        if setting.name in own or setting.name.startswith("AWS_")
    ]


def ignored_of_shell(
    environ: Mapping[str, str],
    effective: Mapping[str, str],
    known: Collection[str],
    from_shell: Collection[str] = FROM_SHELL,
) -> list[str]:
    """One sentence about the shell's settings without an effect, if there are any.

    Args:
        effective: what files and the emulator set; a variable that says the same is no news.
        known: the names of all settings.
    """
    given = [
        name for name, value in environ.items() if value and name not in from_shell and effective.get(name, "") != value
    ]
    of_settings = _known_of({name.upper() for name in given}, known)
    names = sorted(name for name in given if name.upper() in of_settings)
    if not names:
        return []
    return [
        f"of this shell {', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect here: put settings of "
        "Postroom into .env; its database, its replica and the bots are the emulator's own"
    ]


def _is_known(name: str, known: Collection[str]) -> bool:
    return bool(_known_of({name.upper()}, known))


def _known_of(names: Collection[str], known: Collection[str]) -> set[str]:
    """Those of the *names* that a setting has, or that fit its pattern."""
    patterns = [each for each in known if "*" in each]
    return {
        name
        for name in names
        if not name.startswith("AWS_") and (name in known or any(fnmatchcase(name, each) for each in patterns))
    }


def without_accounts(files: Iterable[EnvSetting]) -> list[EnvSetting]:
    """The settings of Postroom itself, and so of models; what belongs to an account of a platform is left out."""
    return [setting for setting in files if setting.name.upper().startswith("POSTROOM_")]


def unknown(files: Iterable[EnvSetting], known: Collection[str]) -> list[str]:
    """A sentence for each setting of a file that nothing reads, with the nearest of the *known* names."""
    names = sorted(name for name in known if "*" not in name)
    return [
        f"{setting.where}: {setting.name} is no setting of a function, and nothing here reads it"
        f"{_nearest(setting.name, names)}"
        for setting in files
        if not _is_known(setting.name, known) and not setting.name.startswith("AWS_")
    ]


def _nearest(name: str, known: Sequence[str]) -> str:
    whole = f"POSTROOM_{name.upper()}"
    near = [whole] if whole in known else get_close_matches(name.upper(), known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _read(text: str, file: str, settings: list[EnvSetting], problems: list[str]) -> None:
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip().removeprefix("export ").strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not _NAME.fullmatch(name):
            problems.append(f"{file}:{number}: expected NAME=value")
        else:
            settings.append(EnvSetting(name, _unquote(value), f"{file}:{number}"))


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value.partition(" #")[0].rstrip()


def _live(value: str) -> str | None:
    """The platform whose token this is."""
    return next((fake.title for fake in FAKES.values() if fake.token.search(value)), None)
