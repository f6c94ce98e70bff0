import json
from dataclasses import replace

import pytest

from shared.channels.base import Event
from shared.conversation.inbound import events, pairing
from shared.conversation.routing.apply import Routed
from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.db.roster import accounts, chats
from tests.shared.conversation.routing.router.kit import OPEN, asked, become, event, make_chat, reasons, said, wire
from tests.support import NOW, column, dump

LIMITED = replace(OPEN, sender_limit=2)


def take(conn, what, policy=OPEN, *, channel="telegram", at=NOW):
    with transaction(conn):
        return events.handle(conn, channel, what, policy, now_ms=at)


def make_code(conn, grants="owner", agent=None):
    with transaction(conn):
        return pairing.make(conn, grants, agent, life_ms=60_000, now_ms=NOW).code


def status_of(conn, chat="100"):
    return chats.find(conn, "telegram", chat).status


# -- buttons -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(conn):
    """A stranger's message waits for an owner; the tokens of the buttons of the card."""
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    assert take(conn, event()).held == 1
    (buttons,) = column(conn, "SELECT content -> '$.buttons' FROM responses WHERE platform_id = '9'")
    return [token for _, token in json.loads(buttons)]


def press(token, key="c1", *, sender="9", reason=None):
    return Event("callback", key, platform_id="9", sender_id=sender, text=token, is_mention=True, reason=reason)


@pytest.mark.parametrize("reason", [None, "unsupported:callback"])
def test_a_press_decides_even_if_the_adapter_does_not_support_it(conn, held, reason):
    assert take(conn, press(held[0], reason=reason)) == Routed(stored=1, said=True)
    assert asked(conn) == ["assistant"]


def test_a_press_that_comes_again_decides_nothing_more(conn, held):
    take(conn, press(held[0]))
    before = dump(conn)
    assert take(conn, press(held[0])) == Routed()
    assert dump(conn) == before


def test_a_press_of_a_person_who_is_no_approver_decides_nothing(conn, held):
    found = take(conn, press(held[0], sender="5"))
    assert (found.stored, found.dropped, found.said) == (0, "not_approver", True)
    assert asked(conn) == []


@pytest.mark.parametrize("token", ["", "approval_aaaaaaaa.0", "x.0", "nonsense"])
def test_an_unknown_button_leaves_its_reason(conn, held, token):
    assert take(conn, press(token)) == Routed(dropped="unsupported:callback")
    assert reasons(conn) == [("unsupported", "callback")]


def test_presses_count_against_the_limit(conn, held):
    found = [take(conn, press("nonsense", str(number)), LIMITED).dropped for number in range(3)]
    assert found == ["unsupported:callback"] * 2 + ["rate_limited:sender"]
    assert take(conn, press(held[0], "c9"), LIMITED).stored == 0
    assert asked(conn) == []


# -- codes -------------------------------------------------------------------------------------------------------------


def test_a_code_makes_the_first_owner_in_an_unwired_chat(conn):
    code = make_code(conn)
    found = take(conn, event(f"/start {code}"))
    assert (found.stored, found.dropped, found.said) == (0, None, True)
    assert rows(conn, "SELECT role, agent FROM user_roles") == [("owner", None)]
    assert "You are an owner now" in said(conn)[0]
    assert code not in str(dump(conn))


SAYS = {
    "to us": (event("/start@our_bot {}", command="start", command_args="{}"), True),
    "as a command of the platform's own": (event("/start {}", kind="command", command="ask"), True),
    "behind our name": (event("@our_bot  /start {}"), True),
    "to another bot": (event("/start@other_bot {}"), False),
    "another command": (event("/started {}"), False),
    "in the middle": (event("please /start {}"), False),
    "where the adapter gave up": (event("/start {}", kind="command", reason="unsupported:command"), False),
    "as an edit": (event("/start {}", kind="edit"), False),
}


@pytest.mark.parametrize(("what", "is_code"), SAYS.values(), ids=SAYS)
def test_a_code_counts_only_where_it_is_sent_to_this_bot(conn, what, is_code):
    wire(conn, make_chat(conn))
    code = make_code(conn)
    args = what.command_args and code
    take(conn, replace(what, text=what.text.format(code), command_args=args))
    assert column(conn, "SELECT count(*) FROM user_roles") == [int(is_code)]


def test_a_wrong_code_reaches_no_agent_and_no_row(conn):
    wire(conn, make_chat(conn))
    found = take(conn, event("/start ABCD-EFGH"))
    assert (found.stored, found.dropped, found.said) == (0, "pairing_failed", True)
    assert asked(conn) == []
    assert "ABCD" not in str(dump(conn))


@pytest.mark.parametrize(
    "policy", [replace(OPEN, new_chats="wire"), replace(OPEN, new_chats="ask")], ids=["wire", "ask"]
)
@pytest.mark.parametrize("is_group", [False, True])
def test_a_wrong_code_as_first_message_does_not_change_the_chats_sender_policy(conn, policy, is_group):
    become(conn, "owner", "9")
    assert take(conn, event("/start summer", is_group=is_group), policy).dropped == "pairing_failed"
    found = take(conn, event("hello", event_key="2", is_group=is_group), policy)
    assert (found.stored, found.held) == ((1, 0) if policy.new_chats == "wire" else (0, 1))


def test_start_without_a_code_is_text(conn):
    wire(conn, make_chat(conn))
    assert take(conn, event("/start")).stored == 1


def test_codes_count_against_the_limit_even_right_ones(conn):
    wire(conn, make_chat(conn))
    code = make_code(conn)
    texts = ["/start WRONG-1", "/start WRONG-2", f"/start {code}"]
    found = [take(conn, event(text, event_key=str(key)), LIMITED).dropped for key, text in enumerate(texts)]
    assert found == ["pairing_failed", "pairing_failed", "rate_limited:sender"]
    assert column(conn, "SELECT count(*) FROM user_roles") == [0]
    assert "in 30 seconds" in said(conn)[-1]
    assert take(conn, event(f"/start {code}", event_key="9"), LIMITED, at=NOW + 30_000).said
    assert column(conn, "SELECT count(*) FROM user_roles") == [1]


# -- chats' own news ---------------------------------------------------------------------------------------------------


def membership(status, key="1", chat="100"):
    return Event("membership", key, platform_id=chat, sender_id="5", context={"status": status, "old_status": "x"})


@pytest.mark.parametrize("status", ["kicked", "left"])
@pytest.mark.parametrize("back", ["member", "administrator", "creator", "restricted"])
def test_a_chat_that_the_bot_was_removed_from_is_inactive_until_it_is_back(conn, status, back):
    wire(conn, make_chat(conn))
    assert take(conn, membership(status)) == Routed()
    assert status_of(conn) == "inactive"
    assert take(conn, membership(back, "3")) == Routed()
    assert status_of(conn) == "active"
    assert take(conn, event(event_key="4")).stored == 1


def test_a_message_in_an_inactive_chat_activates_it(conn):
    wire(conn, make_chat(conn))
    take(conn, membership("kicked"))
    assert take(conn, event(event_key="2")).stored == 1
    assert status_of(conn) == "active"


@pytest.mark.parametrize(
    "what",
    [membership("kicked", chat="999"), membership("authorized"), membership("kicked", chat=None), membership(None)],
    ids=["a chat that is none of ours", "installed", "no chat", "nothing said"],
)
def test_news_about_an_unknown_chat_leaves_its_reason(conn, what):
    make_chat(conn)
    assert take(conn, what) == Routed(dropped="unsupported:membership")
    assert status_of(conn) == "active"


def migration(key, old="100", new="-200"):
    ids = {"old_platform_id": old, "new_platform_id": new}
    return Event("migrate", key, platform_id=old, context=ids)


def test_a_group_that_moves_keeps_its_row_though_the_news_comes_twice(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat)
    assert [take(conn, migration(key)) for key in ("1", "2")] == [Routed()] * 2
    assert chats.find(conn, "telegram", "100") is None
    assert chats.find(conn, "telegram", "-200").id == chat
    assert take(conn, event(platform_id="-200", is_group=True)).stored == 1
    assert reasons(conn) == []


def test_the_move_of_an_unknown_chat_leaves_its_reason(conn):
    assert take(conn, migration("1")) == Routed(dropped="unsupported:migrate")


def test_everything_else_is_routed(conn):
    wire(conn, make_chat(conn))
    assert take(conn, event("hello")).stored == 1
    assert take(conn, event("hello", kind="edit", event_key="2")).dropped == "unsupported:edit"


# -- late copies -------------------------------------------------------------------------------------------------------

HOUR = 60 * 60 * 1000
BEGAN = NOW - 100 * 24 * HOUR


def began(conn, at):
    with transaction(conn):
        meta.put(conn, "began_at", str(at))


@pytest.mark.parametrize(("age", "stored"), [(0, 1), (72 * HOUR - 1, 1), (72 * HOUR, 0), (90 * 24 * HOUR, 0)])
def test_an_event_older_than_its_key_is_kept_is_refused_with_a_reason(conn, age, stored):
    began(conn, BEGAN)
    wire(conn, make_chat(conn))
    found = take(conn, event(sent_at_ms=NOW - age))
    assert (found.stored, found.dropped) == (stored, None if stored else "too_old")
    assert reasons(conn) == ([] if stored else [("too_old", "")])


def test_a_refused_late_copy_says_nothing_and_is_recorded_once(conn):
    began(conn, BEGAN)
    wire(conn, make_chat(conn))
    old = event(sent_at_ms=NOW - 80 * HOUR)
    assert [take(conn, old).dropped, take(conn, old).dropped] == ["too_old", "too_old"]
    assert (reasons(conn), said(conn)) == ([("too_old", "")], [])


def test_an_event_from_long_before_the_database_is_no_copy(conn):
    """Nobody had it before: neither this database nor one that was lost shortly before this one began."""
    began(conn, NOW)
    wire(conn, make_chat(conn))
    assert take(conn, event(event_key="1", sent_at_ms=NOW - 29 * 24 * HOUR)).dropped == "too_old"
    assert take(conn, event(event_key="2", sent_at_ms=NOW - 31 * 24 * HOUR)).stored == 1


def test_a_late_copy_of_old_news_about_a_chat_changes_nothing(conn):
    make_chat(conn)
    kicked = membership("kicked", key="u1")
    take(conn, kicked)
    take(conn, membership("member", key="u2"))
    assert take(conn, kicked) == Routed(duplicates=1)
    assert status_of(conn) == "active"


def test_so_does_one_of_news_that_changed_nothing_the_first_time(conn):
    make_chat(conn)
    for status, key in (("kicked", "u0"), ("kicked", "u1"), ("member", "u2"), ("kicked", "u1")):
        take(conn, membership(status, key=key))
    assert status_of(conn) == "active"


# -- bots that people make for ours ------------------------------------------------------------------------------------


def gift(key="a1", owner="9"):
    context = {"owner_id": owner, "bot_id": "777", "username": "clerk_bot"}
    return Event("account", key, platform_id=owner, sender_id=owner, context=context)


def test_a_bot_that_was_asked_for_is_set_up_by_deliver(conn):
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="9", now_ms=NOW)
    assert take(conn, gift()) == Routed(said=True)
    assert take(conn, gift("a2")) == Routed(said=True)  # Telegram says it twice, in two ways
    assert accounts.known(conn, "telegram.clerk").status == "given"


def test_a_bot_that_nobody_was_asked_for_leaves_its_reason(conn):
    with transaction(conn):
        accounts.want(conn, "telegram.clerk", agent="assistant", manager="telegram", owner_id="9", now_ms=NOW)
    assert take(conn, gift(owner="666")).dropped == "bot_not_asked_for"
    assert take(conn, gift(), channel="telegram.other").dropped == "bot_not_asked_for"
    assert accounts.known(conn, "telegram.clerk").status == "wanted"
