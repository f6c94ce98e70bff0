"""The suite that every channel of the registry passes: recorded events, and every operation of the contract.

A new channel gets it by its line in the registry, and a kit (``kits``) beside its tests.
"""

import asyncio
import contextlib
import json
import re
from pathlib import Path

import httpx
import pytest

from shared.channels import outgoing_files, registry
from shared.channels.base import (
    ASKS_FOR_A_TURN,
    OutgoingFile,
    Part,
    PlainChannel,
    Poll,
    Registration,
    WebhookRequest,
)
from shared.core.errors import (
    FilesRefused,
    NotFetched,
    NotPossible,
    OutcomeUnknown,
    PayloadInvalid,
    PostroomError,
    RetryableError,
    SignatureInvalid,
)
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient
from tests.shared.channels.expected import seen
from tests.shared.channels.kits import kit_of
from tests.shared.channels.played import NOW, Calls, outgoing, send

LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 180 for number in range(6))
STATUSES = (200, 204, 301, 302, 400, 401, 403, 404, 408, 409, 413, 418, 429, 500, 502, 503, 504, 529)
KINDS = ("document", "photo", "video", "audio", "voice", "animation")

every_channel = pytest.mark.parametrize("name", registry.PLATFORMS)
every_sender = pytest.mark.parametrize("name", [each for each in registry.PLATFORMS if registry.traits(each).files])
every_fetcher = pytest.mark.parametrize(
    "name", [each for each in registry.PLATFORMS if registry.traits(each).fetch_bytes is not None]
)
every_event = pytest.mark.parametrize(
    ("name", "recorded"),
    [(name, each) for name in registry.PLATFORMS for each in kit_of(name).recorded],
    ids=lambda each: each if isinstance(each, str) else each.file,
)


def operations(name, calls):
    """Every optional operation of the channel, by its name."""
    adapter, kit, to = registry.get(name), kit_of(name), outgoing(name)
    emoji = (*registry.traits(name).reactions, "👍")[0]
    return {
        "react": lambda: adapter.react(emoji, "77", to, calls.client),
        "take back": lambda: adapter.react(None, "77", to, calls.client),
        "remove": lambda: adapter.remove("77", to, calls.client),
        "make a topic": lambda: adapter.make_topic("Plans", to, calls.client),
        "typing": lambda: adapter.typing(to, calls.client),
        "draft": lambda: adapter.draft("**half", 7, to, calls.client),
        "fetch": lambda: adapter.fetch(kit.attachment, calls.client, limit_bytes=10**6),
        "registration": lambda: adapter.registration(calls.client),
    }


def possible(name):
    """The operations that the traits promise."""
    traits = registry.traits(name)
    facts = {
        "react": traits.has_reactions,
        "take back": traits.has_reactions,
        "remove": traits.has_removals,
        "make a topic": traits.makes_topics,
        "typing": traits.typing_every_ms is not None,
        "draft": traits.draft_every_ms is not None,
        "fetch": traits.fetch_bytes is not None,
        "registration": type(registry.get(name)).registration is not PlainChannel.registration,
    }
    return {operation for operation, is_there in facts.items() if is_there}


every_operation = pytest.mark.parametrize(
    ("name", "operation"),
    [
        (name, operation)
        for name in registry.PLATFORMS
        for operation in ("react", "take back", "remove", "make a topic", "typing", "draft", "fetch", "registration")
    ],
)


# -- recorded events --------------------------------------------------------------------------------------------------


@every_event
def test_a_recorded_event_is_read_as_its_table_says(name, recorded):
    kit = kit_of(name)
    (event,) = registry.get(name).receive(kit.sign(recorded.body), now_ms=NOW).events
    found = seen(event, name, kit.in_context)
    expected = {key: value for key, value in recorded.expect.items() if key != "duplicate_of"}
    assert {key: found[key] for key in expected} == expected
    assert event.event_key
    assert event.kind in ASKS_FOR_A_TURN or not event.asks_for_a_turn


@every_event
def test_a_redelivery_is_the_same_event(name, recorded):
    kit, adapter = kit_of(name), registry.get(name)
    keys = {adapter.receive(kit.sign(recorded.body), now_ms=NOW + at).events[0].event_key for at in (0, 9)}
    assert len(keys) == 1


@every_event
def test_nobody_else_can_send_it(name, recorded):
    for headers in ({}, {"host": "x"}, dict.fromkeys(kit_of(name).sign(b"").headers, "0" * 64)):
        with pytest.raises(SignatureInvalid):
            registry.get(name).receive(WebhookRequest("POST", {}, headers, recorded.body), now_ms=NOW)


@every_event
def test_a_part_of_it_is_refused_or_read_and_never_an_unexpected_error(name, recorded):
    whole = recorded.body.rstrip()
    for length in range(0, len(whole), max(1, len(whole) // 25)):
        try:
            received = registry.get(name).receive(kit_of(name).sign(whole[:length]), now_ms=NOW)
        except PayloadInvalid as error:
            assert str(error)  # noqa: PT017
        else:
            assert not any(event.asks_for_a_turn for event in received.events)


@every_event
def test_what_it_brings_along_can_be_stored_and_names_its_kind(name, recorded):
    """A file keeps what ``fetch`` needs, as plain JSON: a turn may come much later, in another process."""
    (event,) = registry.get(name).receive(kit_of(name).sign(recorded.body), now_ms=NOW).events
    assert json.loads(json.dumps(event.attachments)) == list(event.attachments)
    assert json.loads(json.dumps(event.context)) == event.context
    for each in event.attachments:
        assert each["kind"]
        assert all(isinstance(each[key], str) for key in ("file_id", "url", "name", "mime") if key in each)
        assert all("/" not in each[key] and "\0" not in each[key] for key in ("name",) if key in each)


# -- parts ------------------------------------------------------------------------------------------------------------


def files_of(name, count, kinds=("document",), size=1000):
    return tuple(
        OutgoingFile(Path(f"/nowhere/{number}.bin"), f"{number}.bin", "application/octet-stream", size, kind)
        for number, kind in ((number, kinds[number % len(kinds)]) for number in range(count))
    )


@every_sender
@pytest.mark.parametrize("text", ["", "Here it is", LONG], ids=["no text", "a caption", "a long text"])
@pytest.mark.parametrize("count", [1, 2, 10, 11, 20])
@pytest.mark.parametrize(
    "kinds", [("document",), ("photo",), ("voice",), KINDS], ids=["documents", "photos", "voices", "all"]
)
def test_every_file_is_in_one_part_in_its_order_and_the_text_is_not_behind_them(name, text, count, kinds):
    files, adapter, limits = files_of(name, count, kinds), registry.get(name), registry.traits(name).files
    parts = adapter.render(text, files)
    assert parts == adapter.render(text, files)
    assert [file for part in parts for file in part.files] == list(files)
    assert all(len(part.files) <= limits.most_in_album for part in parts)
    words = [index for index, part in enumerate(parts) if part.text.strip()]
    first = next(index for index, part in enumerate(parts) if part.files)
    assert bool(words) == bool(text)
    assert all(index <= first for index in words)
    assert " ".join(part.text for part in parts).split() == text.split()


@every_sender
def test_a_part_may_have_lost_some_of_its_files(name, tmp_path):
    """What can't be sent is taken out of an album, also down to one file."""
    files = real_files(tmp_path, 3)
    for part in registry.get(name).render("Look", files):
        for left in range(1, len(part.files)):
            assert send(name, Part(part.text, part.html, part.files[:left])).message_id


def real_files(folder, count, content=b"\x89PNG\r\n\x1a\n"):
    made = []
    for number in range(count):
        path = folder / f"{number}.png"
        path.write_bytes(content + bytes([number]) * 50)
        made.append(outgoing_files.described(path))
    return tuple(made)


@every_sender
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_bytes_of_all_files_arrive_once_and_every_message_has_an_id(name, tmp_path, count):
    files, calls = real_files(tmp_path, count), Calls(name)
    ids = []
    for part in registry.get(name).render("Look", files):
        sent = send(name, part, calls)
        ids += [sent.message_id, *sent.also]
    bodies = b"".join(request.content for request in calls.requests)
    assert [bodies.count(bytes([number]) * 50) for number in range(count)] == [1] * count
    assert all(isinstance(each, str) and each for each in ids)
    assert len(ids) == len(set(ids))
    assert bodies.count(b"Look") == 1


@every_sender
def test_a_file_that_changed_or_went_is_refused_before_anything_leaves(name, tmp_path):
    gone, changed = real_files(tmp_path, 2)
    gone.path.unlink()
    changed.path.write_bytes(b"other")
    for file in (gone, changed):
        calls = Calls(name)
        with pytest.raises(FilesRefused):
            send(name, Part("", files=(file,)), calls)
        assert calls.requests == []


@every_sender
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("count", [1, 2])
def test_any_answer_to_files_gives_ids_or_an_error_of_ours(name, tmp_path, status, count):
    part = registry.get(name).render("Look", real_files(tmp_path, count))[0]
    for answer in (httpx.Response(status), httpx.Response(status, json=[1]), httpx.Response(status, json={"id": 1})):
        try:
            sent = send(name, part, Calls(name, answer))
        except PostroomError as error:
            assert str(error)  # noqa: PT017
            assert status != 413 or isinstance(error, FilesRefused)  # noqa: PT017
        else:
            assert 200 <= status < 300
            assert sent.message_id is None or isinstance(sent.message_id, str)


# -- operations -------------------------------------------------------------------------------------------------------


@every_operation
def test_what_the_traits_promise_works_and_nothing_else_does(name, operation):
    calls = Calls(name)
    work = operations(name, calls)[operation]
    if operation in possible(name):
        done = asyncio.run(work())
        assert calls.requests
        assert operation != "fetch" or done == kit_of(name).content
        assert operation != "registration" or isinstance(done, Registration)
    else:
        with pytest.raises((NotPossible, NotFetched)):
            asyncio.run(work())
        assert calls.requests == []


@every_operation
@pytest.mark.parametrize("status", STATUSES)
def test_any_answer_to_an_operation_is_a_result_or_an_error_of_ours(name, operation, status):
    for answer in (httpx.Response(status), httpx.Response(status, json={"ok": False, "code": 1, "message": "no"})):
        try:
            asyncio.run(operations(name, Calls(name, answer))[operation]())
        except PostroomError as error:
            assert str(error)  # noqa: PT017


@every_operation
@pytest.mark.parametrize("trouble", [RequestNotSent("ConnectError"), NoAnswer("ReadTimeout")], ids=["unsent", "silent"])
def test_an_operation_can_be_repeated_so_its_outcome_is_never_unknown(name, operation, trouble):
    if operation not in possible(name):
        return
    with pytest.raises(PostroomError) as caught:
        asyncio.run(operations(name, Calls(name, trouble))[operation]())
    if operation in ("react", "take back", "fetch"):
        assert isinstance(caught.value, RetryableError)
    if operation in ("react", "take back"):
        assert not isinstance(caught.value, OutcomeUnknown) or caught.value.is_repeatable


@every_operation
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_no_error_shows_a_secret_or_an_address(name, operation, status):
    secrets = kit_of(name).secrets

    def leaking(request):
        return httpx.Response(status, json={"ok": False, "description": str(request.url), "message": str(request.url)})

    calls = Calls(name)
    calls.client = FakeClient(leaking)
    try:
        asyncio.run(operations(name, calls)[operation]())
    except PostroomError as error:
        assert not any(secret in str(error) for secret in secrets)  # noqa: PT017
        assert not re.search(r"/bot\d+:", str(error))  # noqa: PT017


@every_operation
def test_every_call_names_what_it_counts_against(name, operation):
    calls = Calls(name)
    if operation in possible(name):
        asyncio.run(operations(name, calls)[operation]())
        downloads = [each for each in calls.requests if each.method == "GET" and operation == "fetch"]
        assert len(calls.admitted) == len(calls.requests) - len(downloads)
        assert calls.left == len(calls.admitted)  # each call that was let out is over
        assert all(scopes.account == name for scopes in calls.admitted)


@every_channel
def test_a_poll_and_a_sticker_go_out_as_such_where_the_traits_say_so(name):
    traits, calls = registry.traits(name), Calls(name)
    if traits.polls is not None:
        poll = Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=False, hours=24)
        assert send(name, Part("Lunch?"), calls, poll=poll).message_id is not None
        assert all(word in calls.requests[0].content for word in (b"Lunch?", b"Pizza", b"Noodles"))
    if traits.has_stickers:
        assert send(name, Part("👋"), calls, sticker={"kind": "sticker", "file_id": "s1"}).message_id is not None
        assert b"s1" in calls.requests[-1].content
    assert len(calls.requests) == (traits.polls is not None) + traits.has_stickers


@every_channel
def test_an_edit_changes_the_message_and_keeps_its_id(name):
    if registry.traits(name).has_edits:
        calls = Calls(name)
        assert send(name, Part("new", "new"), calls, edits="77").message_id is not None
        assert "77" in str(calls.requests[0].url) or b"77" in calls.requests[0].content


# -- files of strangers -----------------------------------------------------------------------------------------------


HOSTILE = {
    "another host": {"url": "https://evil.example/a.png"},
    "this machine": {"url": "http://127.0.0.1:22/"},
    "a file": {"url": "file:///etc/passwd"},
    "an id that is a path": {"file_id": "../../../etc/passwd"},
    "an id with a line": {"file_id": "a\r\nX: y"},
    "an id without end": {"file_id": "x" * 100_000},
    "a number": {"file_id": 7, "url": 7},
    "nothing": {"file_id": None, "url": None},
}


@every_fetcher
@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_attachment_reaches_no_other_host(name, given):
    calls = Calls(name)
    own = {request.url.host for request in _fetched(name).requests}
    attachment = {**dict.fromkeys(("file_id", "url")), "kind": "document", **given}
    with contextlib.suppress(NotFetched, RetryableError):
        asyncio.run(registry.get(name).fetch(attachment, calls.client, limit_bytes=1000))
    assert {request.url.host for request in calls.requests} <= own


def _fetched(name):
    calls = Calls(name)
    asyncio.run(registry.get(name).fetch(kit_of(name).attachment, calls.client, limit_bytes=10**6))
    return calls


@every_fetcher
def test_a_file_beyond_the_limit_is_not_had(name):
    kit = kit_of(name)
    for size in (len(kit.content), None):
        attachment = {**kit.attachment, "size": size}
        with pytest.raises(NotFetched, match="larger than"):
            asyncio.run(registry.get(name).fetch(attachment, Calls(name).client, limit_bytes=len(kit.content) - 1))


@every_fetcher
def test_more_bytes_than_the_platform_promised_are_not_taken(name):
    kit, calls = kit_of(name), Calls(name)

    def longer(request):
        answer = kit.accepts(request)
        return httpx.Response(200, content=answer.content * 3) if answer.content == kit.content else answer

    calls.client = FakeClient(longer)
    with pytest.raises(NotFetched, match="more bytes came"):
        asyncio.run(registry.get(name).fetch(kit.attachment, calls.client, limit_bytes=10**6))


@every_fetcher
def test_no_redirect_of_a_file_is_followed(name):
    kit, calls = kit_of(name), Calls(name)
    asked = []

    def elsewhere(request):
        asked.append(request)
        answer = kit.accepts(request)
        is_file = answer.content == kit.content
        return httpx.Response(302, headers={"Location": "https://evil.example/"}) if is_file else answer

    calls.client = FakeClient(elsewhere)
    with pytest.raises(NotFetched):
        asyncio.run(registry.get(name).fetch(kit.attachment, calls.client, limit_bytes=10**6))
    assert len(asked) == len(_fetched(name).requests)
