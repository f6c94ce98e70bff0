import pytest

from shared.core import media_types

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("first", "said", "expected"),
    [
        (PNG, "text/plain", "image/png"),
        (b"RIFF0000WEBP", None, "image/webp"),
        (b"RIFF0000WAVE", None, "audio/wav"),
        (b"RIFF0000AVI ", "video/avi", "video/avi"),
        (b"\0\0\0\x18ftypM4A ", None, "audio/mp4"),
        (b"\0\0\0\x18ftypqt  ", None, "video/quicktime"),
        (b"PK\x03\x04", "image/png", media_types.UNKNOWN),
        (b"PK\x03\x04", "application/zip", "application/zip"),
        (b"", None, media_types.UNKNOWN),
        (b"", "image/jpeg", media_types.UNKNOWN),
    ],
)
def test_the_content_wins_over_what_is_said(first, said, expected):
    assert media_types.of(first, said) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "text/csv"),
        ("A.PDF", "application/pdf"),
        ("a", None),
        ("a.unknown-thing", None),
        ("../a.json", "application/json"),
        ("voice.ogg", "audio/ogg"),
        ("sticker.webp", "image/webp"),
    ],
)
def test_a_name_is_a_hint(name, expected):
    assert media_types.of_name(name) == expected


@pytest.mark.parametrize(
    ("first", "ending"),
    [
        (PNG, ".png"),
        (b"\xff\xd8\xff", ".jpg"),
        (b"OggS", ".ogg"),
        (b"RIFF0000WEBP", ".webp"),
        (b"RIFF0000WAVE", ".wav"),
        (b"\0\0\0\x18ftypM4A ", ".m4a"),
        (b"\0\0\0\x18ftypisom", ".mp4"),
    ],
)
def test_a_file_without_a_name_has_the_ending_of_its_content(first, ending):
    """Also where the list of this Python has none."""
    assert media_types.ending(media_types.of(first, None)) == ending


def test_each_type_by_content_has_an_ending_that_stands_for_it():
    assert all(media_types.of_name(f"a{media_types.ending(each)}") == each for each in media_types.BY_CONTENT)


@pytest.mark.parametrize("media_type", ["text/plain", "x/y"])
def test_only_a_type_by_content_gives_an_ending(media_type):
    assert media_types.ending(media_type) == ""
