"""What Discord's answers say about its limits."""

import pytest

from shared.channels.discord.limits import read, scopes_of
from shared.core.call_scopes import Scope

BASE = "https://discord.com/api/v10"
SEND = scopes_of("discord", "POST", f"{BASE}/channels/42/messages")
APPLICATION = Scope("application")


@pytest.mark.parametrize(
    ("url", "name", "place"),
    [
        (
            f"{BASE}/channels/42/messages/7/reactions/%F0%9F%91%80/@me",
            "/channels/{}/messages/{}/reactions/{}/@me",
            "42",
        ),
        (f"{BASE}/users/@me/channels", "/users/@me/channels", None),
        ("http://127.0.0.1:9/api/v10/guilds/5/members", "/guilds/{}/members", "5"),
        (f"{BASE}/applications/11/commands", "/applications/{}/commands", None),
    ],
)
def test_a_method_leaves_the_ids_out(url, name, place):
    found = scopes_of("discord", "PUT", url)
    assert (found.method, found.place) == (f"PUT {name}", place)
    assert APPLICATION in found.scopes


def test_a_call_with_an_interactions_token_is_outside_the_applications_limit_and_shows_no_token():
    url = f"{BASE}/webhooks/11/aW50ZXJhY3Rpb246MTE/messages/@original"
    found = scopes_of("discord", "PATCH", url, is_token=True)
    assert found.method == "PATCH /webhooks/{}/{}/messages/@original"
    assert APPLICATION not in found.scopes
    assert "aW50" not in repr(found)
    other = scopes_of("discord", "PATCH", url.replace("aW50", "bX51"), is_token=True)
    assert other.place != found.place


@pytest.mark.parametrize(
    ("headers", "payload", "scope", "wait_ms", "counts"),
    [
        ({"x-ratelimit-bucket": "b1"}, {"retry_after": 0.2501}, Scope("bucket", "b1:42"), 251, True),
        ({"x-ratelimit-scope": "user"}, {"retry_after": 2},
         Scope("method", "POST /channels/{}/messages 42"), 2000, True),
        ({"x-ratelimit-bucket": "b1", "x-ratelimit-scope": "shared"}, {"retry_after": 3.0},
         Scope("bucket", "b1:42"), 3000, False),
        ({"x-ratelimit-global": "true"}, {"retry_after": 1.5, "global": True}, APPLICATION, 1500, True),
        ({"x-ratelimit-scope": "global"}, {"retry_after": 1.5}, APPLICATION, 1500, True),
        ({"content-type": "text/html"}, {}, Scope("address", "discord"), 300_000, True),
        ({"retry-after": "65"}, {}, Scope("address", "discord"), 65_000, True),
    ],
)  # fmt: skip
def test_a_429_holds_exactly_its_scope_for_exactly_its_time(headers, payload, scope, wait_ms, counts):
    found = read(SEND, 429, headers, payload)
    (hold,) = found.holds
    assert (hold.scope, hold.wait_ms, found.counts_as_invalid) == (scope, wait_ms, counts)


def test_a_bucket_that_is_used_up_waits_before_discord_refuses():
    headers = {"x-ratelimit-bucket": "b1", "x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.25"}
    found = read(SEND, 200, headers, {"id": "1"})
    assert [(hold.scope, hold.wait_ms) for hold in found.holds] == [(Scope("bucket", "b1:42"), 1250)]
    assert read(SEND, 200, headers | {"x-ratelimit-remaining": "1"}, {"id": "1"}).holds == ()


def test_refusals_count_against_the_address():
    counted = {
        status: read(SEND, status, {}, {"code": 1}).counts_as_invalid for status in (200, 400, 401, 403, 404, 500)
    }
    assert counted == {200: False, 400: False, 401: True, 403: True, 404: False, 500: False}


@pytest.mark.parametrize(
    ("seconds", "header", "wait_ms"),
    [(-5, None, 5_000), (31_536_000, "999999", 86_400_000), (None, "1e9", 5_000), (None, "nan", 5_000)],
)
def test_an_absurd_wait_is_a_day_at_most(seconds, header, wait_ms):
    said = {"retry-after": header} if header is not None else {}
    (hold,) = read(SEND, 429, said, {"retry_after": seconds}).holds
    assert hold.wait_ms == wait_ms
