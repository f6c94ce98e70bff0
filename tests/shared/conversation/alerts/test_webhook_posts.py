"""Alerts posted to the operator's webhook."""

import asyncio
import json

import httpx
import pytest

from shared.channels import standard_webhooks
from shared.conversation.alerts import standing
from shared.conversation.alerts.webhook_posts import WebhookPosts
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.alerts.alert_routes import WEBHOOK, AlertRoute
from shared.db.engine.connection import transaction
from shared.db.engine.group_commit import Writer
from shared.db.roster import chats
from shared.queue import notices
from shared.roster import alert_routes
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient
from tests.support import NOW, answer, column

MINUTE = 60_000
URL = "https://pager.example/hook?key=4711"
SECRET = "whsec_" + "c2VjcmV0" * 5


@pytest.fixture
def settings(db):
    return Settings(db=db, alert_url=URL, alert_secret=SECRET)


@pytest.fixture
def webhook(conn, settings):
    with transaction(conn):
        return chats.get(conn, alert_routes.webhook(conn, settings, now_ms=NOW))


def write(conn, chat, *texts):
    with transaction(conn):
        for text in texts:
            notices.write(conn, chat, text, now_ms=NOW)


def post(conn, settings, answers, now_ms=NOW, **limits):
    """The requests that one look made, and how many the webhook took."""
    requests, left = [], list(answers)

    def play(request):
        requests.append(request)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer()
        return httpx.Response(answer)

    async def go():
        writer = Writer(settings.db)
        posts = WebhookPosts(settings, writer, FakeClient(play), **limits)
        try:
            return await posts.post(conn, now_ms=now_ms)
        finally:
            await posts.close()
            writer.close()

    return requests, asyncio.run(go())


def test_an_alert_is_posted_once_signed_and_as_it_is_written(conn, settings, webhook):
    write(conn, webhook, "The disk is full. It's *so*.")
    ((request,), taken) = post(conn, settings, [204])
    assert (taken, str(request.url), request.method) == (1, URL, "POST")
    id_ = standard_webhooks.verify(SECRET, request.headers, request.content, now_ms=NOW)
    assert json.loads(request.content) == {"id": id_, "at": NOW, "text": "The disk is full. It's *so*."}
    assert column(conn, "SELECT status FROM responses") == ["acked"]
    assert post(conn, settings, []) == ([], 0)


@pytest.mark.parametrize("trouble", [500, 404, 301, RequestNotSent("ConnectError"), NoAnswer("ReadTimeout")])
def test_what_the_webhook_does_not_take_is_posted_again_in_order_with_the_same_id(conn, settings, webhook, trouble):
    write(conn, webhook, "first", "second", "third")
    requests, taken = post(conn, settings, [200, trouble])
    again, rest = post(conn, settings, [200, 200], NOW + MINUTE)
    assert (taken, rest) == (1, 2)
    assert [json.loads(each.content)["text"] for each in (*requests, *again)] == ["first", "second", "second", "third"]
    assert requests[1].headers["webhook-id"] == again[0].headers["webhook-id"]


def test_a_slow_webhook_holds_up_no_sweep(conn, settings, webhook):
    write(conn, webhook, *"abcd")
    seconds = iter([0.0, 3.0, 6.0])
    requests, taken = post(conn, settings, [200] * 4, clock_s=lambda: next(seconds))
    assert (len(requests), taken) == (2, 2), "the third would begin after 5 s"


def test_one_answer_is_awaited_for_so_long(conn, settings, webhook, capsys):
    write(conn, webhook, "first")
    requests, taken = post(conn, settings, [asyncio.Event().wait], limit_s=0.0)
    assert (len(requests), taken) == (1, 0)
    assert "did not answer (TimeoutError)" in capsys.readouterr().out


@pytest.mark.parametrize("channel", ["webhook", WEBHOOK])
def test_what_another_client_has_to_fetch_is_not_posted(conn, settings, webhook, channel):
    answer(conn, "private", chat="5", channel=channel)
    assert post(conn, settings, []) == ([], 0)
    assert column(conn, "SELECT status FROM responses") == ["pending"]


def test_no_log_shows_the_address(conn, settings, webhook, capsys):
    write(conn, webhook, "first")
    post(conn, settings, [RequestNotSent("ConnectError")])
    said = capsys.readouterr().out
    assert "POSTROOM_ALERT_URL can't be reached" in said
    assert "4711" not in said


def test_a_webhook_that_takes_nothing_is_a_trouble_for_other_routes(conn, settings, webhook):
    write(conn, webhook, "first")
    assert WEBHOOK not in standing.look(conn, settings, now_ms=NOW + 9 * MINUTE).silent
    found = standing.look(conn, settings, now_ms=NOW + 10 * MINUTE)
    assert [each.key for each in found.troubles] == ["stuck webhook"]
    assert WEBHOOK in found.silent


@pytest.mark.parametrize("lacks", ["alert_url", "alert_secret"])
def test_a_sweep_without_the_setting_says_so_and_other_routes_at_once(conn, settings, webhook, capsys, lacks):
    settings = settings.model_copy(update={lacks: None})
    assert standing.look(conn, settings, now_ms=NOW).troubles == [], "no route leads there"
    with transaction(conn):
        alert_routes.save(conn, "pager", webhook.id, {}, now_ms=NOW)
    assert post(conn, settings, []) == ([], 0)
    said = capsys.readouterr().out
    assert "alerts.not_posted" in said
    assert f"sweep has no POSTROOM_{lacks.upper()}" in said
    found = standing.look(conn, settings, now_ms=NOW)
    assert [(each.key, each.why) for each in found.troubles] == [
        ("stuck webhook", f"Process sweep has no POSTROOM_{lacks.upper()}; what it is to post waits.")
    ]
    assert WEBHOOK in found.silent


def test_what_another_client_does_not_fetch_is_no_trouble_of_the_webhook(conn, settings, webhook):
    answer(conn, "private", chat="5", channel=WEBHOOK)
    assert standing.look(conn, settings, now_ms=NOW + 60 * MINUTE).troubles == []


def test_a_route_leads_there_once_address_and_secret_are_set(conn, settings, webhook, db):
    with transaction(conn):
        route = alert_routes.save(conn, "pager", webhook.id, {}, now_ms=NOW)
    assert route == AlertRoute("pager", webhook.id, NOW)
    for lacking in (Settings(db=db), Settings(db=db, alert_url=URL), Settings(db=db, alert_secret=SECRET)):
        with pytest.raises(ConfigInvalid, match="POSTROOM_ALERT_URL and POSTROOM_ALERT_SECRET"):
            alert_routes.webhook(conn, lacking, now_ms=NOW)
        assert post(conn, lacking, []) == ([], 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POSTROOM_ALERT_URL", "http://pager.example/"),
        ("POSTROOM_ALERT_URL", "pager.example"),
        ("POSTROOM_ALERT_SECRET", "short"),
    ],
)
def test_wrong_settings_are_refused_without_their_value(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid, match=name) as refused:
        Settings.load()
    assert value not in str(refused.value)


def test_this_machine_needs_no_certificate(db):
    for url in ("http://127.0.0.1:9/hook", "http://localhost/", "http://[::1]:9"):
        assert Settings(db=db, alert_url=url).alert_url.get_secret_value() == url
