"""Files on their way out: described by their content, kept on the row, looked at again before they go."""

import json
from dataclasses import replace

import pytest

from shared.channels import outgoing_files
from shared.channels.base import FileLimits, OutgoingFile
from shared.core import content

LIMITS = FileLimits(most_bytes=100, most_bytes_of={"photo": 10})
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def write(tmp_path):
    def write(name, held=b"42"):
        (tmp_path / name).write_bytes(held)
        return tmp_path / name

    return write


KINDS = {
    "an image": ("a.bin", PNG, "image/png", "photo"),
    "a moving one": ("a.gif", b"GIF89a", "image/gif", "animation"),
    "a voice": ("a.ogg", b"OggS", "audio/ogg", "voice"),
    "music": ("a.mp3", b"ID3\x04", "audio/mpeg", "audio"),
    "a film": ("a.mp4", b"\0\0\0\x18ftypisom", "video/mp4", "video"),
    "what its name says": ("a.csv", b"a,b", "text/csv", "document"),
    "an image by name alone": ("a.png", b"<html>", "application/octet-stream", "document"),
    "a drawing": ("a.svg", b"<svg/>", "image/svg+xml", "document"),
    "nobody knows": ("README", b"", "application/octet-stream", "document"),
}


@pytest.mark.parametrize(("name", "held", "media_type", "kind"), KINDS.values(), ids=KINDS)
def test_the_content_says_what_a_file_is(write, name, held, media_type, kind):
    found = outgoing_files.described(write(name, held))
    assert (found.name, found.media_type, found.kind, found.size) == (name, media_type, kind, len(held))


def test_a_caller_may_say_how_it_appears(write):
    assert outgoing_files.described(write("a.ogg", b"OggS"), kind="audio").kind == "audio"


def test_what_a_row_keeps_is_what_was_handed_over(write):
    files = (outgoing_files.described(write("a.png", PNG)), outgoing_files.described(write("b.txt")))
    stored = outgoing_files.encode(files)
    assert outgoing_files.decode(json.loads(stored)) == files
    assert content.file_paths(stored) == [str(each.path) for each in files]


def test_a_row_of_an_earlier_release_has_paths(tmp_path):
    (found,) = outgoing_files.decode([str(tmp_path / "a.txt")])
    assert (found.name, found.media_type, found.kind) == ("a.txt", "text/plain", "document")
    assert content.file_paths('["/x/a.txt"]') == ["/x/a.txt"]


@pytest.mark.parametrize("stored", [[{}], [7], [{"path": "/x", "name": "x", "type": "t", "size": 1, "kind": "code"}]])
def test_a_broken_row_is_an_error_of_that_row(stored):
    with pytest.raises((KeyError, TypeError, ValueError)):
        outgoing_files.decode(stored)


def problem(file, limits=LIMITS):
    return outgoing_files.problems([file], limits).get(file.path)


def test_a_file_as_it_was_has_no_problem(write):
    assert problem(outgoing_files.described(write("a"))) is None


def test_each_problem_has_its_word(write, tmp_path):
    file = outgoing_files.described(write("a"))
    assert problem(file, None) == "this channel can't send files"
    assert problem(replace(file, path=tmp_path / "gone")) == "it is no longer on this host"
    assert problem(replace(file, size=3)) == "it was changed after it was handed over"
    assert problem(replace(file, path=tmp_path)) == "it was changed after it was handed over"
    large = outgoing_files.described(write("large", b"x" * 101))
    assert problem(large) == "it is larger than 100 bytes, the most that this channel takes"


def test_a_kind_with_a_smaller_limit_may_go_out_as_a_document(tmp_path):
    photo = OutgoingFile(tmp_path / "a", "a", "image/png", 11, "photo")
    assert outgoing_files.too_large(photo.size, photo.kind, LIMITS) is None
    assert LIMITS.most("photo") == 10
