"""kill -9 between the pictures of an album, and between the parts of an answer with files."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from emulator.proving.child import until
from emulator.proving.host import Post
from shared.conversation.routing.albums import QUIET_MS
from tests.e2e.crash import invariants
from tests.e2e.crash.albums import AlbumPlatform
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

CHATS = [str(chat) for chat in range(300, 308)]
VICTIMS = ("ingest", "ingest", "dispatch", "deliver", "deliver")
SECONDS = 15
SLACK_MS = 300  # between the clock that a picture's row has, and its commit


@pytest.fixture
def platform(dice: random.Random) -> Iterator[AlbumPlatform]:
    platform = AlbumPlatform(dice)
    yield platform
    platform.close()


def test_albums_and_files_survive_kills(
    make_post: Make, platform: AlbumPlatform, dice: random.Random, scale: float
) -> None:
    post = make_post()
    post.prepare({"many": 8}, dict.fromkeys(CHATS, "many"))
    post.start()
    seconds = SECONDS * scale
    moments = {"ingest": platform.half_sent, "deliver": platform.uploading}

    with platform.senders(post.port("ingest"), CHATS, int(5 * scale), seconds) as senders:
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            time.sleep(dice.expovariate(1.2))
            victim = dice.choice(VICTIMS)
            if victim in moments:
                moments[victim].wait(2)
            post.kill(victim)
        until("every picture to be accepted", lambda: senders.is_done, 60 * scale)
    until("every album to be joined", lambda: not post.query("SELECT 1 FROM albums WHERE status = 'gathering'"))
    post.settle(60 * scale)

    invariants.check_turns(post)
    problems = [*_pictures(post), *_split(post), *_files(post, platform)]
    assert not problems, "\n".join(problems[:40])
    doubts = post.query("SELECT count(*) FROM events WHERE type = 'response_outcome_unknown'")[0][0]
    assert doubts > 0, "no kill has hit a send"


def _pictures(post: Post) -> list[str]:
    """Each picture is in one message, once."""
    stored = post.query("SELECT f.value ->> '$.file_id' FROM messages, json_each(messages.files) f")
    found = Counter(name for (name,) in stored)
    names = [text.partition("|")[0].strip().replace(" ", "-") for text in post.platform.written]
    return [f"picture {name} is in {found[name]} messages" for name in names if found[name] != 1]


def _split(post: Post) -> list[str]:
    """An album is one message, unless a picture came only when the others had been quiet for long enough."""
    came: dict[str, list[int]] = {}
    for group, at_ms in post.query(
        "SELECT group_key, p.created_at FROM album_pieces p JOIN albums a ON a.id = p.album_id ORDER BY p.id"
    ):
        came.setdefault(group, []).append(at_ms)
    made = dict(post.query("SELECT group_key, count(*) FROM albums GROUP BY group_key"))
    cut_off = sum(0 in written.statuses for written in post.platform.written.values())
    print(f"{len(made)} albums, {sum(count > 1 for count in made.values())} in several messages; {cut_off} cut off")
    problems = []
    for group, times in came.items():
        late = sum(next_ms - at_ms >= QUIET_MS - SLACK_MS for at_ms, next_ms in pairwise(times))
        if made[group] > 1 + late:
            problems.append(f"album {group} is {made[group]} messages, and {late} pictures were late: {times}")
    return problems


def _files(post: Post, platform: AlbumPlatform) -> list[str]:
    """Each file of an answer arrived, or has a recorded outcome; a second arrival has a recorded doubt."""
    doubts = Counter(
        post.query("SELECT response_id, data ->> '$.part' FROM events WHERE type = 'response_outcome_unknown'")
    )
    problems, sent = [], set()
    for id_, text, status, files, unsent in post.query(
        "SELECT id, message, status, files, ifnull(unsent_files, '[]') FROM responses"
    ):
        names = [each["name"] for each in json.loads(files)]
        sent.update(names)
        if len(names) != 4:
            problems.append(f"the answer {text!r} has the files {names}")
        left_out = {names[place] for place, _ in json.loads(unsent)}
        for place, name in enumerate(names):
            least = int(status == "acked" and name not in left_out)
            most = 1 + doubts[id_, place // 2]  # two pictures are one part, two documents the next
            if not least <= platform.arrived[name] <= most:
                problems.append(f"{name} arrived {platform.arrived[name]} times: {least} to {most} are explained")
    print(f"{len(sent)} files, {sum(doubts.values())} doubts")
    return problems + [f"a file of no answer: {name}" for name in platform.arrived if name not in sent]
