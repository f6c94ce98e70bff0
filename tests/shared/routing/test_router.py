from dataclasses import replace

import pytest

from shared.access import people
from shared.channels.base import Event
from shared.core.policy import AccessPolicy
from shared.db.access import users
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages, sessions
from shared.db.roster import agents, chats, sticky_threads, teams
from shared.roster import wirings
from shared.routing import router
from shared.routing.apply import Routed
from tests.forks import outcomes
from tests.support import NOW, column, dump, make_agent, plan, row

SECRET = "what the person wrote"
OPEN = AccessPolicy(new_chats="refuse", sender_limit=0, chat_limit=0, sender_bytes=0)
ASK, WIRE = replace(OPEN, new_chats="ask"), replace(OPEN, new_chats="wire")


def event(text=SECRET, **fields):
    values = {"kind": "message", "event_key": "1", "platform_id": "100", "sender": "Ana", "sender_id": "5"}
    return Event(**{**values, "text": text, "is_mention": True, **fields})


def store(conn, what, policy=OPEN, *, channel="telegram", at=NOW):
    with transaction(conn):
        return router.route(conn, channel, what, policy, now_ms=at)


def make_chat(conn, chat="100", policy="public", channel="telegram", *, is_group=False):
    with transaction(conn):
        return chats.ensure(conn, channel, chat, is_group=is_group, sender_policy=policy, now_ms=NOW).id


def wire(conn, chat_id, agent="assistant", **changes):
    if agent != "assistant" and not column(conn, "SELECT id FROM agents WHERE id = :agent", agent=agent):
        make_agent(conn, agent)
    with transaction(conn):
        return wirings.connect(conn, chat_id, agent, changes, now_ms=NOW)


def become(conn, role, sender="5", channel="telegram", agent="assistant"):
    """The sender is an ``owner``, an ``admin`` of everything, ``scoped``, a ``member``, ``refused``, or a ``user``."""
    with transaction(conn):
        user = users.ensure(conn, channel, sender, name="Ana", now_ms=NOW)
        match role:
            case "owner" | "admin":
                people.grant(conn, user.id, role, None, by="test", now_ms=NOW)
            case "scoped":
                people.grant(conn, user.id, "admin", agent, by="test", now_ms=NOW)
            case "member":
                people.add_member(conn, user.id, agent, by="test", now_ms=NOW)
            case "refused":
                people.refuse(conn, user.id, agent, by="test", now_ms=NOW)
    return user


def asked(conn):
    """The agents that were given a trigger, in order."""
    return column(conn, "SELECT agent FROM messages WHERE trigger = 1 ORDER BY id")


def reasons(conn):
    return rows(conn, "SELECT reason, detail FROM dropped ORDER BY id")


def said(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_wired", [True, False])
def test_a_new_group_title_is_stored_and_destinations_keep_their_names(conn, is_wired):
    store(conn, event(is_group=True, chat_name="Lunch"), WIRE)
    if not is_wired:
        rows(conn, "DELETE FROM wirings")
    called = rows(conn, "SELECT name, target_chat FROM destinations")
    for key, title, name in (("2", "Dinner", "Dinner"), ("3", "", "Dinner"), ("4", "Dinner", "Dinner")):
        store(conn, event(event_key=key, is_group=True, chat_name=title, is_mention=False), at=NOW + int(key))
        assert rows(conn, "SELECT name, updated_at FROM chats") == [(name, NOW + 2)]
    assert rows(conn, "SELECT name, target_chat FROM destinations") == called


def test_a_direct_chat_keeps_its_name_when_the_sender_changes_theirs(conn):
    store(conn, event(), WIRE)
    store(conn, event(event_key="2", sender="Your bank"), WIRE)
    assert column(conn, "SELECT name FROM chats") == ["Ana"]


def test_a_message_to_a_wired_chat_is_stored_with_what_the_answer_needs(conn):
    wire(conn, make_chat(conn))
    reply_to = {"message_id": "9", "text": "before"}
    told = event(context={"token": "sealed"}, thread_id="7", platform_message_id="m1", is_group=True, reply_to=reply_to)
    assert store(conn, told) == Routed(stored=1)
    found = row(conn, "messages")
    assert found["message_id"].startswith("telegram_")
    names = (
        "channel",
        "platform_id",
        "thread_id",
        "platform_message_id",
        "event_key",
        "sender",
        "sender_id",
        "message",
    )
    assert [found[name] for name in names] == ["telegram", "100", "7", "m1", "1", "Ana", "5", SECRET]
    assert column(conn, "SELECT content ->> '$.context.token' FROM messages") == ["sealed"]


def test_a_redelivery_is_stored_for_the_agent_that_missed_it_and_for_no_other(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    assert store(conn, event()) == Routed(stored=1)
    assert store(conn, event()) == Routed(duplicates=1)
    wire(conn, chat, "second")
    assert store(conn, event()) == Routed(stored=1, duplicates=1)
    assert asked(conn) == ["assistant", "second"]


def test_all_wirings_engage_in_order_of_priority(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second", priority=5)
    assert store(conn, event()).stored == 2
    assert asked(conn) == ["second", "assistant"]


DROPPED = {
    "a chat without a wiring": (event(platform_id="999"), "not_wired", ""),
    "a group that did not address the bot": (event(is_mention=False, is_group=True), "not_addressed", ""),
    "nothing said": (event(text=""), "empty", ""),
    "no conversation": (event(platform_id=None), "no_chat", ""),
    "a kind that asks for nothing": (event(kind="reaction"), "unsupported", "reaction"),
    "an event that the adapter ignores": (event(kind="ignore", reason="relay"), "relay", ""),
    "a command that the adapter refused": (
        event(kind="command", reason="unsupported:command"), "unsupported", "command",
    ),
    "a reason with a detail": (event(kind="ignore", reason="malformed:member"), "malformed", "member"),
    "a chat where an owner wants no agent": (event(platform_id="unwanted"), "chat_refused", ""),
    "a program's own command": (event("/help me"), "command_filtered", "help"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "reason", "detail"), DROPPED.values(), ids=DROPPED)
def test_a_dropped_event_leaves_its_reason_once_and_never_its_text(conn, what, reason, detail):
    wire(conn, make_chat(conn))
    unwanted = make_chat(conn, "unwanted")
    with transaction(conn):
        chats.update(conn, unwanted, refused_at=NOW, now_ms=NOW)
    before = len(column(conn, "SELECT id FROM chats"))
    for _ in range(2):
        assert store(conn, what).dropped == ":".join(filter(None, (reason, detail)))
    assert rows(conn, "SELECT channel, reason, detail, event_key FROM dropped") == [("telegram", reason, detail, "1")]
    assert SECRET not in str(dump(conn))
    assert column(conn, "SELECT id FROM messages") == []
    assert len(column(conn, "SELECT id FROM chats")) == before


def test_attachments_alone_are_a_message(conn):
    wire(conn, make_chat(conn))
    assert store(conn, event(text="", attachments=({"kind": "photo", "file_id": "f"},))).stored == 1
    assert column(conn, "SELECT files ->> '$[0].kind' FROM messages") == ["photo"]


def test_a_group_message_without_a_mention_is_context_where_the_wiring_accumulates(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat, ignored_message_policy="accumulate")
    wire(conn, chat, "second", ignored_message_policy="drop")
    assert store(conn, event(is_mention=False, is_group=True)).stored == 1
    assert rows(conn, "SELECT agent, trigger FROM messages") == [("assistant", 0)]


# -- chats without a wiring --------------------------------------------------------------------------------------------

NEW = {
    "a person": (event(platform_id="7"), "mention", "shared", "Ana"),
    "a group that addresses the bot": (
        event(platform_id="7", is_group=True, thread_id="3"), "mention-sticky", "per-thread", None,
    ),
    "a group with a name": (
        event(platform_id="7", is_group=True, chat_name="Lunch"), "mention-sticky", "per-thread", "Lunch",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("what", "engage", "session", "name"), NEW.values(), ids=NEW)
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown chat", "known chat without wirings"])
def test_a_new_chat_is_wired_to_the_default_agent_where_the_operator_allows_it(
    conn, what, engage, session, name, is_known
):
    if is_known:
        make_chat(conn, "7", is_group=what.is_group)
    assert store(conn, what, WIRE).stored == 1
    assert rows(conn, "SELECT agent, engage_mode, session_mode FROM wirings") == [("assistant", engage, session)]
    assert row(conn, "chats")["sender_policy"] == "public"
    if not is_known:
        assert row(conn, "chats")["name"] == name
    assert store(conn, what, WIRE).duplicates == 1


def test_a_strict_chat_stays_strict_when_it_is_wired_automatically(conn):
    make_chat(conn, "7", "strict")
    assert store(conn, event(platform_id="7"), WIRE).dropped == "sender_unknown"


def test_an_unwired_strict_chat_holds_nothing_of_strangers_and_asks_no_approver(conn):
    become(conn, "owner", "9")
    make_chat(conn, "7", "strict", is_group=True)
    said_there = event(platform_id="7", is_group=True)
    assert store(conn, said_there, ASK) == Routed(dropped="sender_unknown")
    assert SECRET not in str(dump(conn))
    become(conn, "member")
    assert store(conn, replace(said_there, event_key="2"), ASK).held == 1


@pytest.mark.parametrize("policy", [WIRE, ASK], ids=["wire", "ask"])
def test_a_group_message_without_a_mention_neither_wires_the_group_nor_asks_about_it(conn, policy):
    become(conn, "owner", "9")
    assert store(conn, event(platform_id="7", is_group=True, is_mention=False), policy).dropped == "not_wired"
    assert chats.find(conn, "telegram", "7") is None
    assert said(conn) == []


def test_without_a_default_agent_nothing_is_wired(conn):
    with transaction(conn):
        rows(conn, "UPDATE agents SET is_default = 0")
    assert agents.default(conn) is None
    assert store(conn, event(platform_id="7"), WIRE).dropped == "not_wired"


def test_an_owner_is_asked_about_a_new_chat_and_the_message_waits(conn):
    become(conn, "owner", "9")
    assert store(conn, event(platform_id="7"), ASK) == Routed(held=1, said=True)
    assert chats.find(conn, "telegram", "7").sender_policy == "request_approval"
    assert column(conn, "SELECT count(*) FROM held") == [1]
    assert column(conn, "SELECT id FROM messages") == []
    assert reasons(conn) == []
    assert column(conn, "SELECT platform_id FROM responses ORDER BY id") == ["9", "7"]


def test_a_new_chat_leaves_no_row_where_no_approver_can_be_asked(conn):
    assert store(conn, event(platform_id="7"), ASK).dropped == "not_wired"
    assert chats.find(conn, "telegram", "7") is None
    assert reasons(conn) == [("not_wired", "")]
    assert SECRET not in str(dump(conn))


def test_the_sender_is_told_once_that_the_message_waits(conn):
    become(conn, "owner", "9")
    for key, at, is_said in (("1", NOW, True), ("1", NOW, False), ("2", NOW, False), ("3", NOW + 2, False)):
        assert store(conn, event(platform_id="7", event_key=key), ASK, at=at) == Routed(held=1, said=is_said)
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '7'") == [1]
    assert column(conn, "SELECT count(*) FROM held") == [3]


def test_a_command_is_told_each_time_that_it_waits(conn):
    become(conn, "owner", "9", "discord")
    for key in ("1", "2"):
        what = event(platform_id="7", kind="command", command="ask", event_key=key, context={"token": key})
        assert store(conn, what, ASK, channel="discord", at=NOW + int(key)).said
    waiting = "SELECT content ->> '$.context.token' FROM responses WHERE platform_id = '7' ORDER BY id"
    assert column(conn, waiting) == ["1", "2"]


# -- admission ---------------------------------------------------------------------------------------------------------

NOBODY = "nobody"
EVERY_ROLE = ("owner", "admin", "scoped", "member", "user", "refused", NOBODY)
YES, HELD = "stored", "held"
UNKNOWN, NEVER, NOT_KNOWN = "sender_unknown", "sender_refused", "not_known"
ACCESS = {
    ("public", "all"): (YES, YES, YES, YES, YES, NEVER, YES),
    ("public", "known"): (YES, YES, YES, YES, NOT_KNOWN, NEVER, NOT_KNOWN),
    ("request_approval", "all"): (YES, YES, YES, YES, HELD, NEVER, HELD),
    ("request_approval", "known"): (YES, YES, YES, YES, HELD, NEVER, HELD),
    ("strict", "all"): (YES, YES, YES, YES, UNKNOWN, NEVER, UNKNOWN),
    ("strict", "known"): (YES, YES, YES, YES, UNKNOWN, NEVER, UNKNOWN),
}
CASES = [
    (policy, scope, role, expected)
    for (policy, scope), outcomes in ACCESS.items()
    for role, expected in zip(EVERY_ROLE, outcomes, strict=True)
]


@pytest.mark.parametrize(("policy", "scope", "role", "expected"), CASES)
def test_who_may_talk_to_an_agent(conn, policy, scope, role, expected):
    wire(conn, make_chat(conn, policy=policy), sender_scope=scope)
    if role != NOBODY:
        become(conn, role)
    found = store(conn, event())
    assert (YES if found.stored else HELD if found.held else found.dropped) == expected
    assert asked(conn) == (["assistant"] if expected == YES else [])
    assert (SECRET in str(dump(conn))) is (expected in (YES, HELD))


@pytest.mark.parametrize(("policy", "scope", "role", "expected"), CASES)
def test_only_messages_of_admitted_senders_become_context(conn, policy, scope, role, expected):
    """No approver is asked about a sender who asked for nothing, and nothing of the text is stored anywhere."""
    chat = make_chat(conn, policy=policy, is_group=True)
    wire(conn, chat, sender_scope=scope, ignored_message_policy="accumulate")
    if role != NOBODY:
        become(conn, role)
    found = store(conn, event(is_mention=False, is_group=True))
    is_context = expected == YES
    assert (found.stored, found.held, found.dropped) == (
        (1, 0, None) if is_context else (0, 0, UNKNOWN if expected == HELD else expected)
    )
    assert column(conn, "SELECT count(*) FROM approvals") == [0]
    assert (SECRET in str(dump(conn))) is is_context


def test_an_identity_belongs_to_one_channel_and_a_name_never_replaces_it(conn):
    become(conn, "owner", "5", "discord")
    wire(conn, make_chat(conn, policy="strict"))
    for what in (event(), event(sender="owner", sender_id="discord:5"), event(sender="5", sender_id=None)):
        assert store(conn, what).dropped == "sender_unknown"


def test_two_agents_admit_the_same_sender_independently(conn):
    chat = make_chat(conn, policy="request_approval")
    wire(conn, chat)
    wire(conn, chat, "second")
    wire(conn, chat, "third")
    become(conn, "member", agent="second")
    become(conn, "refused", agent="third")
    assert store(conn, event()) == Routed(stored=1, held=1, dropped="sender_refused", said=True)
    assert asked(conn) == ["second"]
    assert reasons(conn) == [("sender_refused", "")]


def test_a_flood_of_strangers_leaves_a_bounded_number_of_approvals_and_one_card(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval", is_group=True))
    for number in range(60):
        store(conn, event(sender_id=f"1{number}", event_key=str(number), is_group=True), at=NOW + number)
    assert column(conn, "SELECT count(*) FROM approvals") == [20]
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '9'") == [1]
    assert column(conn, "SELECT count(*) FROM dropped WHERE reason = 'too_many_waiting'") == [40]


# -- threads -----------------------------------------------------------------------------------------------------------

IN_THREAD = {"is_group": True, "thread_id": "7"}


def test_an_agent_that_was_mentioned_in_a_thread_answers_there_without_another_mention(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention-sticky")
    told = [
        store(conn, event(event_key="1", is_mention=False, **IN_THREAD)).dropped,
        store(conn, event(event_key="2", **IN_THREAD)).stored,
        store(conn, event(event_key="3", is_mention=False, **IN_THREAD)).stored,
        store(conn, event(event_key="4", is_mention=False, is_group=True, thread_id="8")).dropped,
        store(conn, event(event_key="5", is_mention=False, is_group=True)).dropped,
    ]
    assert told == ["not_addressed", 1, 1, "not_addressed", "not_addressed"]


def test_a_mention_outside_of_threads_does_not_stick(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention-sticky")
    assert store(conn, event(event_key="1", is_group=True)).stored == 1
    assert store(conn, event(event_key="2", is_group=True, is_mention=False)).dropped == "not_addressed"


def test_context_in_a_thread_does_not_make_it_stick(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat, engage_mode="mention-sticky", session_mode="per-thread", ignored_message_policy="accumulate")
    for key in ("1", "2"):
        store(conn, event(event_key=key, is_mention=False, **IN_THREAD))
    assert column(conn, "SELECT trigger FROM messages") == [0, 0]


@pytest.mark.parametrize(("policy", "role"), [("strict", NOBODY), ("request_approval", NOBODY), ("public", "refused")])
def test_a_mention_by_a_refused_sender_does_not_stick(conn, policy, role):
    wired = wire(conn, make_chat(conn, policy=policy, is_group=True), engage_mode="mention-sticky")
    if role != NOBODY:
        become(conn, role)
    store(conn, event(**IN_THREAD))
    assert not sticky_threads.has(conn, wired.id, "7")


def test_a_thread_id_is_ignored_on_a_platform_without_threads(conn):
    wire(conn, make_chat(conn, channel="sms", is_group=True), engage_mode="mention-sticky", session_mode="per-thread")
    store(conn, event(**IN_THREAD), channel="sms")
    assert rows(conn, "SELECT m.thread_id, s.thread_id FROM messages m JOIN sessions s ON s.id = m.session_id") == [
        (None, None)
    ]
    assert store(conn, event(event_key="2", is_mention=False, **IN_THREAD), channel="sms").dropped == "not_addressed"


# -- sessions ----------------------------------------------------------------------------------------------------------

A, B = {"platform_id": "100"}, {"platform_id": "200"}
SESSIONS = {
    "shared: the threads of a chat": ("shared", A | IN_THREAD, A | IN_THREAD | {"thread_id": "8"}, True),
    "shared: two chats": ("shared", A, B, False),
    "per-thread: the threads of a group": ("per-thread", A | IN_THREAD, A | IN_THREAD | {"thread_id": "8"}, False),
    "per-thread: the same thread": ("per-thread", A | IN_THREAD, A | IN_THREAD, True),
    "per-thread: the sub-threads of a direct chat": (
        "per-thread", A | {"thread_id": "7"}, A | {"thread_id": "8"}, True,
    ),
    "agent-shared: two chats": ("agent-shared", A, B, True),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "one", "other", "is_same"), SESSIONS.values(), ids=SESSIONS)
def test_the_session_mode_decides_which_messages_share_a_session(conn, mode, one, other, is_same):
    for chat in ("100", "200"):
        wire(conn, make_chat(conn, chat), session_mode=mode)
    store(conn, event(**one))
    store(conn, event(**{**other, "event_key": "2"}))
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == (1 if is_same else 2)
    assert column(conn, "SELECT count(*) FROM messages") == [2]


def test_an_agent_shared_session_is_never_that_of_a_thread(conn):
    wire(conn, make_chat(conn, "100", is_group=True), session_mode="per-thread")
    wire(conn, make_chat(conn, "200"), session_mode="agent-shared")
    store(conn, event(**IN_THREAD))
    store(conn, event(event_key="2", platform_id="200"))
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == 2


def test_two_agents_of_a_chat_have_separate_sessions(conn):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second")
    store(conn, event())
    assert len(column(conn, "SELECT DISTINCT session_id FROM messages")) == 2


# -- the addressee of a text -------------------------------------------------------------------------------------------


@pytest.fixture
def two(conn):
    """A direct chat and a group, in each of which two agents answer; and a team that one of them leads."""
    for chat, is_group in (("100", False), ("200", True)):
        chat_id = make_chat(conn, chat, is_group=is_group)
        wire(conn, chat_id)
        wire(conn, chat_id, "coder")
    with transaction(conn):
        teams.save(conn, teams.Team("build", "Builders", "coder", ("coder",)), now_ms=NOW)


IN_GROUP = {"platform_id": "200", "is_group": True}
NAMED = {
    "no agent": (event("hi"), [("assistant", "hi"), ("coder", "hi")]),
    "an agent": (event("@coder hi"), [("coder", "hi")]),
    "an agent in capitals": (event("@CODER hi"), [("coder", "hi")]),
    "a team": (event("@build hi"), [("coder", "hi")]),
    "a team's name": (event("@builders hi"), [("coder", "hi")]),
    "an unknown name": (event("@nobody hi"), [("assistant", "@nobody hi"), ("coder", "@nobody hi")]),
    "an agent that is not there": (event("@absent hi"), [("assistant", "@absent hi"), ("coder", "@absent hi")]),
    "an agent in a group, behind the bot's name": (event("@our_bot @coder hi", **IN_GROUP), [("coder", "hi")]),
    "an agent in a reply to the bot": (event("@coder hi", **IN_GROUP), [("coder", "hi")]),
    "an agent in a group where the bot is not meant": (event("@coder hi", **IN_GROUP, is_mention=False), []),
}


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("what", "expected"), NAMED.values(), ids=NAMED)
def test_a_text_goes_to_the_agent_that_it_names(conn, what, expected):
    make_agent(conn, "absent")
    store(conn, what)
    assert rows(conn, "SELECT agent, message FROM messages ORDER BY id") == expected


def test_a_named_agent_is_wired_into_an_open_direct_chat_only_for_messages_that_name_it(conn):
    make_agent(conn, "coder")
    for key, text in enumerate(("@coder hi", "hello", "@coder again", "@assistant hello")):
        assert store(conn, event(text, platform_id="7", event_key=str(key)), WIRE).stored == 1
    assert asked(conn) == ["coder", "assistant", "coder", "assistant"]
    assert column(conn, "SELECT message FROM messages ORDER BY id") == ["hi", "hello", "again", "hello"]
    assert rows(conn, "SELECT engage_mode, priority FROM wirings WHERE agent = 'coder'") == [("pattern", -1)]


def test_a_team_whose_leader_is_retired_names_no_agent(conn):
    make_agent(conn, "coder")
    with transaction(conn):
        teams.save(conn, teams.Team("build", "Builders", "coder", ("coder",)), now_ms=NOW)
        rows(conn, "UPDATE agents SET retired_at = :now WHERE id = 'coder'", {"now": NOW})
    assert store(conn, event("@build hi", platform_id="7"), WIRE).stored == 1
    assert store(conn, event("@build hi", platform_id="7", event_key="2"), WIRE).stored == 1
    assert asked(conn) == ["assistant"] * 2


@pytest.mark.parametrize(
    ("policy", "fields"),
    [(OPEN, {}), (ASK, {}), (WIRE, {"is_group": True})],
    ids=["new chats are refused", "are asked about", "are wired, in a group"],
)
def test_a_named_agent_is_wired_in_no_other_chat(conn, policy, fields):
    make_agent(conn, "coder")
    wire(conn, make_chat(conn))
    store(conn, event("@coder hi", **fields), policy)
    assert asked(conn) == ["assistant"]
    assert column(conn, "SELECT message FROM messages") == ["@coder hi"]


@pytest.mark.parametrize(
    ("sender_policy", "role"), [("strict", None), ("request_approval", None), ("public", "refused")]
)
def test_a_sender_who_may_not_talk_to_an_agent_can_not_wire_it_by_its_name(conn, sender_policy, role):
    make_agent(conn, "coder")
    wire(conn, make_chat(conn, policy=sender_policy))
    if role:
        become(conn, role, agent="coder")
    store(conn, event("@coder hi"), WIRE)
    assert column(conn, "SELECT agent FROM wirings") == ["assistant"]
    become(conn, "member", agent="coder")
    store(conn, event("@coder hi", event_key="2"), WIRE)
    assert column(conn, "SELECT agent FROM wirings ORDER BY id") == ["assistant", "coder"]


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["owner", "admin", "scoped"])
def test_clear_by_an_admin_starts_one_new_session(conn, role):
    become(conn, role)
    chat = make_chat(conn)
    wire(conn, chat)
    store(conn, event("hello"))
    (before,) = column(conn, "SELECT session_id FROM messages")
    for is_first in (True, False):
        assert store(conn, event("/clear", event_key="2")).said is is_first
    assert column(conn, "SELECT status FROM sessions ORDER BY id") == ["closed", "active"]
    store(conn, event("again", event_key="3"))
    assert column(conn, "SELECT session_id FROM messages ORDER BY id")[1] != before
    assert ["starts afresh" in text for text in said(conn)] == [True]
    assert reasons(conn) == [("command_done", "clear")]


@pytest.mark.parametrize("role", [NOBODY, "user", "member"])
@pytest.mark.parametrize("command", ["clear", "compact", "context", "cost", "files"])
def test_an_admin_command_of_another_sender_is_refused_with_a_sentence(conn, role, command):
    if role != NOBODY:
        become(conn, role)
    wire(conn, make_chat(conn, is_group=True))
    what = event(f"/{command}@bot now", command=command, is_group=True, platform_message_id="m1", thread_id="3")
    assert store(conn, what) == Routed(dropped=f"command_refused:{command}", said=True)
    assert store(conn, what).said is False
    assert asked(conn) == []
    assert column(conn, "SELECT count(*) FROM sessions") == [0]
    (text,) = said(conn)
    assert f"Only an admin of Assistant may use /{command}." in text
    assert "emulator pair" in text
    found = row(conn, "responses")
    assert (found["platform_id"], found["thread_id"], found["sender_id"]) == ("100", "3", "5")
    assert column(conn, "SELECT content ->> '$.reply_to' FROM responses") == ["m1"]


@pytest.mark.parametrize("text", ["/clearance", "/clear! now", "please /clear", "/clear@other_bot", "/compactly"])
def test_an_unknown_command_is_text(conn, text):
    wire(conn, make_chat(conn))
    assert store(conn, event(text)).stored == 1


@pytest.mark.parametrize("text", ["/compact", "/context now", "/cost", "/files", "/model x"])
def test_the_other_admin_commands_go_to_the_agent(conn, text):
    become(conn, "admin")
    wire(conn, make_chat(conn))
    assert store(conn, event(text)).stored == 1


@pytest.mark.parametrize(
    ("text", "done", "given"),
    [
        ("@my_bot /clear", ("command_done", "clear"), []),
        ("@my_bot /help", ("command_filtered", "help"), []),
        ("@my_bot /compact now", None, ["/compact now"]),
        ("@my_bot /clearance", None, ["/clearance"]),
        ("@my_bot hello", None, ["@my_bot hello"]),
    ],
)
def test_in_a_group_a_command_may_stand_behind_the_bots_name(conn, text, done, given):
    become(conn, "owner")
    wire(conn, make_chat(conn, is_group=True))
    store(conn, event(text, is_group=True, mention="@my_bot "))
    assert reasons(conn) == ([done] if done else [])
    assert column(conn, "SELECT message FROM messages") == given


def test_a_command_without_a_mention_in_a_group_is_context(conn):
    become(conn, "owner")
    wire(conn, make_chat(conn, is_group=True), ignored_message_policy="accumulate")
    assert store(conn, event("/clear", is_group=True, is_mention=False)) == Routed(stored=1)
    assert rows(conn, "SELECT message, trigger FROM messages") == [("/clear", 0)]


@pytest.mark.usefixtures("two")
def test_a_name_before_a_command_does_not_evade_its_check(conn):
    found = store(conn, event("@coder /clear"))
    assert (found.dropped, found.said) == ("command_refused:clear", True)
    become(conn, "scoped", agent="coder")
    assert store(conn, event("@coder /clear", event_key="2")).dropped is None
    assert "Coder starts afresh" in said(conn)[-1]


@pytest.mark.usefixtures("two")
def test_a_command_to_two_agents_is_answered_once_for_both(conn):
    become(conn, "scoped", agent="coder")
    assert store(conn, event("/clear")).said
    (text,) = said(conn)
    assert "Coder starts afresh" in text
    assert "Only an admin of Assistant" in text


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [("strict", (0, "sender_unknown", False)), ("request_approval", (0, "command_refused:clear", True))],
)
def test_a_strangers_command_asks_no_approver_and_is_answered_only_where_strangers_are(conn, policy, outcome):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy=policy))
    found = store(conn, event("/clear"))
    assert (found.held, found.dropped, found.said) == outcome
    assert column(conn, "SELECT count(*) FROM approvals") == [0]


# -- limits ------------------------------------------------------------------------------------------------------------

LIMITED = replace(OPEN, sender_limit=3)


def test_messages_beyond_the_limit_are_refused_and_the_sender_is_told_once(conn):
    wire(conn, make_chat(conn))
    found = [store(conn, event(event_key=str(number)), LIMITED) for number in range(6)]
    assert [each.stored for each in found] == [1, 1, 1, 0, 0, 0]
    assert [each.dropped for each in found[3:]] == ["rate_limited:sender"] * 3
    assert [each.said for each in found[3:]] == [True, False, False]
    assert ["in 20 seconds" in text for text in said(conn)] == [True]
    assert store(conn, event(event_key="7"), LIMITED, at=NOW + 20_000).stored == 1


def test_a_redelivery_of_a_refused_message_is_not_answered_again(conn):
    wire(conn, make_chat(conn))
    found = [store(conn, event(event_key=str(number)), LIMITED).said for number in range(4)]
    later = [store(conn, event(event_key=f"later {number}"), LIMITED, at=NOW + 60_000).said for number in range(3)]
    assert found + later == [False] * 3 + [True] + [False] * 3
    again = store(conn, event(event_key="3"), LIMITED, at=NOW + 60_001)
    assert (again.dropped, again.said) == ("rate_limited:sender", False)


def test_a_redelivery_of_a_stored_message_is_a_duplicate_even_beyond_the_limit(conn):
    wire(conn, make_chat(conn))
    for number in range(4):
        store(conn, event(event_key=str(number)), LIMITED)
    assert store(conn, event(event_key="0"), LIMITED) == Routed(duplicates=1)


def test_a_stored_event_is_found_by_an_index(conn):
    lines = [line for line in plan(conn, messages.HAS_EVENT, channel="telegram", event_key="1") if "SEARCH" in line]
    assert len(lines) == 2
    line = lines[0]
    assert "COVERING INDEX messages_event" in line


def test_a_group_hears_nothing_about_refused_context(conn):
    wire(conn, make_chat(conn, is_group=True), ignored_message_policy="accumulate")
    found = [store(conn, event(event_key=str(number), is_group=True, is_mention=False), LIMITED) for number in range(5)]
    assert [each.stored for each in found] == [1, 1, 1, 0, 0]
    assert said(conn) == []


def test_a_message_without_recipients_is_not_counted(conn):
    wire(conn, make_chat(conn, is_group=True))
    for number in range(9):
        store(conn, event(event_key=str(number), is_group=True, is_mention=False), LIMITED)
    assert column(conn, "SELECT count(*) FROM rates") == [0]


@pytest.mark.parametrize("text", ["/clear", "/help", "/anything"])
def test_commands_count_against_the_limit(conn, text):
    wire(conn, make_chat(conn))
    found = [store(conn, event(text, event_key=str(number)), LIMITED).dropped for number in range(4)]
    assert found[3] == "rate_limited:sender"
    assert found[2] != "rate_limited:sender"


def test_a_new_chat_is_limited_before_an_approver_is_asked(conn):
    become(conn, "owner", "9")
    policy = replace(ASK, sender_limit=2)
    found = [store(conn, event(platform_id=str(number), event_key=str(number)), policy) for number in range(4)]
    assert [each.held for each in found] == [1, 1, 0, 0]
    assert column(conn, "SELECT count(*) FROM chats WHERE platform_id IN ('2', '3')") == [0]


@pytest.mark.parametrize("sender_policy", ["strict", "request_approval"])
def test_refused_senders_use_up_no_room_of_admitted_ones(conn, sender_policy):
    wire(conn, make_chat(conn, policy=sender_policy, is_group=True))
    become(conn, "member", "9")
    policy = replace(OPEN, sender_limit=2, chat_limit=4)
    for number in range(12):
        store(conn, event(event_key=str(number), sender_id=f"s{number // 3}", is_group=True), policy)
    if sender_policy == "strict":
        assert said(conn) == []
    assert store(conn, event(event_key="me", sender_id="9", is_group=True), policy).stored == 1


def test_more_bytes_than_the_limit_of_a_minute_are_dropped_with_a_reason_and_said_once(conn):
    wire(conn, make_chat(conn))
    policy = replace(OPEN, sender_bytes=100)
    sizes = (("1", 60), ("2", 60), ("3", 60), ("4", 101))
    found = [store(conn, event("x" * size, event_key=key), policy) for key, size in sizes]
    assert [each.dropped for each in found] == [
        *(None, "rate_limited:size", "rate_limited:size", "rate_limited:too_large"),
    ]
    assert [each.said for each in found] == [False, True, False, False]
    assert reasons(conn) == [("rate_limited", "size")] * 2 + [("rate_limited", "too_large")]
    assert store(conn, event("x" * 60), policy) == Routed(duplicates=1), "a redelivery of what was stored"


def test_the_message_that_wires_a_chat_counts_once(conn):
    policy = replace(WIRE, sender_limit=2)
    found = [store(conn, event(platform_id="7", event_key=str(number)), policy).stored for number in range(3)]
    assert found == [1, 1, 0]


# -- errors of one wiring ----------------------------------------------------------------------------------------------


def test_a_wiring_with_an_invalid_pattern_does_not_stop_the_others(conn):
    chat = make_chat(conn)
    wire(conn, chat, "broken", engage_mode="pattern", engage_pattern=".", priority=9)
    wire(conn, chat)
    with transaction(conn):
        rows(conn, "UPDATE wirings SET engage_pattern = '(' WHERE agent = 'broken'")
    assert store(conn, event()) == Routed(stored=1, dropped="wiring_failed:broken")
    assert asked(conn) == ["assistant"]
    assert reasons(conn) == [("wiring_failed", "broken")]


def test_a_wiring_that_fails_leaves_no_row_and_does_not_stop_the_others(conn):
    chat = make_chat(conn)
    for agent, priority in (("first", 9), ("broken", 5), ("assistant", 0)):
        wire(conn, chat, agent, priority=priority)
    rows(
        conn,
        """
        CREATE TEMP TRIGGER breaks BEFORE INSERT ON messages WHEN NEW.agent = 'broken'
        BEGIN SELECT RAISE(ABORT, 'broken'); END
        """,
    )
    assert store(conn, event()) == Routed(stored=2, dropped="wiring_failed:broken")
    assert asked(conn) == ["first", "assistant"]
    assert column(conn, "SELECT count(*) FROM sessions WHERE agent = 'broken'") == [0]
    rows(conn, "DROP TRIGGER breaks")
    assert store(conn, event()) == Routed(stored=1, duplicates=2)
    assert asked(conn) == ["first", "assistant", "broken"]


# -- events that were held ---------------------------------------------------------------------------------------------


def test_a_held_event_is_stored_once_for_its_agent(conn):
    chat = make_chat(conn, policy="strict", is_group=True)
    wired = wire(conn, chat, engage_mode="mention-sticky", session_mode="per-thread")
    wire(conn, chat, "second")
    held = event("@assistant hi", **IN_THREAD)
    with transaction(conn):
        given = [router.route_held(conn, "telegram", held, "assistant", OPEN, now_ms=NOW) for _ in range(2)]
    assert given == [Routed(stored=1), Routed(duplicates=1)]
    assert rows(conn, "SELECT agent, message, thread_id FROM messages") == [("assistant", "hi", "7")]
    assert sticky_threads.has(conn, wired.id, "7")


@pytest.mark.parametrize("what", [event(platform_id="999"), event()], ids=["no such chat", "no longer wired"])
def test_a_held_event_is_not_stored_where_its_agent_is_no_longer_wired(conn, what):
    make_chat(conn)
    with transaction(conn):
        assert router.route_held(conn, "telegram", what, "assistant", OPEN, now_ms=NOW) == Routed()
    assert column(conn, "SELECT id FROM messages") == []


# -- people ------------------------------------------------------------------------------------------------------------


def test_a_known_senders_direct_chat_is_remembered(conn):
    user = become(conn, "member", channel="discord")
    chat = make_chat(conn, channel="discord")
    wire(conn, chat)
    wire(conn, make_chat(conn, "200", channel="discord", is_group=True))
    for what in (event(event_key="1"), event(event_key="2", platform_id="200", is_group=True)):
        store(conn, what, channel="discord")
    assert rows(conn, "SELECT user_id, chat_id FROM user_dms") == [(user.id, chat)]


# -- concurrent processes ----------------------------------------------------------------------------------------------


def store_hello(connection, key, new_chats):
    """How many messages the event with this key stored, and how many duplicates."""
    said = Event("message", key, platform_id="100", sender="Ana", sender_id="5" + key, text="hello", is_mention=True)
    with transaction(connection):
        routed = router.route(connection, "telegram", said, AccessPolicy(new_chats=new_chats), now_ms=NOW)
    return routed.stored, routed.duplicates


def at_once(db, keys, new_chats="refuse"):
    """One process for each event key, all at once; how many messages each stored, and how many duplicates."""
    return sorted(outcomes(db, store_hello, [(key, new_chats) for key in keys]))


def test_twenty_first_messages_at_once_create_one_chat_one_wiring_and_one_session(conn, db):
    found = at_once(db, list(map(str, range(20))), new_chats="wire")
    assert found == [(1, 0)] * 20
    counts = [
        column(conn, f"SELECT count(*) FROM {table}")[0] for table in ("chats", "wirings", "sessions", "messages")
    ]
    assert counts == [1, 1, 1, 20]
    assert column(conn, "SELECT count(*) FROM destinations") == [1]


def test_an_event_delivered_many_times_at_once_is_one_row_for_each_agent_and_serves_one_that_missed_it(conn, db):
    chat = make_chat(conn)
    wire(conn, chat)
    wire(conn, chat, "second")
    found = at_once(db, ["1"] * 12)
    assert found == [(0, 2)] * 11 + [(2, 0)]
    wire(conn, chat, "third")
    found = at_once(db, ["1"] * 8)
    assert found == [(0, 3)] * 7 + [(1, 2)]
    assert asked(conn) == ["assistant", "second", "third"]


def test_strangers_who_write_at_once_leave_one_card(conn, db):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    assert at_once(db, list(map(str, range(12)))) == [(0, 0)] * 12
    assert column(conn, "SELECT count(*) FROM held") == [12]
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '9'") == [1]


def test_a_session_keeps_its_continuation(conn):
    chat = make_chat(conn)
    with transaction(conn):
        made = [sessions.ensure(conn, "assistant", chat, None, now_ms=NOW) for _ in range(2)]
        sessions.touch(conn, made[0], continuation="c1", now_ms=NOW)
        sessions.touch(conn, made[0], continuation=None, now_ms=NOW + 1)
    assert made[0] == made[1]
    assert sessions.get(conn, made[0]).continuation == "c1"


# -- stop


def test_stop_ends_what_the_sender_asked_for_and_says_so_once(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one"))
    store(conn, event("two", event_key="2"))
    found = store(conn, event("/stop", event_key="3", command="stop"))
    assert (found.changed, found.said, found.stored) == (2, True, 0)
    assert column(conn, "SELECT status FROM messages") == ["cancelled", "cancelled"]
    assert said(conn) == ["Stopped. 2 messages that waited are left out."]
    assert store(conn, event("/stop", event_key="3", command="stop")) == Routed()
    assert reasons(conn) == [("command_done", "stop")]


def test_stop_of_a_person_who_has_nothing_there_says_so(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one", sender_id="6"))
    store(conn, event("/stop", event_key="2"))
    assert said(conn) == ["There is nothing of yours to stop here."]
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def test_stop_concerns_its_thread_alone(conn):
    wire(conn, make_chat(conn, is_group=True), session_mode="per-thread")
    store(conn, event("one", is_group=True, thread_id="1"))
    store(conn, event("two", event_key="2", is_group=True, thread_id="2"))
    store(conn, event("/stop", event_key="3", is_group=True, thread_id="2"))
    assert column(conn, "SELECT status FROM messages ORDER BY id") == ["pending", "cancelled"]


def test_a_refused_person_stops_nothing(conn):
    wire(conn, make_chat(conn))
    store(conn, event("one"))
    become(conn, "refused")
    assert store(conn, event("/stop", event_key="2")).dropped == "sender_refused"
    assert column(conn, "SELECT status FROM messages") == ["pending"]
