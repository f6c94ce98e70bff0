"""Prints what a month costs at each provider: of the amounts in ``measured.toml``, or of the Postroom that runs here.

``python -m infra.costs --here`` counts by what the supervisor and Litestream have counted since they started.
"""

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

import msgspec

from infra.costs.bill import MONTH_S, Amounts, PriceList
from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.db.replica import replica_report
from shared.db.replica.replica_report import ReplicaReport

T = TypeVar("T")

HERE = Path(__file__).parent
# Litestream counts no listings. A bucket that counted saw so many in an hour, and more for each file of level 0.
_LISTS, _LISTS_PER_FILE = 430, 0.19
_DOWNLOADS = 60  # in an hour, of Litestream


def providers(path: Path) -> list[PriceList]:
    """The price list."""
    return _read(path, "providers", list[PriceList])


def measured(path: Path) -> list[Amounts]:
    """The amounts that were measured before."""
    return _read(path, "amounts", list[Amounts])


def _read(path: Path, key: str, kind: type[T]) -> T:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()).get(key), kind)
    except OSError as error:
        raise ConfigInvalid(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigInvalid(f"{path}, {key}: {error}") from None


def here(report: ReplicaReport, metrics: str, *, now_ms: int, now_s: float) -> Amounts:
    """A month at the present rate: by the supervisor's *report*, and the *metrics* of Litestream."""
    own, own_s = report.requests, max((now_ms - report.counting_since) / 1000, 1.0)
    started = re.search(r"^process_start_time_seconds (\S+)", metrics, re.MULTILINE)
    its_s = max(now_s - float(started[1]), 1.0) if started else own_s
    counted = re.findall(r"^litestream_replica_operation_total{([^}]*)} (\S+)$", metrics, re.MULTILINE)
    uploads = sum(float(value) for labels, value in counted if 'operation="PUT"' in labels)
    survey = report.survey
    newest = next((level.files for level in survey.levels if level.level == 0), 0) if survey else 0
    hours = MONTH_S / 3600
    lists = (_LISTS + _LISTS_PER_FILE * newest) * hours
    return Amounts(
        f"this one, by {own_s / 3600:.1f} hours",
        writes=(own.puts + own.lists) / own_s * MONTH_S + uploads / its_s * MONTH_S + lists,
        reads=own.gets / own_s * MONTH_S + _DOWNLOADS * hours,
        stored_gb=survey.bytes / 1e9 if survey else 0,
    )


def table(rows: Sequence[Amounts], places: Sequence[PriceList]) -> Iterator[str]:
    """Dollars a month: a row for each provider, a column for each of the amounts."""
    for number, each in enumerate(rows, 1):
        yield f"({number}) {each.what}"
    wide = max(len(each.name) for each in places)
    yield f"\n{'$ a month':<{wide}}" + "".join(f"{f'({number})':>9}" for number in range(1, len(rows) + 1))
    for place in places:
        yield f"{place.name:<{wide}}" + "".join(f"{place.total(each):9.2f}" for each in rows)


def details(amounts: Amounts, place: PriceList) -> Iterator[str]:
    """Each line of one bill, with the date and the source of its price."""
    yield f"\n{place.name}: {amounts.what}"
    for price, cost in place.lines(amounts):
        doubt = "" if price.checked else ", NOT CHECKED at the provider"
        yield f"{cost:9.2f}  {price.what}  ({price.as_of}{doubt}: {price.source})"


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0, or 66 where it can't be made."""
    parser = argparse.ArgumentParser(prog="python -m infra.costs", description=__doc__.partition("\n")[0])
    parser.add_argument("--prices", type=Path, default=HERE / "prices.toml", help="your own price list, in that form")
    parser.add_argument("--amounts", type=Path, default=HERE / "measured.toml", help="other amounts, in that form")
    parser.add_argument("--here", action="store_true", help="the Postroom of POSTROOM_DB on this machine")
    parser.add_argument("--out-gb", type=float, default=0, help="what a month's answers to the platforms weigh")
    parser.add_argument("--lines", action="store_true", help="each line of each bill, with the source of its price")
    options = parser.parse_args(arguments)
    try:
        places = providers(options.prices)
        counted = [_read_here()] if options.here else measured(options.amounts)
    except ConfigInvalid as error:
        sys.stderr.write(f"costs: {error}\n")
        return os.EX_NOINPUT
    rows = [msgspec.structs.replace(each, out_gb=each.out_gb + options.out_gb) for each in counted]
    for line in table(rows, places):
        sys.stdout.write(f"{line}\n")
    for place in places if options.lines else ():
        for amounts in rows:
            sys.stdout.writelines(f"{line}\n" for line in details(amounts, place))
    return 0


def _read_here() -> Amounts:
    database = Path(os.environ.get("POSTROOM_DB", "postroom.db"))
    report = replica_report.read(database)
    if report is None:
        raise ConfigInvalid(
            f"no report of replication is beside {database.resolve()}: start infra.replicate, or set POSTROOM_DB"
        )
    address = os.environ.get("POSTROOM_LITESTREAM_ADDR")
    if not address:
        raise ConfigInvalid(
            "POSTROOM_LITESTREAM_ADDR is not set: give infra.replicate and this command the same, as 127.0.0.1:9090"
        )
    try:
        with urlopen(f"http://{address}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
    except (OSError, ValueError, HTTPException) as error:
        raise ConfigInvalid(
            f"Litestream does not answer at POSTROOM_LITESTREAM_ADDR={address} ({error}): does infra.replicate run "
            "with the same?"
        ) from None
    now_ms = clock.machine_ms()
    return here(report, metrics, now_ms=now_ms, now_s=now_ms / 1000)
