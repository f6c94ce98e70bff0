import asyncio
import select
import tempfile
from pathlib import Path

from shared.core.settings import Settings
from shared.rest.http.service import Service
from shared.roster.new_database import prepare_database
from shared.runtime.kick import Kicker


def test_kicks_wake_api_only_while_something_waits_for_news(tmp_path):
    """A kick that came before is not lost: the next wait reads it at once."""
    db = tmp_path / "postroom.db"
    prepare_database(db)

    async def run(sockets):
        service = Service(Settings(db=db, run_dir=sockets))
        kicker = Kicker(sockets)

        def is_unread():
            return bool(select.select([service._listener], [], [], 0)[0])

        async def turn():
            for _ in range(3):  # of the event loop, in which it would read a kick
                await asyncio.sleep(0)

        service.begin()
        try:
            for _ in range(2):
                kicker.kick("api")
                await turn()
                assert is_unread(), "nothing waits for news, so the event loop sleeps on"
                await service.news(60)
                assert not is_unread()
            waiting = asyncio.create_task(service.news(60))
            await turn()
            kicker.kick("api")
            await waiting
            assert not is_unread()
        finally:
            kicker.close()
            await service.close()

    with tempfile.TemporaryDirectory(prefix="pr-") as sockets:  # a socket's path is at most 107 bytes long
        asyncio.run(run(Path(sockets)))
