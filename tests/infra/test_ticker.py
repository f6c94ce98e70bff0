import asyncio
import signal

import pytest

from infra.ticker import ANSWER_TIMEOUT_S, Tick, Ticker, TickFailed, parse_tick
from tests.infra.conftest import SECRET
from tests.infra.processes import kept_port

START = 1_000_000


class Clock:
    """Moves only when a task sleeps on it; ends the run at *until*."""

    def __init__(self, until=None):
        self.now = START
        self.until = until

    def now_ms(self):
        return self.now

    async def sleep_ms(self, ms):
        for _ in range(5):
            await asyncio.sleep(0)  # let the POSTs run
        self.now += ms
        if self.until is not None and self.now > self.until:
            raise asyncio.CancelledError


class Posts:
    """The functions: they remember when they were called, and give the answers of the test."""

    def __init__(self, clock):
        self.clock = clock
        self.seen = []
        self.answers = {}
        self.holding = {}

    async def __call__(self, tick):
        self.seen.append((tick.function, self.clock.now - START))
        if tick.function in self.holding:
            await self.holding[tick.function].wait()
        answer = self.answers.get(tick.function, 202)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def of(self, function):
        return [at for name, at in self.seen if name == function]


@pytest.fixture
def reports():
    return []


def make(clock, posts, reports, *ticks):
    return Ticker(
        [Tick(name, every_ms, f"http://127.0.0.1/{name}") for name, every_ms in ticks],
        posts,
        now_ms=clock.now_ms,
        sleep_ms=clock.sleep_ms,
        report=lambda event, tick, reason: reports.append((event, tick.function, reason)),
    )


def run(ticker):
    async def until_cancelled():
        with pytest.raises(asyncio.CancelledError):
            await ticker.run()

    asyncio.run(until_cancelled())


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_each_function_is_ticked_at_once_and_then_on_its_own_grid(reports):
    clock = Clock(until=START + 10_000)
    posts = Posts(clock)
    ticker = make(clock, posts, reports, ("dispatch", 5000), ("deliver", 1000))

    run(ticker)

    assert posts.of("dispatch") == [0, 5000, 10_000]
    assert posts.of("deliver") == list(range(0, 10_001, 1000))
    assert reports == []


def test_the_grid_does_not_drift_and_missed_points_are_not_repeated(reports):
    clock = Clock()
    posts = Posts(clock)

    async def steps():
        ticker = make(clock, posts, reports, ("deliver", 1000))
        following = []
        for now in (0, 1007, 4500, 5000):
            clock.now = START + now
            following.append(ticker.step(clock.now) - START)
            await settle()
        return following

    following = asyncio.run(steps())

    assert following == [1000, 2000, 5000, 6000]
    assert posts.of("deliver") == [0, 1007, 4500, 5000]


def test_a_tick_is_skipped_while_the_one_before_runs_and_logged_once(reports):
    clock = Clock()
    posts = Posts(clock)

    async def steps():
        ticker = make(clock, posts, reports, ("sweep", 1000), ("deliver", 1000))
        posts.holding["sweep"] = asyncio.Event()
        for now in (0, 1000, 2000, 3000):
            clock.now = START + now
            ticker.step(clock.now)
            await settle()
        posts.holding["sweep"].set()
        await settle()
        clock.now = START + 4000
        ticker.step(clock.now)
        await settle()

    asyncio.run(steps())

    assert posts.of("sweep") == [0, 4000]
    assert posts.of("deliver") == [0, 1000, 2000, 3000, 4000]
    assert reports == [("tick.skipped", "sweep", "the tick before is still running")]


def test_a_function_that_does_not_answer_is_reported_once_and_once_when_it_is_back(reports):
    clock = Clock()
    posts = Posts(clock)

    async def steps():
        ticker = make(clock, posts, reports, ("deliver", 1000))
        refused, reset = TickFailed("ConnectError"), ConnectionResetError("by peer")
        for now, answer in enumerate((202, refused, refused, reset, 401, 401, 202, 202)):
            posts.answers["deliver"] = answer
            ticker.step(START + now * 1000)
            await settle()

    asyncio.run(steps())

    assert reports == [
        ("tick.away", "deliver", "ConnectError"),
        ("tick.away", "deliver", "ConnectionResetError"),
        ("tick.away", "deliver", "status 401"),
        ("tick.back", "deliver", None),
    ]


def test_a_stop_cancels_the_posts_under_way(reports):
    clock = Clock(until=START + 2000)
    posts = Posts(clock)
    left = []

    async def post(tick):
        try:
            await asyncio.Event().wait()
        finally:
            left.append(tick.function)

    ticker = Ticker(
        [Tick("sweep", 1000, "http://127.0.0.1/x")],
        post,
        now_ms=clock.now_ms,
        sleep_ms=clock.sleep_ms,
        report=lambda *_: None,
    )

    run(ticker)

    assert left == ["sweep"]
    assert posts.seen == []


@pytest.mark.parametrize(
    ("text", "every_ms"), [("dispatch=5s@9002", 5000), ("dispatch=250ms@9002", 250), ("dispatch=1m@9002", 60_000)]
)
def test_a_tick_is_written_as_function_every_and_port(text, every_ms):
    assert parse_tick(text) == Tick("dispatch", every_ms, "http://127.0.0.1:9002/tick")
    assert parse_tick(text).port == 9002


@pytest.mark.parametrize(
    "text",
    [
        "dispatch",
        "dispatch=5s",
        "dispatch=5@9002",
        "dispatch=0s@9002",
        "=5s@9002",
        "dispatch=5s@0",
        "dispatch=5s@65536",
        "dispatch=5s@9002/x",
        "Dispatch=5s@9002",
    ],
)
def test_an_invalid_tick_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match=r"such as (dispatch=5s@9002|500ms or 10s)"):
        parse_tick(text)


# -- the program -------------------------------------------------------------------------------------------------------


def test_the_program_ticks_a_real_function_with_the_secret_and_survives_its_end(start, environment):
    kept, port = kept_port()
    ticker = start("-m", "infra.ticker", f"recurrence=100ms@{port}", environment=environment)
    ticker.wait_for("tick.away")

    function = start("-m", "infra.runner", "recurrence", "--port", port, environment=environment)
    function.wait_for("function.ready")
    ticker.wait_for("tick.back")
    function.stop(signal.SIGTERM)
    ticker.wait_for("tick.away", count=2)
    code, took_s = ticker.stop(signal.SIGTERM)

    assert code == 0
    assert took_s < ANSWER_TIMEOUT_S  # it waits for no answer
    assert ticker.err == []
    assert SECRET not in "".join(ticker.out)
    assert [(line["target"], line["reason"]) for line in ticker.events("tick.away")][:1] == [
        ("recurrence", "ConnectionRefusedError")
    ]
    kept.close()


def test_the_program_reports_all_invalid_ticks_at_once(start, environment):
    process = start("-m", "infra.ticker", "dispatch=5s", "deliver=1s@9003", "sweep=1x@9004", environment=environment)

    assert process.end() == 64
    assert process.err == [
        "ticker: 'dispatch=5s' is not a tick; write function=every@port, such as dispatch=5s@9002",
        "ticker: the interval of 'sweep=1x@9004': '1x' is not a duration; write a whole number and ms, s, m or h, "
        "such as 500ms or 10s",
    ]


def test_the_program_refuses_to_run_without_a_secret(start, environment):
    del environment["POSTROOM_TICK_SECRET"]
    process = start("-m", "infra.ticker", "deliver=1s@9003", environment=environment)

    assert process.end() == 78
    assert process.err == ["ticker: POSTROOM_TICK_SECRET is not set; give the functions and the ticker the same one"]
