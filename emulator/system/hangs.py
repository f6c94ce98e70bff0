"""Functions whose process runs and does not answer: it is stopped, or its event loop stands still.

A function that is merely busy answers, because its event loop goes on. Nothing ends a process that hangs: perhaps
somebody debugs it. The sentence about it names the command that does.
"""

from emulator.base.hints import command_line
from emulator.base.state import StateFolder
from emulator.system.functions import Function
from emulator.system.gateway import Gateway

LIMIT_S = 3.0  # as in production's health checks (infra/probe.py)
BRIEF_LIMIT_S = 1.0  # where more than the missing answer speaks for it


async def look(function: Function, gateway: Gateway, state: StateFolder) -> None:
    """Ask the function whether it is there, and set why it hangs, or that it does not."""
    process = function.current
    if function.problem is not None or process is None:
        function.hangs = None
        return
    url = f"http://127.0.0.1:{function.port}/healthz"
    if await gateway.answers(url, limit_s=BRIEF_LIMIT_S):
        function.hangs = None
    elif _is_known_to_hang(function.name, process.pid, state):
        function.hangs = _why(function.name, process.pid, state, BRIEF_LIMIT_S)
    else:
        is_answering = await gateway.answers(url, limit_s=LIMIT_S - BRIEF_LIMIT_S)
        function.hangs = None if is_answering else _why(function.name, process.pid, state, LIMIT_S)


def _is_known_to_hang(name: str, pid: int, state: StateFolder) -> bool:
    from shared.db.engine.writer_process.remote import STOPPED, why_it_hangs  # late: mostly none hangs
    from shared.runtime import kick  # as above

    return bool(why_it_hangs(pid, STOPPED) or kick.silent_ms(state.run, name))


def _why(name: str, pid: int, state: StateFolder, limit_s: float) -> str:
    """What is known of the process, and what to do."""
    from shared.db.engine.writer_process.remote import ON_THE_DISK, STOPPED, why_it_hangs  # late: mostly none hangs
    from shared.runtime import kick  # as above

    reason = why_it_hangs(pid, STOPPED | ON_THE_DISK)
    silent_ms = kick.silent_ms(state.run, name)
    facts = [f"its process {pid} does not answer within {limit_s:.0f} s"]
    facts += [reason] if reason else []
    facts += [kick.silence(silent_ms)] if silent_ms else []
    log, kill = (command_line(f"{command} {name}", state.path) for command in ("logs", "fault kill"))
    return f"{'; '.join(facts)}. Its log: `{log}`. To start another one: `{kill}`"
