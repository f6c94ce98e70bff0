"""The times of other programs' schedules, as Postroom tells them: five fields of cron, in a named zone."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from emulator.base import errors
from shared.core.errors import ConfigInvalid
from shared.core.time import cron


class CantBeTold(Exception):
    """No five fields say this; the text says why."""


def five_fields(expression: str) -> str:
    """The expression in five fields.

    Raises:
        CantBeTold: seconds, years or words of another dialect are in it.
    """
    fields = expression.split()
    if len(fields) == 7 and fields.pop() != "*":
        raise CantBeTold("it names years")
    if len(fields) == 6 and fields.pop(0) not in ("0", "00"):
        raise CantBeTold("it names seconds, and schedules here begin with a minute")
    found = " ".join("*" if field == "?" else field for field in fields)
    try:
        cron.validate(found, "UTC")
    except ConfigInvalid as error:
        raise CantBeTold(str(error)) from None
    return found


def of_interval(seconds: float) -> str:
    """The expression of a run every so many seconds.

    Raises:
        CantBeTold: no expression has this interval.
    """
    minutes, rest = divmod(seconds, 60)
    hours, odd_minutes = divmod(minutes, 60)
    if rest or minutes < 1:
        raise CantBeTold(f"every {seconds:g} seconds is no whole number of minutes")
    if minutes < 60 and 60 % minutes == 0:
        return "* * * * *" if minutes == 1 else f"*/{minutes:g} * * * *"
    if not odd_minutes and hours <= 24 and 24 % hours == 0:
        return "0 0 * * *" if hours == 24 else "0 * * * *" if hours == 1 else f"0 */{hours:g} * * *"
    raise CantBeTold(f"every {seconds:g} seconds does not divide an hour or a day")


def depends_on_zone(expression: str) -> bool:
    """Whether the wall clock of a zone decides when it runs: it names hours or days."""
    fields = expression.split()
    return len(fields) != 5 or set(fields[1:]) != {"*"}


def instant(text: str, zone: tzinfo) -> datetime:
    """An instant of ISO 8601; in *zone* where it has no offset.

    Raises:
        CantBeTold: it is none.
    """
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "T"))
    except ValueError:
        raise CantBeTold(f"{text!r} is no instant") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def iso(at: datetime) -> str:
    """The instant as REST takes it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def known_zone(name: str | None) -> str | None:
    """The zone, checked.

    Raises:
        InvalidInput: there is no such zone.
    """
    if name is None:
        return None
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise errors.InvalidInput(f"time zone {name!r} is not known; use a name such as Europe/Zurich") from None
    return name


def zone_for(expression: str, zone: str | None) -> str:
    """The zone of a schedule.

    Raises:
        UsageError: it names hours, and no zone is known.
    """
    if zone is None and depends_on_zone(expression):
        raise errors.UsageError(
            "the schedules name hours, and no file says in which time zone they were meant: add --timezone, such as "
            "--timezone Europe/Zurich (the zone of the machine where the other program ran)"
        )
    return zone or "UTC"
