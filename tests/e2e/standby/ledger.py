"""What must be true after each takeover, told by witnesses outside the hosts: the platform, and the agents' journal."""

from tests.e2e.crash.invariants import _answered, _ended, _sent, _sound, _stored
from tests.e2e.crash.people import by_chat
from tests.e2e.standby.hosts import Host


def check(host: Host) -> None:
    """Nothing acknowledged is lost; nothing is said twice but with a recorded doubt; the file is sound."""
    problems = [*_stored(host), *_ended(host, all_completed=True), *_answered(host), *_sent(host), *_sound(host.db)]
    assert not problems, "\n".join(problems[:40])


def said_twice(host: Host) -> int:
    """How often a person got the same answer again, each with a recorded doubt."""
    taken = [(send.chat, send.text) for sends in by_chat(host.platform.taken).values() for send in sends]
    return len(taken) - len(set(taken))
