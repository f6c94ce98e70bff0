"""The settings that name what makes text of sound, or sound of text."""

import pytest

from shared.core import sound_makers
from shared.core.sound_makers import SoundModel, SoundProgram

SETTINGS = {
    None: None,
    "": None,
    "none": None,
    "openai/whisper-1": SoundModel("openai", "whisper-1"),
    "openai/tts-1#nova": SoundModel("openai", "tts-1", "nova"),
    "speech/Systran/faster-whisper-small": SoundModel("speech", "Systran/faster-whisper-small"),
    "whisper-cli -m '/models/a b.bin' -f {sound}": SoundProgram(
        ("whisper-cli", "-m", "/models/a b.bin", "-f", "{sound}")
    ),
}


@pytest.mark.parametrize(("setting", "maker"), SETTINGS.items())
def test_what_a_setting_names(setting, maker):
    assert sound_makers.read(setting) == maker
    assert sound_makers.checked_transcriber(setting) == sound_makers.checked_speaker(setting) == setting


@pytest.mark.parametrize("setting", ["openai/", "local/a b", "say 'it", "  "])
def test_a_setting_that_names_nothing_is_refused(setting):
    with pytest.raises(ValueError, match=r"words|HOST/MODEL"):
        sound_makers.checked_speaker(setting)


def test_a_program_that_gets_no_sound_is_refused():
    with pytest.raises(ValueError, match=r"by \{sound\}"):
        sound_makers.checked_transcriber("whisper-cli")
