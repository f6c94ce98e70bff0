"""The rounds of ``emulator prove``: people write while something is broken on purpose; then the ledger must balance.

Each round ends when every message has an end, and all promises are looked at before the next one begins. A seed repeats
the plan: the order of the rounds, their victims and pauses, what fails for which message. The timing is the machine's.
"""

import random
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.base.errors import EmulatorError, NotReady
from emulator.proving import promises, replica
from emulator.proving.child import ROOT, until
from emulator.proving.host import WRITER, Post
from emulator.proving.ledger import Balance, balance
from emulator.proving.platform import (
    BROKEN,
    BUSY,
    LOST,
    OK,
    REFUSED,
    SLOW,
    TAKEN_BROKEN,
    TAKEN_LOST,
    Plan,
    Platform,
    lines,
)
from shared.core.time.durations import time_span

CHATS = [str(chat) for chat in range(100, 124)]
STRANGERS = ["190", "191"]  # their chats are strict: what they write is dropped, with that reason
AGENTS = {"alone": 1, "pair": 2, "many": 8}
VICTIMS = (
    *("ingest", WRITER, "dispatch", "dispatch", "deliver", "deliver"),
    *("sweep", "recurrence", "ticker", "litestream", "s3"),
)
_ROUND_S = 6.0  # of breaking
_END_S = 60.0  # until every message has an end
_PER_CHAT = 10  # messages of a round
_FLOOD_PER_CHAT = 30
_AT_ONCE, _FLOOD_AT_ONCE = 6, 24
_ROOM_MB = 100  # on the disk of the folder, for a round: a third of it was seen
_ROOM_OF_FULL_BYTES = (0, 2**16, 2**20)  # how large files may be on a full disk: a write-ahead log may have room
_EVERYTHING_DIES = 0.08  # of the kills
# One message in so many meets this, at its first send or in its turns; the others meet nothing.
_SENDS = {SLOW: 90, BROKEN: 90, TAKEN_BROKEN: 60, LOST: 90, TAKEN_LOST: 60, REFUSED: 300}
_TURNS = {"fail ok": 60, "kill ok": 90, "limit:1000 ok": 120, "exit:3 ok": 120, "dead": 150}

# Its input ends with this process, however that ends; then it ends what is left of the run.
_GUARD = """
import sys
from pathlib import Path
from emulator.proving.child import end_orphans
sys.stdin.read()
end_orphans(Path(sys.argv[1]))
"""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what was done, what people wrote meanwhile, and what is wrong after it."""

    number: int
    kind: str
    did: str
    seconds: float
    accepted: int
    problems: tuple[str, ...]


class Proof:
    """A run in *folder*: one host of Postroom with its bucket, its agents and its people.

    Args:
        say: is told a line about each round.
        room_mb: a round begins only with so much room on the disk, because a full one breaks what it should not.
    """

    def __init__(
        self, folder: Path, seed: int, say: Callable[[str], None] = lambda line: None, *, room_mb: int = _ROOM_MB
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.did: Counter[str] = Counter()
        self.rounds: list[Round] = []
        self.problems: list[str] = []
        self._say = say
        self._room_mb = room_mb
        self._dice = random.Random(seed)  # noqa: S311 - a plan that can be repeated
        self._mood: Plan | None = None
        self.platform = Platform(self._plan)
        self.post = Post(folder / "host", self.platform, replica="s3", durability="replicated")
        self._kinds: dict[str, Callable[[random.Random], str]] = {
            "kills": self._kill,
            "lost disk": self._lose_disk,
            "full disk": self._fill_disk,
            "platform away": self._lose_platform,
            "bucket away": self._lose_bucket,
            "flood": self._flood,
        }
        self._bag: list[str] = []
        self._wrote = 0
        self._guard = subprocess.Popen(
            [sys.executable, "-c", _GUARD, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
        )

    def start(self) -> None:
        """Start everything, as production does.

        Raises:
            NotReady: the disk has no room.
        """
        self._check_room()
        places = {chat: self._dice.choices(list(AGENTS), [1, 2, 6])[0] for chat in CHATS}
        self.post.prepare(AGENTS, places, dict.fromkeys(STRANGERS, "many"))
        self.post.start()

    def close(self) -> None:
        """End every process of the run."""
        self.post.close()
        self.platform.close()
        self._guard.communicate()

    def run(self, rounds: int | None, seconds: float | None) -> None:
        """Do so many rounds, or as many as begin within the time; stop at the first that breaks a promise.

        Raises:
            NotReady: the disk has no room for another round.
        """
        over = None if seconds is None else time.monotonic() + seconds
        while not self.problems and (rounds is None or len(self.rounds) < rounds):
            if over is not None and time.monotonic() >= over:
                break
            self._round()

    def finish(self) -> None:
        """Stop the writers, and compare what the replica restores to with the rows."""
        if not self.problems:
            with self._noting(self.problems):
                self.problems += replica.differences(self.post, self.folder)

    def balance(self) -> Balance:
        """The ledger now."""
        return balance(self.post.witnesses())

    # -- a round

    def _round(self) -> None:
        self._check_room()
        self._bag = self._bag or self._dice.sample(list(self._kinds), len(self._kinds))
        kind = self._bag.pop()
        dice = random.Random(self._dice.random())  # noqa: S311 - of this round alone: its length changes no later one
        begun, before = time.monotonic(), self._accepted()
        did, problems = "", list[str]()
        with self._noting(problems):
            did = self._kinds[kind](dice)
            self.post.settle(_END_S)
        with self._noting(problems):
            problems += promises.problems_of(self.post.witnesses())
        done = Round(
            len(self.rounds) + 1,
            kind,
            did,
            round(time.monotonic() - begun, 1),
            self._accepted() - before,
            tuple(problems),
        )
        self.rounds.append(done)
        self.problems += problems
        verdict = "a promise is broken" if problems else "nothing lost"
        self._say(f"round {done.number}, {kind}: {did}; {done.accepted} messages accepted, {verdict}")

    @contextmanager
    def _noting(self, problems: list[str]) -> Iterator[None]:
        """An error in the block is one of the *problems*; the log of one that is not ours says where it was."""
        try:
            yield
        except EmulatorError as error:
            problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - the boundary of a round: the receipt has the reason
            with (self.post.folder / "prove.log").open("a") as log:
                traceback.print_exc(file=log)
            problems.append(f"the run could not go on: {type(error).__name__}: {error}")

    def _check_room(self) -> None:
        free_mb = shutil.disk_usage(self.folder).free // 2**20
        if free_mb < self._room_mb:
            raise NotReady(
                f"{free_mb} MB are free on the disk of {self.folder}, and a round needs {self._room_mb}: set TMPDIR to "
                f"a folder with more room. {len(self.rounds)} rounds broke no promise"
            )

    @contextmanager
    def _people(self, dice: random.Random, *, per_chat: int = _PER_CHAT, is_flood: bool = False) -> Iterator[None]:
        """People write during the block, and after it until all of it is accepted."""
        texts = lines([*CHATS, *STRANGERS], per_chat, _turn, dice, first=self._wrote)
        self._wrote += per_chat
        at_once = _FLOOD_AT_ONCE if is_flood else _AT_ONCE
        pace_s = 0.0 if is_flood else _ROUND_S / per_chat / len(texts) * at_once
        with self.platform.people(self.post.port("ingest"), texts, pace_s=pace_s, at_once=at_once) as crowd:
            yield
            until("every message to be accepted", lambda: crowd.is_done, _END_S)

    def _kill(self, dice: random.Random) -> str:
        killed: Counter[str] = Counter()
        with self._people(dice):
            over = time.monotonic() + _ROUND_S
            while time.monotonic() < over:
                time.sleep(min(2.0, dice.expovariate(1.6)))
                if dice.random() < _EVERYTHING_DIES:
                    self.post.kill_everything()
                    killed["everything at once"] += 1
                else:
                    victim = dice.choice(VICTIMS)
                    self.post.kill(victim)
                    killed[victim] += 1
        self.did["kills"] += killed.total()
        return "kills: " + ", ".join(f"{name} {count}" for name, count in killed.most_common())

    def _lose_disk(self, dice: random.Random) -> str:
        with self._people(dice):
            time.sleep(dice.uniform(1, 4))
            begun = time.monotonic()
            self.post.lose_disk()
            back_s = time.monotonic() - begun
        self.did["disks lost"] += 1
        return f"the disk of the database was lost, and restored from the bucket in {back_s:.1f} s"

    def _fill_disk(self, dice: random.Random) -> str:
        victim = dice.choice(["ingest", WRITER, "dispatch", "deliver"])
        with self._people(dice):
            time.sleep(dice.uniform(0.2, 2))
            with self.post.full_disk(dice.choice(_ROOM_OF_FULL_BYTES)):
                time.sleep(_ROUND_S / 2)
                self.post.kill(victim)
                time.sleep(_ROUND_S / 2)
        self.did["full disks"] += 1
        self.did["kills"] += 1
        return f"the disk was full for {time_span(int(_ROUND_S * 1000))}; a kill of {victim} meanwhile"

    def _lose_platform(self, dice: random.Random) -> str:
        mood = dice.choice(["answers 502", "gives no answer", "takes and gives no answer", "answers 429"])
        ways = {
            "answers 502": (BROKEN, TAKEN_BROKEN, BROKEN),
            "gives no answer": (LOST,),
            "takes and gives no answer": (LOST, LOST, LOST, TAKEN_LOST),
            "answers 429": (BUSY,),
        }[mood]
        with self._people(dice):
            time.sleep(dice.uniform(0.2, 2))
            self._mood = lambda text, attempt: (ways[(len(text) + attempt) % len(ways)], 0.01)
            try:
                time.sleep(_ROUND_S)
            finally:
                self._mood = None
        self.did["outages of the platform"] += 1
        return f"the platform {mood} for {time_span(int(_ROUND_S * 1000))}"

    def _lose_bucket(self, dice: random.Random) -> str:
        kind = dice.choice(["status", "drop", "cut", "delay"])
        killed = 0
        with self._people(dice):
            time.sleep(dice.uniform(0.2, 2))
            with self.post.bucket_fault(kind):
                over = time.monotonic() + _ROUND_S
                while time.monotonic() < over:
                    time.sleep(dice.uniform(0.5, 2))
                    if dice.random() < 0.3:
                        self.post.kill("litestream")
                        killed += 1
        self.did["outages of the bucket"] += 1
        self.did["kills"] += killed
        what = {"status": "answers 503", "drop": "gives no answer", "cut": "cuts its answers", "delay": "is late"}[kind]
        return f"the bucket {what} for {time_span(int(_ROUND_S * 1000))}; kills of Litestream: {killed}"

    def _flood(self, dice: random.Random) -> str:
        self._mood = lambda text, attempt: (BUSY if attempt == 1 and _draw(self.seed, text) < 0.05 else OK, 0.0)
        begun = time.monotonic()
        try:
            with self._people(dice, per_chat=_FLOOD_PER_CHAT, is_flood=True):
                time.sleep(0.2)
                self.post.kill(dice.choice(["ingest", WRITER, "dispatch", "deliver"]))
            seconds = time.monotonic() - begun
            self.post.settle(_END_S)
        finally:
            self._mood = None
        self.did["kills"] += 1
        self.did["floods"] += 1
        count = _FLOOD_PER_CHAT * (len(CHATS) + len(STRANGERS))
        return f"{count} messages as fast as they were accepted, in {seconds:.1f} s, and a kill"

    def _accepted(self) -> int:
        return sum(each.accepted for each in list(self.platform.written.values()))

    def _plan(self, text: str, attempt: int) -> tuple[str, float]:
        if self._mood is not None:
            return self._mood(text, attempt)
        return (_pick(_SENDS, _draw(self.seed, text), OK), 0.05) if attempt == 1 else (OK, 0.0)


def _turn(dice: random.Random) -> str:
    """What the turns of a message do."""
    return _pick(_TURNS, dice.random(), f"ok:{dice.expovariate(dice.choice([4, 60, 60, 60, 60, 60])):.3f}")


def _pick(rare: dict[str, int], drawn: float, usual: str) -> str:
    """One of *rare*, each once in so many, by a number from 0 to 1; else the usual."""
    for name, times in rare.items():
        drawn -= 1 / times
        if drawn < 0:
            return name
    return usual


def _draw(seed: int, text: str) -> float:
    """A number from 0 to 1 that belongs to the text, whichever thread asks first."""
    return random.Random(f"{seed} {text}").random()  # noqa: S311 - a plan that can be repeated
