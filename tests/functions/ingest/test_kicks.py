"""ingest wakes the others by a datagram, which must not cost more than the events."""

import asyncio
import json
import socket
import threading

from functions import ingest
from tests.functions.ingest.kit import PRIVATE, SECRET
from tests.support import column


def event(number):
    body = json.loads(PRIVATE)
    body["update_id"] += number
    body["message"]["message_id"] += number
    return json.dumps(body).encode()


def listener(path):
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    bound.bind(str(path))
    return bound


def count(bound):
    """How many kicks arrived."""
    found = 0
    try:
        while bound.recv(16):
            found += 1
    except BlockingIOError:
        return found


def test_events_of_one_commit_kick_once_and_the_next_commit_again(serving, environment, conn):
    with listener(environment / "dispatch.sock") as dispatch, listener(environment / "api.sock") as api:

        async def go():
            async with serving(ingest) as client:
                writer = ingest._service.get().writer
                may_end, begun = threading.Event(), asyncio.Event()
                loop = asyncio.get_running_loop()

                def wait(_):
                    loop.call_soon_threadsafe(begun.set)
                    may_end.wait()

                waiting = asyncio.create_task(writer.run(wait))
                await begun.wait()
                posts = [
                    asyncio.create_task(client.post("/webhooks/telegram", content=event(number), headers=SECRET))
                    for number in range(5)
                ]
                while len(writer._waiting) < 5:  # noqa: ASYNC110 - each round lets the posts run
                    await asyncio.sleep(0)
                may_end.set()
                await asyncio.gather(waiting, *posts)
                first = count(dispatch), count(api)
                await client.post("/webhooks/telegram", content=event(5), headers=SECRET)
                return first, (count(dispatch), count(api))

        assert asyncio.run(go()) == ((1, 1), (1, 1))
    assert column(conn, "SELECT count(*) FROM messages") == [6]
