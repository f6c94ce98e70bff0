"""Texts and files as parts that one message of Discord can hold, and the requests that carry them."""

import email.parser
import email.policy
import json
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels.base import OutgoingFile, Part
from shared.channels.discord import parts
from shared.core.errors import FilesRefused
from tests.shared.channels.discord.sending import BASE, WEBHOOK, Platform, ok, refusal, send


@pytest.fixture
def files(tmp_path):
    def make(*contents):
        made = []
        for index, content in enumerate(contents):
            path = tmp_path / f"{index}.bin"
            path.write_bytes(content)
            made.append(OutgoingFile(path, f"né {index}.txt", "text/plain", len(content)))
        return tuple(made)

    return make


def sizes(rendered):
    return [(part.text, [file.size for file in part.files]) for part in rendered]


def test_a_short_text_is_the_caption_of_the_first_album(files):
    made = files(*[b"x"] * 12)
    assert sizes(parts.render("look", made)) == [("look", [1] * 10), ("", [1] * 2)]


def test_a_long_text_goes_out_before_the_files(files):
    rendered = parts.render("a\n" * 1500, files(b"x"))
    assert [bool(part.files) for part in rendered] == [False, False, True]
    assert rendered[-1].text == ""


def test_files_without_a_text_are_an_answer(files):
    assert sizes(parts.render("", files(b"x", b"yy"))) == [("", [1, 2])]


@given(sizes=st.lists(st.integers(0, 10 * 2**20), max_size=40))
def test_no_request_is_larger_than_discord_takes_and_no_file_is_lost(sizes):
    made = tuple(OutgoingFile(Path("x"), str(index), "text/plain", size) for index, size in enumerate(sizes))
    rendered = parts.render("", made)
    assert [file for part in rendered for file in part.files] == list(made)
    for part in rendered:
        assert len(part.files) <= 10
        assert sum(file.size for file in part.files) < 25 * 2**20


def uploaded(request):
    """The parts of a multipart request: name to (filename, media type, bytes)."""
    head = b"Content-Type: " + request.headers["content-type"].encode() + b"\r\n\r\n"
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.content)
    return {
        part.get_param("name", header="content-disposition"): (
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    }


@pytest.mark.parametrize(
    ("age_ms", "call"),
    [(3_000, f"PATCH {WEBHOOK}/messages/@original"), (900_000, f"POST {BASE}/channels/200/messages")],
)
def test_files_are_sent_together_in_one_request_by_every_route(discord, files, age_ms, call):
    platform = Platform(ok())
    part = Part("look @everyone", files=files(b"first", b"second"))
    assert send(discord, platform, age_ms=age_ms, part=part) == "4242"
    assert platform.calls == [call]
    found = uploaded(platform.requests[0])
    message = json.loads(found.pop("payload_json")[2])
    assert message["content"] == "look @everyone"
    assert message["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert message["attachments"] == [{"id": "0", "filename": "né 0.txt"}, {"id": "1", "filename": "né 1.txt"}]
    assert [(name, value[1:]) for name, value in found.items()] == [
        ("files[0]", ("text/plain", b"first")),
        ("files[1]", ("text/plain", b"second")),
    ]
    assert ("nonce" in message) == call.startswith("POST")


@pytest.mark.parametrize("answer", [refusal(413, 0), refusal(400, 40005), httpx.Response(413, text="<html>")])
def test_files_that_discord_finds_too_large_leave_the_text(discord, files, answer):
    with pytest.raises(FilesRefused):
        send(discord, Platform(answer), part=Part("look", files=files(b"x")))


def test_a_file_that_has_changed_is_refused_before_anything_is_sent(discord, files):
    (file,) = files(b"first")
    file.path.write_bytes(b"longer than before")
    platform = Platform(ok())
    with pytest.raises(FilesRefused):
        send(discord, platform, part=Part("look", files=(file,)))
    assert platform.calls == []
