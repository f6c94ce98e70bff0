"""The chat page of the past shows what people saw then."""

from pathlib import Path

import apsw

from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.bot import add_people, telegram_bot
from emulator.storage import past_chats
from shared.db.engine.connection import transaction
from tests.support import NOW, answer, make_agent, make_chat, put


def shown(path: Path, platform: str, chat_id: str) -> list[tuple[str, str, bool]]:
    """Author, text, and whether it is the bot's, of each message."""
    store = PlatformStore(path)
    try:
        chat = store.chat(platform, chat_id)
        assert chat is not None
        found = store.transcript(chat)
        assert {each.detail["state"] for each in found} == {"past"}  # or the page says that it was not sent to the bot
        return [(each.author, each.text, each.is_bot) for each in found]
    finally:
        store.close()


def arrived(conn: apsw.Connection, response: int, at: int) -> None:
    conn.execute(
        "UPDATE responses SET status = 'acked', acked_at = :at, platform_message_id = :id WHERE id = :row",
        {"at": at, "id": f"9{response}", "row": response},
    )


def test_people_and_arrived_responses_are_shown_in_their_order(conn: apsw.Connection, db: Path, tmp_path: Path) -> None:
    put(conn, "hello", chat="5", platform_message_id="1", now_ms=NOW)
    put(conn, "and?", chat="5", platform_message_id="3", now_ms=NOW + 20)
    arrived(conn, answer(conn, "hi", chat="5"), NOW + 10)
    answer(conn, "not sent yet", chat="5")
    path = tmp_path / "platforms.db"
    assert past_chats.write(path, db) == 3
    store = PlatformStore(path)
    add_people(store)
    bot = str(telegram_bot(store).id)
    assert [person.name for person in store.people("telegram") if person.id == "5"] == ["Ana"]
    store.close()
    assert shown(path, "telegram", "5") == [("5", "hello", False), (bot, "hi", True), ("5", "and?", False)]


def test_it_is_written_once(conn: apsw.Connection, db: Path, tmp_path: Path) -> None:
    put(conn, "hello", chat="5", platform_message_id="1")
    path = tmp_path / "platforms.db"
    assert (past_chats.write(path, db), past_chats.write(path, db)) == (1, 0)
    assert len(shown(path, "telegram", "5")) == 1


def test_a_message_that_several_agents_had_is_shown_once(conn: apsw.Connection, db: Path, tmp_path: Path) -> None:
    make_agent(conn, "coder")
    for agent in ("assistant", "coder"):
        put(conn, "hello", agent=agent, chat="5", platform_message_id="1")
    assert past_chats.write(tmp_path / "platforms.db", db) == 1


def test_groups_and_channels_are_what_they_were(conn: apsw.Connection, db: Path, tmp_path: Path) -> None:
    for channel, chat, kind in (
        ("telegram", "-1001", "supergroup"), ("telegram", "-7", "group"), ("discord", "77", "channel"),
        ("api", "x", None),
    ):  # fmt: skip
        make_chat(conn, chat, channel, is_group=True)
        with transaction(conn):
            conn.execute(
                "UPDATE chats SET name = 'Lunch' WHERE platform_id = :chat",
                {"chat": chat},
            )
        arrived(conn, answer(conn, f"in {kind}", chat=chat, channel=channel), NOW)
    path = tmp_path / "platforms.db"
    assert past_chats.write(path, db) == 3
    store = PlatformStore(path)
    found = {(chat.platform, chat.kind, chat.title) for each in ("telegram", "discord") for chat in store.chats(each)}
    store.close()
    assert found == {
        ("telegram", "supergroup", "Lunch"), ("telegram", "group", "Lunch"), ("discord", "channel", "Lunch")
    }  # fmt: skip
