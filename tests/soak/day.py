"""The day: each hour has its traffic in real time, and then the clock goes through all that is due until its end."""

import json
import operator
import os
import statistics
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from emulator.cli import client
from emulator.testing import RunningEmulator
from tests.benchmarks.harness.measure import cpu_s, percentile, shared_mb
from tests.emulator.harness import copy_project
from tests.soak import samples, trend
from tests.soak.traffic import EventReader, Traffic
from tests.soak.trend import Figure, Trend

RETENTION_HOURS = 5
_HOUR_MS = 3_600_000
_TOKEN = "of-the-soak"
_TRAFFIC_SHARE = 0.6  # of the real time of an hour; the rest is for the clock's way to its end
_LIMIT_S = 300.0
_SAMPLE_EVERY_S = 1.0
SETTINGS = {
    "POSTROOM_RETENTION_MS": str(RETENTION_HOURS * _HOUR_MS),
    "POSTROOM_HISTORY_RETENTION_MS": str(RETENTION_HOURS * _HOUR_MS),
    "POSTROOM_FILE_RETENTION_MS": str(_HOUR_MS),
    "POSTROOM_RETRY_BASE_MS": "500",
    "POSTROOM_PACE_SENDS": "false",  # two people write as fast as many
    "POSTROOM_SENDER_LIMIT": "0",
    "POSTROOM_CHAT_LIMIT": "0",
}
FIGURES = (
    Figure("functions_mb", "Memory of functions and Litestream (PSS)", "MB", 8),
    Figure("memory_mb", "Memory of all of it, fakes and S3 too (PSS)", "MB", 12),
    Figure("descriptors", "Open descriptors of all processes", "", 12),
    Figure("database_mb", "Database file", "MB", 1, is_judged=False),
    Figure("finished_mb", "Database, but for agents' history and the keys of events", "MB", 1),
    Figure("wal_mb", "Write-ahead log, its largest", "MB", 2),
    Figure("bucket_mb", "Bucket", "MB", 4, is_judged=False),
    Figure("cpu_ms", "Processor time of the functions, a message", "ms", 10),
    Figure("others_ms", "Processor time of all else, fakes and S3 too, a message", "ms", 10, is_judged=False),
    Figure("quiet_ms", "Median answer, by the slowdown", "ms", 10),
    Figure("p50_ms", "Message to answer, median", "ms", 0, is_judged=False),
    Figure("turn_ms", "Message to the end of its turn, median", "ms", 0, is_judged=False),
    Figure("send_ms", "End of a turn to the platform's yes, median", "ms", 0, is_judged=False),
    Figure("p95_ms", "Message to answer, 95th percentile", "ms", 0, is_judged=False),
    Figure("slowdown", "Slowdown: time on the wall for each of the processor", "", 0, is_judged=False),
)
_FINISHED = """
    SELECT sum(pgsize) AS bytes FROM dbstat
     WHERE aggregate = 1
       AND name NOT GLOB 'agent_messages*' AND name NOT GLOB 'event_keys*'  -- kept for ever, and for three days
"""
_DONE = """
    SELECT count(*) AS done FROM messages m
     WHERE m.created_at >= :since AND m.status = 'completed' AND instr(m.message, :hour)
       AND EXISTS (SELECT 1 FROM responses r WHERE r.message_id = m.message_id AND r.status IN ('acked', 'pending'))
"""
_OTHERS = """
    SELECT status, failure, message FROM messages
     WHERE created_at >= :since AND status <> 'completed' AND instr(message, :hour) LIMIT 5
"""
_TIMES = """
    SELECT r.created_at - m.created_at AS turn, r.acked_at - r.created_at AS send
      FROM messages m JOIN responses r ON r.message_id = m.message_id
     WHERE m.created_at >= :since AND r.status = 'acked' AND instr(m.message, :hour) AND m.channel = 'telegram'
"""


@contextmanager
def running(folder: Path) -> Iterator[RunningEmulator]:
    """An emulator of its own, whose platforms limit nothing."""
    os.environ["POSTROOM_API_TOKEN"] = _TOKEN
    project = copy_project(folder / "project")
    (project / ".env").write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    emulator = RunningEmulator.launch(project, "--no-watch", "--quiet", state=folder / "state")
    try:
        emulator.wait_ready()
        client.ask_platforms(emulator.state.path, "POST", "/control/limits", {"on": False})
        yield emulator
    finally:
        emulator.stop()


class Soak:
    """So many hours of *seconds* real seconds each."""

    def __init__(self, emulator: RunningEmulator, seed: int, seconds: float, rate: float) -> None:
        self._emulator, self._seconds, self._rate = emulator, seconds, rate
        self.traffic = Traffic(emulator, seed)
        self.hours: list[dict[str, float]] = []
        self.problems: list[str] = []
        self.lost = 0
        self.said = 0
        self._began_ms = emulator.clock.now_ms()

    def plan(self) -> None:
        """Schedules of an hour and of a quarter of one."""
        agent = next(iter(self._emulator.api.get("agents")))
        (chat,) = self._emulator.rows("SELECT min(id) AS id FROM chats")
        for name, cron in (("hourly", "0 * * * *"), ("quarterly", "7,22,37,52 * * * *")):
            given = ("--cron", cron, "--label", name, "--chat", str(chat["id"]))
            self._emulator.command("schedules", "add", agent, f"the {name} news", *given)

    def run(self, hours: int, say: Callable[[str], None]) -> None:
        reader = EventReader(self._emulator, _TOKEN)
        try:
            for hour in range(hours):
                self.hours.append(self._hour(hour))
                if hour == 0:
                    self.plan()
                say(f"hour {hour + 1}: " + ", ".join(f"{name} {value:.1f}" for name, value in self.hours[-1].items()))
        finally:
            reader.stop()
        if not reader.seen:
            self.problems.append("the stream of events said nothing")

    def _hour(self, hour: int) -> dict[str, float]:
        emulator, since = self._emulator, self._emulator.clock.now_ms()
        cpu, all_cpu = self._cpu_s()
        with Peaks(emulator) as peaks:
            self.traffic.run(hour, round(self._seconds * _TRAFFIC_SHARE * self._rate), self._rate)
            emulator.wait_idle(limit_s=_LIMIT_S)
        said, slowdown = len(self.traffic.said), peaks.slowdown
        each_ms = 1000 / max(said, 1)
        cpu_ms, all_ms = ((now - then) * each_ms for now, then in zip(self._cpu_s(), (cpu, all_cpu), strict=True))
        with peaks:
            end = timedelta(milliseconds=self._began_ms + (hour + 1) * _HOUR_MS - emulator.clock.now_ms())
            emulator.clock.jump(max(end, timedelta()))
            emulator.wait_idle(limit_s=_LIMIT_S)
        turns, sends = self._check(hour, since, said)
        took = list(map(operator.add, turns, sends))
        state = emulator.state
        return {
            "functions_mb": samples.over(self._of_product(), shared_mb),
            "memory_mb": samples.memory_mb(emulator),
            "descriptors": samples.descriptors(emulator),
            "database_mb": samples.size_mb(state.database),
            "finished_mb": emulator.rows(_FINISHED)[0]["bytes"] / samples.MB,
            "wal_mb": peaks.wal_mb,
            "bucket_mb": samples.size_mb(state.s3),
            "cpu_ms": cpu_ms,
            "others_ms": all_ms - cpu_ms,
            "quiet_ms": statistics.median(took or [0.0]) / slowdown,
            "p50_ms": statistics.median(took or [0.0]),
            "turn_ms": statistics.median(turns or [0.0]),
            "send_ms": statistics.median(sends or [0.0]),
            "p95_ms": percentile(took or [0.0], 0.95),
            "slowdown": slowdown,
            "said": said,
        }

    def _cpu_s(self) -> tuple[float, float]:
        """Of the functions and Litestream, and of all processes, so far."""
        return samples.over(self._of_product(), cpu_s), samples.over(samples.pids(self._emulator), cpu_s)

    def _check(self, hour: int, since: int, said: int) -> tuple[list[float], list[float]]:
        """The ledger of the hour: all that was said has its answer; how long turns and sends took, in ms."""
        given = {"since": since, "hour": f"h{hour:02} "}
        ((done),) = self._emulator.rows(_DONE, **given)
        self.said += said
        self.lost += said - done["done"]
        if done["done"] != said:
            self.problems.append(f"hour {hour + 1}: {said} were said, {done['done']} answered: {self._others(given)}")
        times = self._emulator.rows(_TIMES, **given)
        return [float(each["turn"]) for each in times], [float(each["send"]) for each in times]

    def _others(self, given: dict[str, Any]) -> str:
        return json.dumps(self._emulator.rows(_OTHERS, **given))

    def _of_product(self) -> list[int]:
        status = client.get_json(self._emulator.url, "/_emulator/status", {"Authorization": f"Bearer {_TOKEN}"}) or {}
        found = [each["pid"] for each in status.get("functions", [])] + [status.get("replica", {}).get("pid")]
        return [pid for pid in found if pid]

    def series(self) -> dict[str, list[float]]:
        """Each figure over the hours."""
        found: dict[str, list[float]] = defaultdict(list)
        for hour in self.hours:
            for name, value in hour.items():
                found[name].append(value)
        return found

    def trends(self) -> dict[str, Trend]:
        series, skip = self.series(), self.skip
        return {figure.key: trend.of(series[figure.key], figure.floor, skip=skip) for figure in FIGURES}

    @property
    def skip(self) -> int:
        return trend.warm_up(len(self.hours), RETENTION_HOURS)


class Peaks:
    """The most of what is large for a moment only, during its blocks; and how much other work slows this machine."""

    def __init__(self, emulator: RunningEmulator) -> None:
        self._state = emulator.state
        self._slowdowns: list[float] = []
        self.wal_mb = 0.0

    @property
    def slowdown(self) -> float:
        """Seconds on the wall for each second of the processor, of a small piece of work: 1 on a quiet machine."""
        return statistics.median(self._slowdowns)

    def __enter__(self) -> "Peaks":
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self.wal_mb = max(self.wal_mb, samples.wal_mb(self._state))
            self._slowdowns.append(samples.slowdown())
            if self._ended.wait(_SAMPLE_EVERY_S):
                return


def seconds_of_an_hour(minutes: float, hours: int) -> float:
    """Real seconds for each, of so many minutes for all."""
    return minutes * 60 / hours
