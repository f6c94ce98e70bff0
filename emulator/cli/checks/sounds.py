"""What makes text of voice messages, and sound of text: its program is here, or its model has a key or an address."""

import shutil
from collections.abc import Iterator, Sequence

from emulator.cli.checks.finding import Finding, ok, problem
from emulator.cli.checks.installation import StoredAgent
from shared.core import sound_makers
from shared.core.settings import Settings
from shared.core.sound_makers import SoundProgram
from shared.turns.gateway.upstreams import GatewaySettings, why_no_sound


def findings(chosen: Settings, models: GatewaySettings, agents: Sequence[StoredAgent]) -> Iterator[Finding]:
    """One for each that is named; none where nothing is."""
    named = {"POSTROOM_TRANSCRIBER": chosen.transcriber, "POSTROOM_SPEAKER": chosen.speaker}
    for agent in agents:
        named |= {f"the transcriber of {agent.id}": agent.transcriber, f"the speaker of {agent.id}": agent.speaker}
    for name, setting in named.items():
        if setting not in (None, "", sound_makers.NONE):
            yield _finding(name, setting or "", models)


def _finding(name: str, setting: str, models: GatewaySettings) -> Finding:
    try:
        maker = sound_makers.read(setting)
    except ValueError as error:
        return problem("sound", f"{name}: {error}", "correct it (docs/agents/voice.md)")
    if isinstance(maker, SoundProgram) and shutil.which(maker.words[0]) is None:
        return problem(
            "sound", f"{name}: the program {maker.words[0]!r} is not installed", "install it, or name another"
        )
    why = None if maker is None or isinstance(maker, SoundProgram) else why_no_sound(models, maker.host)
    if why is not None:
        return problem("sound", f"{name}: {why}", "set it in .env, and restart (docs/agents/voice.md)")
    return ok("sound", f"{name}: {setting}")
