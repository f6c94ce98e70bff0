"""What child processes may know of this machine: almost nothing, and only what is written down.

A developer's shell holds proxies, cloud profiles, certificate bundles (``AWS_CA_BUNDLE`` makes Litestream 0.5.17 refuse
to start) and real tokens. None of it reaches a child. Functions get, later ones winning: the template's Environment,
its ``Metadata.Emulator.Environment``, ``.env``, ``.env.local``, the few names of the shell that choose how to run
(``CHOICES``), and then the emulator's own names, which nobody overrides: they are what keeps a local run local.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator.base.errors import Misconfigured, Unsafe

BASE = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")
CHOICES = ("POSTROOM_DURABILITY", "POSTROOM_CONFIG")
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

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOUD = re.compile(r"arn:aws|amazonaws\.com|\$\{|\{\{resolve:")
# https://core.telegram.org/bots/api#authorizing-your-bot: digits, a colon, 35 characters.
_TELEGRAM_TOKEN = re.compile(r"\d{6,12}:[A-Za-z0-9_-]{35}")
# https://discord.com/developers/docs/reference#authentication: the bot's id in base64, a time stamp, an HMAC.
_DISCORD_TOKEN = re.compile(r"[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}")


@dataclass(frozen=True, slots=True)
class EnvSetting:
    """One variable from a file; ``where`` is ``.env:3``."""

    name: str
    value: str
    where: str


def base(environ: Mapping[str, str]) -> dict[str, str]:
    """What every child gets of ours."""
    return {name: environ[name] for name in BASE if name in environ} | {"PYTHONUNBUFFERED": "1"}


def read_files(project: Path) -> list[EnvSetting]:
    """The settings of ``.env`` and ``.env.local``, in order.

    Raises:
        Misconfigured: names each line that can't be read.
        Unsafe: a token that looks live; the emulator talks to fakes, and must not be able to reach real people.
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
                f"{setting.name} in {setting.where} looks like a live {kind} token. The emulator talks to its own fake "
                f"platforms with its own tokens: delete the line from {setting.where.partition(':')[0]}, and keep real "
                f"tokens where you deploy (infra/README.md)"
            )
    return settings


def for_function(
    environ: Mapping[str, str],
    template: Mapping[str, str],
    emulator: Mapping[str, str],
    files: Iterable[EnvSetting],
    own: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of one function. Values that point into a cloud stay in the template."""
    declared = {name: value for name, value in template.items() if not _CLOUD.search(value)}
    local = {setting.name: setting.value for setting in files if not setting.name.startswith("AWS_")}
    chosen = {name: environ[name] for name in CHOICES if name in environ}
    return base(environ) | declared | dict(emulator) | local | chosen | dict(own)


def overruled(files: Iterable[EnvSetting], own: Mapping[str, str]) -> list[str]:
    """A sentence for each setting of a file that has no effect here."""
    return [
        f"{setting.where}: {setting.name} is set by the emulator itself; this line has no effect here"
        for setting in files
        if setting.name in own or setting.name.startswith("AWS_")
    ]


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
    if _TELEGRAM_TOKEN.search(value):
        return "Telegram"
    if _DISCORD_TOKEN.search(value):
        return "Discord"
    return None
