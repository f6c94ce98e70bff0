"""Forms with files: what is sent, what a name may hold, and files that changed."""

import asyncio
import os
from email.parser import BytesParser
from email.policy import HTTP

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels.base import OutgoingFile
from shared.channels.multipart import NAME_BYTES, PIECE_BYTES, Form, safe_name
from shared.core.errors import PermanentError


def file(path, content=b"hello", **changes):
    path.write_bytes(content)
    return OutgoingFile(
        **{"path": path, "name": path.name, "media_type": "text/plain", "size": len(content), **changes}
    )


def sent(form):
    async def go():
        await form.check()
        return [piece async for piece in form.pieces()]

    return asyncio.run(go())


def parsed(form):
    """The parts by name, as another program reads them: (content type, file name, bytes)."""
    head = f"Content-Type: {form.content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + b"".join(sent(form)))
    parts = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        parts[name] = (part["content-type"], part.get_filename(), part.get_payload(decode=True))
    return parts


def test_a_form_holds_its_fields_and_files(tmp_path):
    form = Form(
        {"chat_id": "-5", "caption": "Grüße 👋\r\n--x", "media": [{"type": "photo"}]},
        {"f0": file(tmp_path / "a.txt"), "f1": file(tmp_path / "b.bin", b"\x00\r\n--\xff", media_type="nonsense")},
    )
    assert parsed(form) == {
        "chat_id": (None, None, b"-5"),
        "caption": (None, None, "Grüße 👋\r\n--x".encode()),
        "media": ("application/json", None, b'[{"type":"photo"}]'),
        "f0": ("text/plain", "a.txt", b"hello"),
        "f1": ("application/octet-stream", "b.bin", b"\x00\r\n--\xff"),
    }


@pytest.mark.parametrize("content", [b"", b"x", b"x" * (PIECE_BYTES + 1)], ids=["empty", "one byte", "two pieces"])
def test_the_length_is_known_before_the_file_is_read(tmp_path, content):
    form = Form({"chat_id": "5"}, {"document": file(tmp_path / "a", content)})
    assert form.size == len(b"".join(sent(form)))
    assert max(map(len, sent(form))) <= PIECE_BYTES


def test_a_form_without_files_is_a_form(tmp_path):
    assert parsed(Form({"chat_id": "5"}, {})) == {"chat_id": (None, None, b"5")}


def test_half_a_character_is_replaced():
    assert parsed(Form({"caption": "cut \ud83d"}, {}))["caption"][2] == "cut \ufffd".encode()


@pytest.mark.parametrize("change", ["gone", "longer", "shorter", "folder", "link", "pipe"])
def test_a_file_that_changed_is_not_sent(tmp_path, change):
    given = file(tmp_path / "a.txt")
    given.path.unlink()
    match change:
        case "longer" | "shorter":
            given.path.write_bytes(b"hello!" if change == "longer" else b"hell")
        case "folder":
            given.path.mkdir()
        case "link":
            given.path.symlink_to(file(tmp_path / "secret").path)
        case "pipe":
            os.mkfifo(given.path)
    with pytest.raises(PermanentError, match=r"'a\.txt'.*nothing was sent"):
        asyncio.run(Form({}, {"document": given}).check())


def test_a_file_that_shrinks_while_it_is_sent_aborts_the_request(tmp_path):
    given = file(tmp_path / "a", b"x" * (PIECE_BYTES + 5))

    async def go():
        pieces = Form({}, {"document": given}).pieces()
        async for _ in pieces:
            os.truncate(given.path, PIECE_BYTES)

    with pytest.raises(PermanentError, match="has changed since it was"):
        asyncio.run(go())


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report (2).pdf", "report (2).pdf"),
        ("Übersicht 日本.pdf", "Übersicht 日本.pdf"),
        ('a"; filename="b.sh', "a__ filename=_b.sh"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\x.exe", "x.exe"),
        ("a\r\nX-Evil: 1.txt", "aX-Evil_ 1.txt"),
        ("gpj.\u202eexe.txt", "gpj._exe.txt"),
        ("", "file"),
        ("...", "file"),
        (".env", "env"),
        ("a.", "a"),
        ("x" * 300 + ".tar.gz", "x" * (NAME_BYTES - 3) + ".gz"),
    ],
)
def test_a_name_is_made_safe(name, safe):
    assert safe_name(name) == safe


@given(st.text())
def test_any_name_is_short_printable_and_without_quotes(name):
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= NAME_BYTES
    assert not set('"\\/\r\n\x00%') & set(safe)
    assert safe.isprintable()
