"""Whether a part that got no answer is in its channel."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from shared.channels.base import Outgoing, Part, Poll
from shared.channels.discord.api_calls import nonce
from shared.channels.discord.read_back import PAGE, PAGES, evidence, snowflake_before
from shared.core.errors import RateLimited
from tests.fake_client import FakeClient
from tests.shared.channels.discord.sending import BASE

APP = "1290000000000000001"
NOW = 1_795_268_000_000
MINUTES = 60_000
PART = Part("The **answer** is 42.")
OURS = {"id": "900", "author": {"id": APP}, "content": PART.text, "attachments": []}
TO = Outgoing(12, 0, "200", None, None, {}, NOW - 9 * MINUTES, is_first=True)

MESSAGES = {
    "ours": ([OURS], ("arrived", ("900",))),
    "ours, with other blanks": ([OURS | {"content": " The **answer**  is 42."}], ("arrived", ("900",))),
    "ours, by a webhook of our application": (
        [OURS | {"author": {"id": "7"}, "application_id": APP}], ("arrived", ("900",)),
    ),
    "by our nonce": ([OURS | {"content": "changed", "nonce": nonce(TO)}], ("arrived", ("900",))),
    "another part with the same text": ([OURS | {"nonce": "other"}], ("absent", ())),
    "somebody else's": ([OURS | {"author": {"id": "7"}}], ("absent", ())),
    "another text": ([OURS | {"content": "no"}], ("absent", ())),
    "the text with a file": ([OURS | {"attachments": [{"id": "1"}]}], ("absent", ())),
    "two, the oldest first": ([OURS | {"id": "1000"}, OURS], ("arrived", ("900", "1000"))),
    "nothing": ([], ("absent", ())),
    "hostile": ([{"author": 5, "content": None, "id": {}}], ("absent", ())),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), MESSAGES.values(), ids=list(MESSAGES))
def test_evidence(messages, expected):
    found = evidence(messages, PART, TO, APP)
    assert (found.verdict, found.message_ids) == expected


@pytest.mark.parametrize(("question", "verdict"), [("Lunch?", "arrived"), ("Dinner?", "absent"), (None, "absent")])
def test_a_poll_is_known_by_its_question(question, verdict):
    shown = OURS | {"content": "", "poll": {"question": {"text": question}}}
    to = replace(TO, poll=Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=False, hours=24))
    assert evidence([shown], Part("Lunch?\n- Pizza\n- Noodles"), to, APP).verdict == verdict


def find(discord, platform, *, age_ms, to=TO):
    client = FakeClient(platform)
    return asyncio.run(discord.find_sent(PART, to, client, tried_from=NOW - age_ms, now_ms=NOW)).verdict


class History:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.urls = []

    def __call__(self, request):
        self.urls.append(f"{request.method} {request.url}")
        return self.answers.pop(0)


def test_within_minutes_a_repetition_is_harmless_and_nobody_is_asked(discord):
    platform = History()
    assert find(discord, platform, age_ms=2 * MINUTES - 1) == "repeatable"
    assert platform.urls == []


def test_a_follow_up_has_no_nonce_so_the_channel_is_read_at_once(discord):
    context = {"sealed_token": discord.seal("aW50ZXJhY3Rpb24"), "bot_is_there": True}
    platform = History(httpx.Response(200, json=[]))
    assert find(discord, platform, age_ms=1000, to=replace(TO, context=context, is_first=False)) == "absent"
    assert len(platform.urls) == 1


@pytest.mark.parametrize(
    ("bot_is_there", "answers", "verdict"),
    [(False, [], "repeatable"), (True, [httpx.Response(403, json={"code": 50001})], "repeatable"),
     (True, [httpx.Response(200, json=[OURS])], "arrived")],
)  # fmt: skip
def test_the_first_answer_to_a_command_is_written_again_in_its_place_where_nobody_may_read(
    discord, bot_is_there, answers, verdict
):
    context = {"sealed_token": discord.seal("aW50ZXJhY3Rpb24"), "bot_is_there": bot_is_there}
    to = replace(TO, context=context, is_first=True)
    assert find(discord, History(*answers), age_ms=5 * MINUTES, to=to) == verdict
    later = replace(to, asked_at_ms=NOW - 15 * MINUTES)  # the token is of no use any more
    expected = verdict if verdict == "arrived" else "none"
    assert find(discord, History(*answers), age_ms=5 * MINUTES, to=later) == expected


def test_later_the_messages_of_the_channel_since_the_send_are_read(discord):
    platform = History(httpx.Response(200, json=[OURS]))
    assert find(discord, platform, age_ms=5 * MINUTES) == "arrived"
    after = snowflake_before(NOW - 5 * MINUTES)
    assert platform.urls == [f"GET {BASE}/channels/200/messages?after={after}&limit=100"]


def test_a_full_page_is_followed_by_the_next_and_too_many_are_no_evidence(discord):
    def page(first):
        return httpx.Response(200, json=[{"id": str(first + each)} for each in range(PAGE)])

    platform = History(page(1000), httpx.Response(200, json=[OURS]))
    assert find(discord, platform, age_ms=5 * MINUTES) == "arrived"
    assert f"after={1000 + PAGE - 1}&" in platform.urls[1]
    platform = History(*[page(1000 * number) for number in range(1, PAGES + 1)])
    assert find(discord, platform, age_ms=5 * MINUTES) == "none"


@pytest.mark.parametrize("status", [403, 404])
def test_where_the_bot_may_not_read_there_is_no_evidence(discord, status):
    platform = History(httpx.Response(status, json={"code": 50001, "message": "Missing Access"}))
    assert find(discord, platform, age_ms=5 * MINUTES) == "none"


def test_where_the_bot_is_no_member_or_one_person_alone_reads_nobody_is_asked(discord):
    platform = History()
    assert find(discord, platform, age_ms=5 * MINUTES, to=replace(TO, context={"bot_is_there": False})) == "none"
    assert find(discord, platform, age_ms=5 * MINUTES, to=replace(TO, click={"guild_id": "1"})) == "none"
    assert platform.urls == []


def test_a_wait_that_discord_asks_for_is_no_evidence_either_way(discord):
    with pytest.raises(RateLimited):
        find(discord, History(httpx.Response(429, json={"retry_after": 5})), age_ms=5 * MINUTES)
