"""Answers that wait for a platform's limits: none is refused, and everybody gets a turn. The limits are the fake's."""

import asyncio

import httpx
import pytest

from emulator.base.door import Door
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.store import FakeChat
from emulator.platforms.telegram.calls import TelegramError
from emulator.platforms.telegram.flood import FloodControl
from shared.channels import platform_api
from shared.channels.telegram import limits as telegram
from shared.conversation.routing import rate_limits
from shared.core.errors import RateLimited
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.db.queue.responses import WaitingResponse
from shared.queue import deliveries
from shared.queue.notices import AHEAD
from shared.queue.platforms.fair_heads import FairHeads, Rounds, choose
from shared.queue.platforms.pacing import PacedClient, RowPacing
from shared.queue.platforms.send_room import SendRoom
from tests.fake_client import FakeClient
from tests.support import NOW, answer, begin_epoch

SENDS = 16  # at once
STEP_MS = 50
GROUP = "-4001"


class Telegram:
    """Flood control as the fake platform has it, on the clock of the test."""

    def __init__(self, clock, tmp_path):
        self.flood = FloodControl(PlatformsConfig(tmp_path, {}, Door(None, "none"), clock=clock), self)
        self.sent, self.refused = [], 0

    def get(self, _):
        """The switch of the limits: they are on."""
        return "on"

    def answer(self, request):
        chat = request.url.path.rpartition("/")[2]
        kind = "group" if chat.startswith("-") else "private"
        try:
            self.flood.take(FakeChat("telegram", chat, kind, "", (), {}))
        except TelegramError as error:
            self.refused += 1
            return httpx.Response(429, json=error.envelope())
        return httpx.Response(200, json={"ok": True, "result": {"message_id": len(self.sent) + 1}})


class Delivery:
    """What ``deliver`` does, on a clock that the test moves."""

    def __init__(self, conn, tmp_path):
        self.conn, self.at_ms = conn, NOW
        self.platform = Telegram(self, tmp_path)
        self.start()

    def start(self):
        """A process begins, and knows the rows alone."""

        async def write(work):
            work(self.conn)

        self.room = SendRoom(self.now_ms)
        self.room.remember(self.conn)
        self.fair = FairHeads(self.conn, self.room)
        pacing = RowPacing(self.conn, write, self.now_ms, self.room)
        self.client = PacedClient(FakeClient(self.platform.answer), pacing)

    def now_ms(self):
        return self.at_ms

    def step(self):
        heads = self.fair.look("telegram", now_ms=self.at_ms, held=())
        for head in heads[: self.fair.room("telegram", SENDS)]:
            with transaction(self.conn):
                sending = deliveries.claim(self.conn, head, token="s", now_ms=self.at_ms, lease_ms=60_000)
            self.fair.begin(sending.response)
            self.send(sending.response)
            self.fair.end(sending.response)

    def send(self, response):
        scopes = telegram.scopes_of("telegram", "sendMessage", {"chat_id": response.platform_id})
        url = f"https://api.example/{response.platform_id}"
        try:
            said = asyncio.run(platform_api.call(self.client, "Telegram", "POST", url, {}, {}, scopes=scopes))
            assert said.status == 200
        except (RateLimited, AssertionError):
            with transaction(self.conn):
                responses.release(self.conn, response)
            return
        with transaction(self.conn):
            deliveries.acknowledge(self.conn, response, (str(response.id),), now_ms=self.at_ms)
        self.platform.sent.append((self.at_ms - NOW, response.message))

    def run(self, ms):
        for _ in range(ms // STEP_MS):
            self.step()
            self.at_ms += STEP_MS
        return self.platform.sent


def ask(conn, text, chat, sender="5", **fields):
    row_id = answer(conn, text, chat=chat, sender_id=sender, **fields)
    rows(conn, "UPDATE chats SET is_group = platform_id LIKE '-%'")
    return row_id


def test_200_answers_to_50_chats_meet_no_refusal(conn, tmp_path):
    for number in range(200):
        ask(conn, f"answer {number}", str(5_000 + number % 50))
    delivery = Delivery(conn, tmp_path)
    sent = delivery.run(8_000)
    assert (len(sent), delivery.platform.refused) == (200, 0)
    assert sum(at_ms < 1000 for at_ms, _ in sent) == 30


def test_where_no_send_may_begin_the_opening_of_a_chat_is_no_reason_to_look_again(conn, tmp_path):
    """It stays in the past until the next look, which needs room: deliver would look again at once, for ever."""
    for number in range(10):
        ask(conn, f"answer {number}", "77")
    delivery = Delivery(conn, tmp_path)
    delivery.run(1_000)
    opens_at = delivery.fair.opens_at("telegram", room=1)
    assert opens_at is not None
    delivery.at_ms = opens_at
    assert delivery.fair.opens_at("telegram", room=1) == opens_at
    assert delivery.fair.opens_at("telegram", room=0) is None


@pytest.mark.parametrize(("chat", "within_a_minute"), [("77", 60), (GROUP, 20)])
def test_one_chat_gets_a_short_burst_and_then_the_pace_of_the_platform(conn, tmp_path, chat, within_a_minute):
    for number in range(100):
        ask(conn, f"answer {number}", chat)
    delivery = Delivery(conn, tmp_path)
    sent = delivery.run(60_000)
    assert (len(sent), delivery.platform.refused) == (within_a_minute, 0)
    assert [text for _, text in sent] == [f"answer {number}" for number in range(within_a_minute)]
    assert [at_ms for at_ms, _ in sent][:6] == [0, 50, 100, 150, 200, 5000]


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_new_process_knows_what_was_sent_to_a_group(conn, tmp_path, is_restored):
    for number in range(40):
        ask(conn, f"answer {number}", GROUP)
    delivery = Delivery(conn, tmp_path)
    assert len(delivery.run(20_000)) == 20
    if is_restored:
        begin_epoch(conn, now_ms=delivery.at_ms)
    delivery.start()
    assert len(delivery.run(40_000)) == 20
    assert len(delivery.run(10_000)) == 30
    assert delivery.platform.refused == 0


def test_a_flood_in_other_chats_does_not_delay_an_answer(conn, tmp_path):
    for number in range(400):
        ask(conn, "flood", str(5_000 + number % 40))
    delivery = Delivery(conn, tmp_path)
    delivery.run(1_500)
    ask(conn, "to another person", "9")
    delivery.run(1_500)
    at_ms = next(at_ms for at_ms, text in delivery.platform.sent if text == "to another person")
    assert at_ms < 2_600


def test_a_flood_of_one_person_in_a_group_does_not_delay_the_answer_to_another(conn, tmp_path):
    for number in range(120):
        ask(conn, f"flood {number}", GROUP, "5")
    ask(conn, "to Bob", GROUP, "6")
    ask(conn, "to Bob again", GROUP, "6")
    texts = [text for _, text in Delivery(conn, tmp_path).run(10_000)]
    assert texts[:5] == ["flood 0", "flood 1", "to Bob", "flood 2", "to Bob again"]


@pytest.mark.parametrize("asked", ["565565565", "566666", "55555666667777788888", "6555567"])
def test_the_answers_in_a_group_keep_their_order(conn, tmp_path, asked):
    """The group's limit holds them back, and nobody's answers are so many that they delay the others for long."""
    texts = [f"answer {number} to {person}" for number, person in enumerate(asked)]
    for text, person in zip(texts, asked, strict=True):
        ask(conn, text, GROUP, person)
    assert [text for _, text in Delivery(conn, tmp_path).run(60_000)] == texts


def test_after_a_flood_the_answers_keep_their_order_again(conn, tmp_path):
    for number in range(8):
        ask(conn, f"flood {number}", GROUP, "5")
    ask(conn, "to Bob", GROUP, "6")
    delivery = Delivery(conn, tmp_path)
    assert [text for _, text in delivery.run(20_000)][:4] == ["flood 0", "flood 1", "to Bob", "flood 2"]
    delivery.platform.sent.clear()
    ask(conn, "to Ann", GROUP, "5")
    ask(conn, "to Bob again", GROUP, "6")
    assert [text for _, text in delivery.run(60_000)] == ["to Ann", "to Bob again"]


def test_while_one_person_floods_the_others_keep_their_order(conn, tmp_path):
    for number in range(120):
        ask(conn, f"flood {number}", GROUP, "5")
    for person in "678":
        ask(conn, f"to {person}", GROUP, person)
    texts = [text for _, text in Delivery(conn, tmp_path).run(10_000)]
    assert texts[:6] == ["flood 0", "flood 1", "to 6", "to 7", "to 8", "flood 2"]


def test_the_sentence_to_a_limited_sender_goes_out_before_the_answers_that_wait(conn, tmp_path):
    for number in range(120):
        ask(conn, f"answer {number}", "77")
    delivery = Delivery(conn, tmp_path)
    delivery.run(10_000)
    over = rate_limits.Exceeded("sender", is_told=True, again_at=NOW + 20_000)
    ask(conn, rate_limits.sentence(over, now_ms=NOW), "77", kind=AHEAD)
    delivery.run(5_000)
    assert any(text.startswith("That was more") for _, text in delivery.platform.sent)


def test_a_failing_answer_holds_its_chat_whoever_it_is_for(conn):
    for number, sender in enumerate("565"):
        ask(conn, f"answer {number}", GROUP, sender)
    rows(conn, "UPDATE responses SET failure = 'error', deliver_after = :now WHERE id = 1", {"now": NOW + 1})
    fair = FairHeads(conn, SendRoom(lambda: NOW))
    assert fair.look("telegram", now_ms=NOW, held=()) == []


def waits(id_, sender, *, kind="chat", is_due=True, has_begun=False):
    return WaitingResponse(id_, sender, kind, is_due, has_begun)


MANY = [waits(number, "5") for number in range(1, 7)]


@pytest.mark.parametrize(
    ("waiting", "rounds", "chosen"),
    [
        (MANY, Rounds(), 1),
        ([*MANY, waits(7, "6")], Rounds(), 1),
        ([*MANY, waits(7, "6")], Rounds(0, {"5": 1}), 7),
        ([*MANY, waits(7, "6")], Rounds(1, {"5": 2, "6": 2}), 1),
        ([*MANY, waits(7, "6"), waits(8, "7")], Rounds(40, {"5": 41, "6": 2}), 7),
        ([*MANY, waits(7, "6", is_due=False), waits(8, "6")], Rounds(0, {"5": 1}), 1),
        ([*MANY[1:], waits(7, "6")], Rounds(0, {"5": 1}), None),
        ([waits(1, "5", has_begun=True), waits(2, "6", kind=AHEAD)], Rounds(), None),
        ([waits(1, "5"), waits(2, "5", kind=AHEAD)], Rounds(), 2),
        ([], Rounds(), None),
    ],
)
def test_who_is_next(waiting, rounds, chosen):
    found = choose(waiting, rounds, is_group=True)
    assert (found.id if found else None) == chosen


def test_in_a_direct_chat_nothing_overtakes_the_answers_of_its_person():
    """A line of progress names no sender, and is read by the same person."""
    waiting = [*MANY, waits(7, None)]
    assert choose(waiting, Rounds(0, {"5": 1}), is_group=True).id == 7
    assert choose(waiting, Rounds(0, {"5": 1}), is_group=False) is None


def test_a_person_gets_one_response_in_each_round():
    rounds = Rounds()
    for person in "5665":
        rounds.take(person)
    assert [rounds.of(person) for person in "567"] == [2, 2, 1]
