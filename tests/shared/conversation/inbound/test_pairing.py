import re

import pytest

from shared.conversation.access import people
from shared.conversation.inbound import pairing
from shared.core.errors import ConfigInvalid, NotFound
from shared.core.settings import Settings
from shared.db.access import approvals, user_dms, users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, wirings
from tests.approval_requests import POLICY, ask_chat, ask_sender, event, person
from tests.forks import race
from tests.support import NOW, column, dump, make_agent, make_chat, row, wire

LIFE = 900_000
MINUTE = 60_000
NOT_VALID = "That code is not valid, or no longer valid. Ask the operator of this bot for a new one."


def make(conn, grants="owner", agent=None, now_ms=NOW):
    with transaction(conn):
        return pairing.make(conn, grants, agent, life_ms=LIFE, now_ms=now_ms)


def send(conn, code, key="s1", sender="5", chat=None, now_ms=NOW, channel="telegram", **fields):
    """What came of ``/start CODE``."""
    said = event(key, sender, chat or sender or "5", **{"text": f"/start {code}", **fields})
    with transaction(conn):
        return pairing.claim(conn, channel, said, code, policy=POLICY, now_ms=now_ms)


def standing(conn, sender="5", channel="telegram"):
    return people.standing(conn, channel, sender)


def said(conn):
    return rows(conn, "SELECT platform_id, message FROM responses ORDER BY id")


def reasons(conn):
    return column(conn, "SELECT reason FROM dropped ORDER BY id")


# -- codes


def test_a_code_has_eight_unambiguous_characters_and_no_two_codes_are_alike(conn):
    codes = {make(conn).code for _ in range(50)}
    assert len(codes) == 50
    assert all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}", code) for code in codes)
    assert make(conn).say.startswith("/start ")


def test_the_code_is_stored_nowhere(conn):
    code = make(conn).code
    send(conn, code)
    everything = str(dump(conn)).upper()
    assert code not in everything
    assert code.replace("-", "") not in everything


REFUSED = {
    "an unknown right": ("king", None, ConfigInvalid, "can't grant 'king'; it grants owner, admin, member, chat"),
    "an owner of one agent": ("owner", "assistant", ConfigInvalid, "name no agent"),
    "a member of nothing": ("member", None, ConfigInvalid, "needs an agent"),
    "a chat without an agent": ("chat", None, ConfigInvalid, "needs an agent"),
    "an agent that is not there": ("admin", "nobody", NotFound, "agent 'nobody' not found"),
}


@pytest.mark.parametrize(("grants", "agent", "error", "says"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_grant_gets_no_code(conn, grants, agent, error, says):
    with pytest.raises(error, match=says):
        make(conn, grants, agent)
    assert column(conn, "SELECT count(*) FROM pairings") == [0]


CODES = {
    "a Telegram command": ({"kind": "command", "command": "start", "command_args": "AB", "text": "/start AB"}, "AB"),
    "in capitals": ({"kind": "command", "command": "START", "command_args": "AB", "text": "/START AB"}, "AB"),
    "text": ({"text": "/start ABCD-EFGH"}, "ABCD-EFGH"),
    "text to a bot by name": ({"text": "/start@bot ABCD EFGH"}, "ABCD EFGH"),
    "typed badly": ({"text": "/start abc"}, "abc"),
    "the button of a new chat": ({"kind": "command", "command": "start", "command_args": "", "text": "/start"}, None),
    "another command": ({"text": "/started ABCD-EFGH"}, None),
    "in the middle": ({"text": "say /start ABCD-EFGH"}, None),
    "nothing": ({"text": ""}, None),
    "a press": ({"kind": "callback", "text": "/start ABCD"}, None),
}


@pytest.mark.parametrize(("fields", "code"), CODES.values(), ids=CODES)
def test_a_code_is_what_follows_start(fields, code):
    assert pairing.code_in(event(**fields)) == code


# -- what they give


def test_the_first_owner_is_paired_and_talks_to_the_default_agent_at_once(conn):
    claimed = send(conn, make(conn).code)
    assert claimed.is_paired
    assert standing(conn).is_owner
    chat = chats.find(conn, "telegram", "5")
    assert [wired.agent for wired in wirings.of_chat(conn, chat.id)] == ["assistant"]
    assert user_dms.get(conn, users.find(conn, "telegram", "5").id) == chat.id
    assert said(conn) == [
        ("5", "You are an owner now, and will be asked here about new people and chats. Assistant answers here.")
    ]
    assert (column(conn, "SELECT count(*) FROM messages"), reasons(conn)) == ([0], ["pairing_done"])


RIGHTS = {
    "admin of everything": ("admin", None, {"is_admin": True}, "assistant"),
    "admin of one": ("admin", "second", {"admin_of": {"second"}}, "second"),
    "member": ("member", "second", {"member_of": {"second"}}, "second"),
}


@pytest.mark.parametrize(("grants", "agent", "has", "answers"), RIGHTS.values(), ids=RIGHTS)
def test_a_code_grants_exactly_what_it_was_created_for(conn, grants, agent, has, answers):
    make_agent(conn, "second")
    send(conn, make(conn, grants, agent).code)
    now = standing(conn)
    nothing = {"is_owner": False, "is_admin": False, "admin_of": frozenset(), "member_of": frozenset()}
    assert {name: getattr(now, name) for name in nothing} == nothing | has
    assert column(conn, "SELECT agent FROM wirings") == [answers]


def test_a_direct_chat_that_has_an_agent_keeps_it(conn):
    make_agent(conn, "second")
    wire(conn, make_chat(conn, "5"), "second")
    send(conn, make(conn).code)
    assert column(conn, "SELECT agent FROM wirings") == ["second"]


@pytest.mark.parametrize("is_group", [False, True])
def test_a_chat_is_wired_by_a_code_that_is_sent_in_it_and_its_people_are_asked_about(conn, is_group):
    make_agent(conn, "second")
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "-7", is_group=is_group, now_ms=NOW)
        chats.update(conn, chat.id, refused_at=1, status="inactive", now_ms=NOW)
    claimed = send(conn, make(conn, "chat", "second").code, chat="-7", is_group=is_group, thread_id="3")
    assert claimed.sentence == "This chat is connected. Second answers here."
    chat = chats.find(conn, "telegram", "-7")
    assert (chat.sender_policy, chat.refused_at, chat.status) == ("request_approval", None, "active")
    (wired,) = wirings.of_chat(conn, chat.id)
    assert (wired.agent, wired.engage_mode) == ("second", "mention-sticky" if is_group else "mention")
    assert standing(conn).member_of == {"second"}


def test_a_chat_that_gets_a_second_agent_says_that_both_answer(conn):
    make_agent(conn, "second")
    wire(conn, make_chat(conn, "-7", is_group=True))
    claimed = send(conn, make(conn, "chat", "second").code, chat="-7", is_group=True)
    assert claimed.sentence == "This chat is connected. Second answers here beside Assistant."


@pytest.mark.parametrize(("grants", "agent"), [("owner", None), ("admin", None), ("member", "assistant")])
def test_a_code_for_one_person_does_nothing_in_a_group_and_stays_valid(conn, grants, agent):
    code = make(conn, grants, agent).code
    refused = send(conn, code, chat="-7", is_group=True)
    assert (refused.is_paired, refused.dropped) == (False, "pairing_failed")
    assert said(conn) == [("-7", "That code is for one person. Send it to me in a direct chat, not in a group.")]
    assert standing(conn).user_id is None
    assert send(conn, code, "s2").is_paired


def test_the_same_id_on_another_platform_is_not_paired_too(conn):
    send(conn, make(conn).code)
    assert not standing(conn, channel="discord").is_owner


@pytest.mark.parametrize("typed", [str.lower, lambda code: code.replace("-", ""), lambda code: f" {code} "])
def test_a_code_works_in_any_case_and_with_or_without_its_hyphen(conn, typed):
    assert send(conn, typed(make(conn).code)).is_paired


def test_misread_letters_stand_for_what_they_look_like():
    assert pairing._hash("oOiIlL00-11") == pairing._hash("0011 11 00 11".replace(" ", ""))


def test_held_messages_are_stored_when_their_sender_is_paired(conn):
    person(conn, "1", "owner")
    wire(conn, make_chat(conn))
    approval = ask_sender(conn, event()).approval
    assert send(conn, make(conn, "member", "assistant").code).stored == 1
    assert column(conn, "SELECT message FROM messages") == ["text of 1"]
    decided = approvals.get(conn, approval.approval_id)
    assert decided.status == "approved"
    assert decided.decided_by.startswith("pairing pairing_")


def test_pending_approvals_are_shown_to_the_first_owner(conn):
    wire(conn, make_chat(conn, is_group=True))
    ask_sender(conn, event(sender="6"))
    send(conn, make(conn).code)
    assert column(conn, "SELECT platform_id FROM responses WHERE content LIKE '%buttons%'") == ["5"]


def test_a_new_chat_can_be_asked_about_as_soon_as_there_is_an_owner(conn):
    assert ask_chat(conn, event(chat="-7")).outcome == "nobody_to_ask"
    send(conn, make(conn).code)
    assert ask_chat(conn, event(chat="-7")).said


# -- once, and not for long


def test_wrong_used_and_expired_codes_get_one_answer_and_one_reason(conn):
    used, old = make(conn).code, make(conn).code
    send(conn, used)
    heard = [
        send(conn, "0000-0000", "w1", "61"),
        send(conn, used, "w2", "62"),
        send(conn, old, "w3", "63", now_ms=NOW + LIFE),
        send(conn, "no code", "w4", "64"),
        send(conn, "", "w5", "65"),
        send(conn, "ünï" * 999, "w6", "66"),
    ]
    assert {each[:3] for each in heard} == {(False, NOT_VALID, "pairing_failed")}
    assert reasons(conn) == ["pairing_done"] + ["pairing_failed"] * 6
    assert rows(conn, "SELECT DISTINCT detail FROM dropped") == [("",)]
    assert [message for _, message in said(conn)[1:]] == [NOT_VALID] * 6
    assert column(conn, "SELECT sender_id FROM users") == ["5"]


def test_a_code_works_until_the_last_instant(conn):
    assert send(conn, make(conn).code, now_ms=NOW + LIFE - 1).is_paired


def test_a_redelivered_code_pairs_no_second_time_and_is_not_wrong(conn):
    code = make(conn).code
    send(conn, code)
    assert (send(conn, code).dropped, len(said(conn))) == ("pairing_used", 1)
    again = send(conn, code, "s2")
    assert (again.dropped, again.sentence) == ("pairing_used", "You have used that code: what it gives is yours.")
    assert send(conn, code, "s2").sentence is None
    assert column(conn, "SELECT count(*) FROM user_roles") == [1]


def test_a_wrong_code_that_is_delivered_again_is_answered_once(conn):
    assert [send(conn, "0000-0000").sentence for _ in range(2)] == [NOT_VALID, None]
    assert len(said(conn)) == 1


def test_after_five_tries_the_sender_waits_and_is_told_once_even_if_the_code_is_right(conn):
    code = make(conn).code
    tries = [send(conn, "0000-0000", f"t{number}") for number in range(5)]
    assert {each.dropped for each in tries} == {"pairing_failed"}
    refused = [send(conn, code, f"r{number}") for number in range(3)]
    assert {each.dropped for each in refused} == {"pairing_limited"}
    assert [each.sentence for each in refused] == [
        "Those were too many codes. Please try again in 3 minutes.",
        None,
        None,
    ]
    assert send(conn, code, "other", "6").is_paired, "another sender is not held up"
    assert send(conn, make(conn).code, "later", now_ms=NOW + 3 * MINUTE).is_paired


def test_a_sender_who_connects_many_chats_is_not_limited_as_a_guesser(conn):
    codes = [make(conn, "chat", "assistant").code for _ in range(8)]
    assert all(send(conn, code, f"k{n}", chat=f"-{n}", is_group=True).is_paired for n, code in enumerate(codes))


def test_strangers_with_wrong_codes_keep_no_right_one_out(conn):
    outcomes = [send(conn, "0000-0000", f"t{number}", str(1000 + number // 5)) for number in range(300)]
    assert {each.dropped for each in outcomes} == {"pairing_failed"}
    assert send(conn, make(conn).code).is_paired


def test_a_hundred_wrong_codes_an_hour_are_answered_and_the_rest_leave_only_their_reason(conn):
    heard = [send(conn, "0000-0000", f"t{number}", str(1000 + number)) for number in range(103)]
    assert [each.sentence for each in heard] == [NOT_VALID] * 100 + [None] * 3
    assert (len(said(conn)), column(conn, "SELECT count(*) FROM chats")) == (100, [100])
    assert reasons(conn) == ["pairing_failed"] * 103
    assert send(conn, "0000-0000", "d1", channel="discord").sentence == NOT_VALID
    assert send(conn, "0000-0000", "late", now_ms=NOW + MINUTE).sentence == NOT_VALID


def test_an_answer_that_says_to_wait_is_one_of_the_hundred(conn):
    heard = [send(conn, "0000-0000", f"t{number}", str(1000 + number // 6)) for number in range(6 * 25)]
    assert {each.dropped for each in heard[5::6]} == {"pairing_limited"}
    told = [each.sentence for each in heard if each.sentence]
    assert (len(told), len(said(conn)), column(conn, "SELECT count(*) FROM chats")) == (100, 100, [17])
    assert send(conn, make(conn).code).is_paired


def test_a_redelivered_wrong_code_uses_up_no_answer(conn):
    for _ in range(4):
        send(conn, "0000-0000", "again")
    heard = [send(conn, "0000-0000", f"t{number}", str(1000 + number)) for number in range(100)]
    assert [each.sentence for each in heard] == [NOT_VALID] * 99 + [None]


def test_a_thousand_tries_a_second_guess_one_code_in_a_million():
    tries = 1000 * Settings().pairing_life_ms // 1000
    assert len(set(pairing.ALPHABET)) ** pairing.SIZE > 1_000_000 * tries


@pytest.mark.parametrize("missing", [{"sender_id": None}, {"platform_id": None}])
def test_a_code_without_a_sender_or_a_chat_pairs_nothing(conn, missing):
    code = make(conn).code
    assert send(conn, code, **missing).dropped == "pairing_failed"
    assert (said(conn), standing(conn).is_owner) == ([], False)


def test_the_answer_to_a_discord_command_carries_its_context(conn):
    send(conn, make(conn).code, channel="discord", context={"sealed_token": "t"})
    assert column(conn, "SELECT content ->> '$.context.sealed_token' FROM responses") == ["t"]


CLAIM = """
from shared.conversation.inbound import pairing
from tests.approval_requests import POLICY, event
from tests.support import NOW
code, sender = sys.argv[2:]
said = event(f"s{sender}", sender, sender, text="/start " + code)
with transaction(conn):
    print(pairing.claim(conn, "telegram", said, code, policy=POLICY, now_ms=NOW).is_paired)
"""


def test_of_several_senders_at_once_one_is_paired(conn, db):
    code = make(conn).code
    assert sorted(race(db, CLAIM, [(code, sender) for sender in "5678"])) == ["False"] * 3 + ["True"]
    assert column(conn, "SELECT count(*) FROM user_roles") == [1]
    assert row(conn, "pairings")["status"] == "used"
