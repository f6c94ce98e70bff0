"""The formats of uploads, by their first bytes."""

import pytest

from emulator.platforms import file_formats
from tests.emulator.platforms.telegram.pictures import OGG, png

JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x03\x00\x04rest"
WEBP = b"RIFF\x00\x00\x00\x00WEBP"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(4, 3), (4, 3)),
        (b"GIF89a\x04\x00\x03\x00", (4, 3)),
        (JPEG, (4, 3)),
        (WEBP + b"VP8X" + b"\0" * 8 + b"\x03\0\0\x02\0\0", (4, 3)),
        (WEBP + b"VP8 " + b"\0" * 10 + b"\x04\x00\x03\x00", (4, 3)),
        (b"", None),
        (b"\x89PNG\r\n\x1a\n", None),
        (JPEG[:8], None),
        (b"hello", None),
    ],
)
def test_the_size_of_a_picture(data, size):
    assert file_formats.image_size(data) == size


@pytest.mark.parametrize(
    ("data", "is_voice"),
    [(OGG, True), (b"OggS" + b"\0" * 60, False), (b"ID3", True), (b"\0\0\0\x20ftypM4A ", True), (b"RIFF", False)],
)
def test_sounds_that_are_voice_messages(data, is_voice):
    assert file_formats.is_voice(data) is is_voice
