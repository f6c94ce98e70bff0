"""``render`` and ``send`` of the Telegram adapter with files, against a function that plays Telegram."""

import asyncio
import json
from dataclasses import replace
from email.parser import BytesParser
from email.policy import HTTP

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels.base import Button, OutgoingFile, Part
from shared.channels.telegram import media
from shared.core.errors import (
    ChatGone,
    FilesRefused,
    OutcomeUnknown,
    PartTooLong,
    PermanentError,
    PlaceGone,
    PlatformDown,
    RateLimited,
)
from shared.runtime.http_client import NoAnswer
from tests.fake_client import FakeClient
from tests.shared.channels.telegram import sending
from tests.shared.channels.telegram.sending import NOW, SENT, outgoing, refusal

ALBUM = {"ok": True, "result": [{"message_id": 77}, {"message_id": 78}, {"message_id": 79}]}
GROUP = {"platform_id": "-100", "thread_id": "17", "reply_to": "12"}


class Platform(sending.Platform):
    @property
    def calls(self):
        """Each call: its method, its parameters, and the files by the names of their parts."""
        return [(method, *_read(request)) for method, request in zip(self.methods, self.requests, strict=True)]


def _read(request):
    kind = request.headers["content-type"]
    if kind == "application/json":
        return json.loads(request.content), {}
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + request.content)
    fields, files = {}, {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if part.get_filename() is None:
            fields[name] = json.loads(content) if part["content-type"] == "application/json" else content.decode()
        else:
            files[name] = (part.get_filename(), part["content-type"], content)
    return fields, files


@pytest.fixture
def made(tmp_path):
    """Makes a file of a kind, with its number as its content."""

    def make(kind="document", number=1, **changes):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(str(number).encode())
        facts = {"path": path, "name": f"{number}.bin", "media_type": "image/png", "size": path.stat().st_size}
        return OutgoingFile(**{**facts, "kind": kind, **changes})

    return make


def send(adapter, part, platform, **changes):
    return asyncio.run(adapter.send(part, outgoing(**changes), FakeClient(platform), now_ms=NOW))


METHODS = {
    "photo": "sendPhoto",
    "document": "sendDocument",
    "video": "sendVideo",
    "audio": "sendAudio",
    "voice": "sendVoice",
    "animation": "sendAnimation",
}


@pytest.mark.parametrize(("kind", "method"), METHODS.items())
def test_a_file_is_shown_as_its_kind_with_its_caption(telegram, made, kind, method):
    platform = Platform(SENT)
    (part,) = telegram.render("**look** & see", [made(kind)])
    assert send(telegram, part, platform, **GROUP).message_id == "77"
    ((called, fields, files),) = platform.calls
    assert called == method
    assert fields == {
        "chat_id": "-100",
        "message_thread_id": "17",
        "reply_parameters": {"message_id": 12, "allow_sending_without_reply": True},
        "caption": "<b>look</b> &amp; see",
        "parse_mode": "HTML",
    }
    assert files == {kind: ("1.bin", "image/png", b"1")}


def test_an_album_is_one_message_with_all_its_ids(telegram, made):
    platform = Platform(ALBUM)
    (part,) = telegram.render("three views", [made("photo", 1), made("video", 2), made("photo", 3)])
    sent = send(telegram, part, platform, **GROUP)
    assert (sent.message_id, sent.also) == ("77", ("78", "79"))
    ((called, fields, files),) = platform.calls
    assert called == "sendMediaGroup"
    assert fields["media"] == [
        {"type": "photo", "media": "attach://f0", "caption": "three views", "parse_mode": "HTML"},
        {"type": "video", "media": "attach://f1"},
        {"type": "photo", "media": "attach://f2"},
    ]
    assert {name: content for name, (_, _, content) in files.items()} == {"f0": b"1", "f1": b"2", "f2": b"3"}
    assert (fields["message_thread_id"], "caption" in fields) == ("17", False)


@pytest.mark.parametrize("kind", ["document", "audio"])
def test_the_caption_of_documents_stands_under_the_last(telegram, made, kind):
    """Each of them has a caption of its own place; only the last reads as that of all."""
    platform = Platform(ALBUM)
    (part,) = telegram.render("all", [made(kind, at) for at in range(3)])
    send(telegram, part, platform)
    ((_, fields, _),) = platform.calls
    assert [item.get("caption") for item in fields["media"]] == [None, None, "all"]


def grouped(files):
    return [[file.name.partition(".")[0] for file in album] for album in media.albums(files)]


def plain(kind, number, size=1):
    return OutgoingFile(path=None, name=f"{number}.x", media_type="x/y", size=size, kind=kind)


@pytest.mark.parametrize(
    ("kinds", "groups"),
    [
        ("pvp", ["012"]),
        ("pdp", ["0", "1", "2"]),
        ("ddaa", ["01", "23"]),
        ("oog", ["0", "1", "2"]),
        ("pop", ["0", "1", "2"]),
        ("p" * 10, ["0123456789"]),
        ("", []),
    ],
)
def test_only_what_telegram_mixes_goes_together_and_the_order_stays(kinds, groups):
    names = {"p": "photo", "v": "video", "d": "document", "a": "audio", "o": "voice", "g": "animation"}
    files = [plain(names[kind], number) for number, kind in enumerate(kinds)]
    assert grouped(files) == [list(group) for group in groups]


@pytest.mark.parametrize(("count", "sizes"), [(11, [5, 6]), (20, [10, 10]), (21, [7, 7, 7]), (1, [1])])
def test_many_files_are_albums_of_like_size(count, sizes):
    assert sorted(len(group) for group in grouped([plain("photo", at) for at in range(count)])) == sizes


@given(st.lists(st.tuples(st.sampled_from(list(METHODS)), st.integers(0, media.UPLOAD_BYTES)), max_size=60))
def test_no_file_is_lost_and_no_album_exceeds_a_limit(chosen):
    files = [plain(kind, at, size) for at, (kind, size) in enumerate(chosen)]
    albums = list(media.albums(files))
    assert [file.name for album in albums for file in album] == [file.name for file in files]
    for album in albums:
        assert 1 <= len(album) <= 10
        assert len(album) == 1 or sum(file.size for file in album) <= media.UPLOAD_BYTES
        assert len(album) == 1 or len({file.kind for file in album} - {"photo", "video"}) <= 1
        assert not any(file.kind == "photo" and file.size > media.PHOTO_BYTES for file in album)


def test_a_photo_that_is_too_large_for_one_is_a_document():
    ((large,), (small,)) = media.albums([plain("photo", 1, media.PHOTO_BYTES + 1), plain("photo", 2)])
    assert (large.kind, small.kind) == ("document", "photo")


def test_a_text_too_long_for_a_caption_goes_before_the_files_uncut(telegram, made):
    text = "word " * 300
    first, second = telegram.render(text, [made("photo")])
    assert (first.text, first.files) == (text.strip(), ())
    assert (second.text, [file.kind for file in second.files]) == ("", ["photo"])


def test_a_text_that_a_caption_holds_stands_at_the_first_files(telegram, made):
    first, second = telegram.render("x" * 1000, [made("photo"), made("voice", 2)])
    assert (first.text, second.text) == ("x" * 1000, "")


@pytest.mark.parametrize("text", ["x" * 1001, "😀" * 501], ids=["letters", "pairs"])
def test_a_caption_is_counted_as_telegram_does_with_some_room(telegram, made, text):
    """Telegram's limit is 1024, in code points or in UTF-16 units."""
    first, second = telegram.render(text, [made("photo")])
    assert (first.text, first.files, second.text) == (text, (), "")


@pytest.mark.parametrize("text", ["", " \n"])
def test_files_need_no_text(telegram, made, text):
    platform = Platform(SENT)
    (part,) = telegram.render(text, [made("document")])
    send(telegram, part, platform)
    assert set(platform.calls[0][1]) == {"chat_id"}


def test_refused_markup_of_a_caption_is_sent_as_plain_text(telegram, made):
    platform = Platform(refusal("Bad Request: can't parse entities: Unsupported start tag"), ALBUM)
    (part,) = telegram.render("[page](https://e.org/x)", [made("photo", at) for at in (1, 2)])
    send(telegram, part, platform)
    first = platform.calls[1][1]["media"][0]
    assert (first["caption"], "parse_mode" in first) == ("page (https://e.org/x)", False)


@pytest.mark.parametrize(
    "why",
    ["PHOTO_INVALID_DIMENSIONS", "IMAGE_PROCESS_FAILED", "Can't use the media of the specified type in the album"],
)
def test_pictures_that_telegram_does_not_show_go_out_as_documents(telegram, made, why):
    platform = Platform(refusal(f"Bad Request: {why}"), ALBUM)
    send(telegram, Part("see", None, (made("photo"), made("video", 2))), platform)
    assert [item["type"] for item in platform.calls[1][1]["media"]] == ["document", "document"]
    assert platform.calls[1][1]["media"][-1]["caption"] == "see"


def test_a_voice_message_that_its_receiver_forbids_goes_out_as_a_document(telegram, made):
    platform = Platform(refusal("Bad Request: VOICE_MESSAGES_FORBIDDEN"), SENT)
    send(telegram, Part("", None, (made("voice"),)), platform)
    assert [called for called, *_ in platform.calls] == ["sendVoice", "sendDocument"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("Request Entity Too Large", 413), FilesRefused),
        (refusal("Bad Request: file must be non-empty"), FilesRefused),
        (refusal("Bad Request: not enough rights to send photos to the chat"), FilesRefused),
        (refusal("Bad Request: PHOTO_INVALID_DIMENSIONS"), FilesRefused),
        (refusal("Bad Request: message caption is too long"), PartTooLong),
        (refusal("Bad Request: TOPIC_CLOSED"), PlaceGone),
        (refusal("Forbidden: bot was kicked from the group chat", 403), ChatGone),
        (refusal("Too Many Requests", 429, retry_after=3), RateLimited),
        (httpx.Response(502), PlatformDown),
        (NoAnswer("WriteTimeout"), OutcomeUnknown),
    ],
)
def test_a_refusal_of_the_files_is_told_apart_from_one_of_the_place(telegram, made, answer, error):
    with pytest.raises(error) as caught:
        send(telegram, Part("x", None, (made("photo"),)), Platform(answer))
    assert type(caught.value) is error


def test_a_file_that_changed_since_it_was_handed_over_costs_no_call(telegram, made):
    platform = Platform(SENT)
    with pytest.raises(PermanentError, match="has changed since it was handed over"):
        send(telegram, Part("", None, (replace(made("photo"), size=99),)), platform)
    assert platform.calls == []


def test_a_private_file_is_shown_to_its_one_reader_and_an_album_is_taken_apart(telegram, made):
    """In a group, only the person who sent the command may see the answer."""
    private = {**GROUP, "context": {"ephemeral_message_id": "5", "receiver_user_id": "6"}}
    platform = Platform(SENT)
    send(telegram, Part("", None, (made("photo"),)), platform, **private)
    assert platform.calls[0][1]["ephemeral_message_parameters"] == {"receiver_user_id": 6}
    assert "reply_parameters" not in platform.calls[0][1]
    with pytest.raises(PartTooLong, match="one person"):
        send(telegram, Part("", None, (made("photo"), made("photo", 2))), platform, **private)
    assert len(platform.calls) == 1


def test_buttons_stand_under_one_file_so_an_album_with_them_is_taken_apart(telegram, made):
    buttons = {"buttons": (Button("Yes", "7.0"),)}
    platform = Platform(SENT)
    send(telegram, Part("", None, (made("photo"),)), platform, **buttons)
    assert platform.calls[0][1]["reply_markup"]["inline_keyboard"][0][0]["text"] == "Yes"
    with pytest.raises(PartTooLong, match="no buttons"):
        send(telegram, Part("", None, (made("photo"), made("photo", 2))), platform, **buttons)


def test_a_press_in_a_group_gets_no_file_that_others_could_see(telegram, made):
    platform = Platform(SENT)
    with pytest.raises(PermanentError, match="nobody else"):
        send(telegram, Part("", None, (made("photo"),)), platform, **GROUP, click={"callback_id": "1"})
    assert platform.calls == []


# -- edits ------------------------------------------------------------------------------------------------------------


def test_a_file_takes_the_place_of_what_a_message_holds(telegram, made):
    platform = Platform({"ok": True, "result": {"message_id": 55}})
    assert send(telegram, Part("new", "<b>new</b>", (made("photo"),)), platform, edits="55").message_id == "55"
    ((called, fields, files),) = platform.calls
    assert called == "editMessageMedia"
    assert fields == {
        "chat_id": "5000000001",
        "message_id": "55",
        "media": {"type": "photo", "media": "attach://f0", "caption": "<b>new</b>", "parse_mode": "HTML"},
    }
    assert set(files) == {"f0"}


def test_several_files_take_no_message_s_place(telegram, made):
    with pytest.raises(FilesRefused, match="one file in place"):
        send(telegram, Part("", None, (made("photo"), made("photo", 2))), Platform(SENT), edits="55")


def test_a_file_whose_message_is_gone_is_a_new_message(telegram, made):
    platform = Platform(refusal("Bad Request: message to edit not found"), SENT)
    assert send(telegram, Part("", None, (made("video"),)), platform, edits="55").message_id == "77"
    assert [called for called, *_ in platform.calls] == ["editMessageMedia", "sendVideo"]


def test_the_text_of_a_message_with_a_file_is_its_caption(telegram):
    platform = Platform(
        refusal("Bad Request: there is no text in the message to edit"),
        refusal("Bad Request: can't parse entities"),
        {"ok": True, "result": {"message_id": 55}},
    )
    assert send(telegram, Part("new", "<b>new</b>"), platform, edits="55").message_id == "55"
    assert [called for called, *_ in platform.calls] == ["editMessageText", "editMessageCaption", "editMessageCaption"]
    assert platform.calls[2][1] == {"chat_id": 5000000001, "message_id": 55, "caption": "new"}


def test_an_edit_with_a_file_and_without_an_answer_is_repeated(telegram, made):
    """It makes no second message."""
    with pytest.raises(OutcomeUnknown) as caught:
        send(telegram, Part("", None, (made("photo"),)), Platform(NoAnswer("slow")), edits="55")
    assert caught.value.is_repeatable
