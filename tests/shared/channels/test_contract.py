"""The contract of every channel, run over each registered adapter."""

import asyncio
import inspect

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels import registry, token_check
from shared.channels.base import Outgoing, Part, Traits, WebhookReply, WebhookRequest
from shared.core.errors import (
    ConfigInvalid,
    PostroomError,
    RetryableError,
    SignatureInvalid,
    TokenRefused,
    UnknownName,
)
from tests.examples import examples
from tests.fake_client import FakeClient
from tests.shared.channels.kits import kit_of

NOW = 1_795_168_000_000
every_channel = pytest.mark.parametrize("name", registry.PLATFORMS)
SIGNATURES = {header for name in registry.PLATFORMS for header in kit_of(name).sign(b"{}").headers}
HEADERS = st.dictionaries(
    st.sampled_from(sorted({*SIGNATURES, "host"})),
    st.text(max_size=140) | st.from_regex(r"[0-9a-f]{128}", fullmatch=True),
)


@every_channel
def test_an_adapter_is_loaded_once_and_knows_its_name(name):
    adapter = registry.get(name)
    assert adapter.name == name
    assert registry.get(name) is adapter
    assert isinstance(adapter.unreadable, WebhookReply)
    assert 200 <= adapter.unreadable.status < 300


@every_channel
@examples(100)
@given(headers=HEADERS, body=st.binary(max_size=200), method=st.sampled_from(["GET", "POST"]))
def test_an_unsigned_request_is_refused(name, headers, body, method):
    with pytest.raises(SignatureInvalid):
        registry.get(name).receive(WebhookRequest(method, {}, headers, body), now_ms=NOW)


@every_channel
@examples(50)
@given(text=st.text())
def test_any_text_renders_the_same_every_time(name, text):
    adapter = registry.get(name)
    parts = adapter.render(text)
    assert parts == adapter.render(text)
    assert all(part.text.strip() for part in parts)


@every_channel
@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_has_no_part(name, text):
    assert registry.get(name).render(text) == ()


@every_channel
@pytest.mark.parametrize(
    "status", [200, 201, 204, 301, 302, 400, 401, 403, 404, 408, 409, 413, 418, 429, 500, 502, 503, 504, 529]
)
def test_any_answer_to_a_send_gives_an_id_or_a_postroom_error(name, status):
    adapter = registry.get(name)
    to = Outgoing(1, 0, "5", None, None, {}, NOW, is_first=True)

    async def go(response):
        return await adapter.send(Part("x", "x"), to, FakeClient(lambda _: response), now_ms=NOW)

    for response in (httpx.Response(status), httpx.Response(status, json=[1]), httpx.Response(status, json={"id": 1})):
        try:
            sent = asyncio.run(go(response))
        except PostroomError as error:
            assert str(error)  # noqa: PT017
            assert isinstance(error, RetryableError) or 400 <= status < 500  # noqa: PT017
        else:
            assert sent.message_id is None or isinstance(sent.message_id, str)
            assert sent.also == ()
            assert 200 <= status < 300


@every_channel
def test_only_send_is_asynchronous(name):
    adapter = registry.get(name)
    assert inspect.iscoroutinefunction(adapter.send)
    assert not inspect.iscoroutinefunction(adapter.receive)
    assert not inspect.iscoroutinefunction(adapter.render)


def test_traits_of_a_channel_need_no_settings(monkeypatch):
    for name in registry.PLATFORMS:
        for variable in kit_of(name).environment:
            monkeypatch.delenv(variable)
        assert isinstance(registry.traits(name), Traits)
    assert registry.traits("telegram").direct_by_sender
    assert not registry.traits("discord").direct_by_sender
    assert registry.traits("api") == Traits(has_threads=False, direct_by_sender=False, has_buttons=False)


@every_channel
@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 503])
def test_open_direct_gives_an_id_or_a_postroom_error(name, status):
    adapter = registry.get(name)

    async def go():
        refusing = FakeClient(lambda _: httpx.Response(status, json={"code": 50007, "message": "no"}))
        return await adapter.open_direct("5", refusing)

    if registry.traits(name).direct_by_sender:
        assert asyncio.run(go()) == "5"
    else:
        with pytest.raises(PostroomError) as caught:
            asyncio.run(go())
        assert isinstance(caught.value, RetryableError) == (status in (429, 500, 503))


@pytest.mark.parametrize("name", ["", "telegrams", "../telegram", "shared.channels.telegram", "Telegram", "os"])
def test_a_name_from_a_url_selects_only_from_the_list(name):
    with pytest.raises(UnknownName, match=", ".join(sorted(registry.PLATFORMS))):
        registry.get(name)


@every_channel
def test_a_channel_without_settings_names_the_missing_ones(name, monkeypatch):
    for variable in kit_of(name).environment:
        monkeypatch.delenv(variable)
    registry.get.cache_clear()
    with pytest.raises(ConfigInvalid) as refused:
        registry.get(name)
    needed = [f"{name.upper()}_{each.name}" for each in registry.manifest(name).settings if each.is_needed]
    assert needed
    assert all(variable in str(refused.value) for variable in needed)


@every_channel
def test_an_accepted_token_is_accepted_without_an_effect(name):
    asked = []

    def platform(request):
        asked.append(request.url.path.rpartition("/")[2])
        return kit_of(name).accepts(request)

    asyncio.run(registry.get(name).check_token(FakeClient(platform)))
    assert asked == [kit_of(name).asks_token]


@pytest.mark.parametrize(("status", "answers"), [(400, True), (401, True), (429, True), (500, False)])
def test_telegram_answers_to_sends_where_it_refuses_one_in_its_own_words(status, answers):
    async def ask():
        platform = FakeClient(lambda _: httpx.Response(status, json={"ok": False, "description": "no"}))
        return await token_check.silence(registry.get("telegram"), platform)

    assert (asyncio.run(ask()) is None) == answers


@every_channel
@pytest.mark.parametrize("status", [401, 429, 500, 502, 503])
def test_a_token_that_the_platform_does_not_accept_is_no_accepted_token(name, status):
    with pytest.raises(TokenRefused if status == 401 else PostroomError):
        asyncio.run(registry.get(name).check_token(FakeClient(lambda _: httpx.Response(status))))
