"""What must be true after each takeover, told by witnesses outside the hosts: the platform, and the agents' journal."""

from emulator.proving import promises
from emulator.proving.ledger import balance
from emulator.proving.witnesses import Witnesses, read_journal
from tests.e2e.crash.invariants import completed, hold
from tests.e2e.standby.hosts import Host


def witnesses(host: Host) -> Witnesses:
    return Witnesses(host.db, host.platform.written, host.platform.sends, read_journal(host.record))


def check(host: Host) -> None:
    """Nothing acknowledged is lost; nothing is said twice but with a recorded doubt; the file is sound."""
    kept = [promises.stored, promises.ended, completed, promises.answered, promises.sent, promises.sound]
    hold(witnesses(host), kept)


def said_twice(host: Host) -> int:
    """How often a person got the same answer again, each with a recorded doubt."""
    return sum(each.arrivals - 1 for each in balance(witnesses(host)).doubled)
