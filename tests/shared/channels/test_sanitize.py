import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels import sanitize


@pytest.mark.parametrize(
    ("value", "clean"),
    [("a\x00b\x07c\n\td", "abc\n\td"), ("\ud83d lone", "\ufffd lone"), ("zw\u200bsp", "zw\u200bsp"), ("\x7f", "\x7f")],
)
def test_text_loses_c0_controls_and_lone_surrogates_only(value, clean):
    assert sanitize.text(value) == clean


@given(st.text(st.characters()))
def test_sanitized_text_can_be_stored_and_is_stable(value):
    for clean in (sanitize.text, sanitize.name, sanitize.file_name):
        once = clean(value)
        assert once.encode().decode() == once
        assert clean(once) == once


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("../../etc/passwd\x00.png", "passwd.png"),
        ("C:\\Users\\me\\a b.txt", "a b.txt"),
        ("..", "file"),
        ("/", "file"),
        ("", "file"),
        (" . ", "file"),
        ("a\r\nSet-Cookie: x", "aSet-Cookie: x"),
    ],
)
def test_a_file_name_is_one_path_component(value, name):
    assert sanitize.file_name(value) == name


@pytest.mark.parametrize(
    ("value", "mime"),
    [
        ("text/html; x=\r\nSet-Cookie: a", "text/html"),
        ("Image/PNG", "image/png"),
        ("", None),
        ("nonsense", None),
        ("/", None),
    ],
)
def test_a_mime_type_is_type_and_subtype(value, mime):
    assert sanitize.mime(value) == mime
