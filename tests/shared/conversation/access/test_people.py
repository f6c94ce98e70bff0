"""Standings, roles and memberships of people, and who approves."""

import itertools

import pytest

from shared.conversation.access import people, rules
from shared.conversation.access.rules import STRANGER, Standing
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.access import members, user_roles, users
from shared.db.engine.connection import rows, transaction
from tests.forks import race
from tests.shared.conversation.access.known_people import grant, person
from tests.support import NOW, column, dump, make_agent, plan


@pytest.fixture
def second(conn):
    return make_agent(conn, "second")


# The standing of a sender

STANDINGS = {
    "known, and nothing more": ([], {}),
    "an owner": ([("owner", None)], {"is_owner": True}),
    "an admin of everything": ([("admin", None)], {"is_admin": True}),
    "an admin of two agents": (
        [("admin", "assistant"), ("admin", "second")],
        {"admin_of": frozenset({"assistant", "second"})},
    ),
    "a member": ([("member", "second")], {"member_of": frozenset({"second"})}),
    "refused": ([("refused", "second")], {"refused_by": frozenset({"second"})}),
    "all at once": (
        [("owner", None), ("admin", None), ("admin", "second"), ("member", "assistant"), ("refused", "second")],
        {
            "is_owner": True,
            "is_admin": True,
            "admin_of": frozenset({"second"}),
            "member_of": frozenset({"assistant"}),
            "refused_by": frozenset({"second"}),
        },
    ),
}


@pytest.mark.parametrize(("given", "found"), STANDINGS.values(), ids=STANDINGS)
def test_the_standing_of_a_sender(conn, second, given, found):
    ana, other = person(conn), person(conn, "6")
    grant(conn, other, "owner")
    with transaction(conn):
        people.add_member(conn, other.id, "assistant", by="operator", now_ms=NOW)
        for what, agent in given:
            match what:
                case "member":
                    people.add_member(conn, ana.id, agent, by="operator", now_ms=NOW)
                case "refused":
                    members.put(conn, ana.id, agent, is_refused=True, by="operator", now_ms=NOW)
                case role:
                    people.grant(conn, ana.id, role, agent, by="operator", now_ms=NOW)
    assert people.standing(conn, "telegram", "5") == Standing(ana.id, **found)


@pytest.mark.parametrize(
    ("channel", "sender_id"), [("discord", "5"), ("telegram", "6"), ("telegram", None), ("telegram", "Ana")]
)
def test_a_strangers_name_gives_no_standing(conn, channel, sender_id):
    grant(conn, person(conn, name="Ana"))
    assert people.standing(conn, channel, sender_id) == STRANGER


def test_a_standing_is_read_by_indexes_alone(conn):
    lines = plan(conn, people.STANDING, channel="telegram", sender_id="5")
    searches = [line for line in lines if line.startswith(("SEARCH", "SCAN"))]
    assert len(searches) == 3
    assert all(line.startswith("SEARCH") for line in searches), lines


# Who is made what


def test_roles_are_granted_and_revoked(conn, second):
    ana = person(conn)
    assert grant(conn, ana, "admin", "second")
    assert not grant(conn, ana, "admin", "second", now_ms=NOW + 1)
    assert rows(conn, "SELECT user_id, role, agent, granted_by, created_at FROM user_roles") == [
        (ana.id, "admin", "second", "operator", NOW)
    ]
    with transaction(conn):
        assert not people.revoke(conn, ana.id, "admin", None)
        assert people.revoke(conn, ana.id, "admin", "second")
    assert people.standing(conn, "telegram", "5") == Standing(ana.id)


LEAVES = {
    "by losing the role": lambda conn, user, **how: people.revoke(conn, user.id, "owner", None, **how),
    "by being forgotten": lambda conn, user, **how: people.forget(conn, user.id, **how, now_ms=NOW),
}


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
def test_the_last_owner_is_removed_only_if_that_is_forced(conn, leave):
    ana, bob = person(conn), person(conn, "6", name="Bob")
    for user in (ana, bob):
        grant(conn, user)
        grant(conn, user, "admin")
    with transaction(conn):
        leave(conn, ana)
    before = dump(conn)
    with pytest.raises(WrongState, match=f"user {bob.id} is the last owner.* or add [?]force=true if"):
        leave(conn, bob)
    assert dump(conn) == before
    with transaction(conn):
        leave(conn, bob, may_be_last_owner=True)
    assert user_roles.owners(conn) == []


def test_another_user_can_be_removed_where_there_is_one_owner(conn):
    ana, bob = person(conn), person(conn, "6", name="Bob")
    grant(conn, ana)
    with transaction(conn):
        assert not people.revoke(conn, bob.id, "owner", None)
        people.forget(conn, bob.id, now_ms=NOW)
    assert user_roles.owners(conn) == [ana.id]


REVOKE = """
from shared.conversation.access import people, rules
from shared.core.errors import WrongState
with transaction(conn):
    try:
        print(people.revoke(conn, int(sys.argv[2]), "owner", None))
    except WrongState:
        print("last")
"""


def test_of_two_owners_who_are_revoked_at_once_one_stays(conn, db):
    owners = [person(conn), person(conn, "6", name="Bob")]
    for user in owners:
        grant(conn, user)
    assert sorted(race(db, REVOKE, [[user.id] for user in owners])) == ["True", "last"]
    assert len(user_roles.owners(conn)) == 1


def test_members_are_added_refused_and_removed(conn):
    ana = person(conn)
    with transaction(conn):
        assert people.add_member(conn, ana.id, "assistant", by="telegram 1", now_ms=NOW)
        assert not people.add_member(conn, ana.id, "assistant", by="x", now_ms=NOW + 1)
        assert people.refuse(conn, ana.id, "assistant", by="telegram 1", now_ms=NOW + 2)
        assert rows(conn, "SELECT user_id, agent, is_refused, added_by, created_at FROM members") == [
            (ana.id, "assistant", 1, "telegram 1", NOW + 2)
        ]
        assert people.remove(conn, ana.id, "assistant")
        assert not people.remove(conn, ana.id, "assistant")


ROLES = {
    "an owner": [("owner", None)],
    "an admin of everything": [("admin", None)],
    "an admin of assistant": [("admin", "assistant")],
    "an owner and an admin of assistant": [("admin", "assistant"), ("owner", None)],
}


@pytest.mark.parametrize(("words", "roles"), ROLES.items(), ids=ROLES)
def test_a_person_whose_role_lets_them_talk_to_the_agent_can_not_be_refused(conn, words, roles):
    ana = person(conn)
    for role, agent in roles:
        grant(conn, ana, role, agent)
    before = dump(conn)
    with pytest.raises(WrongState, match=f"^user {ana.id} is {words}, who may talk to agent assistant"):
        people.refuse(conn, ana.id, "assistant", by="x", now_ms=NOW)
    assert dump(conn) == before


def test_an_admin_of_another_agent_can_be_refused(conn, second):
    ana = person(conn)
    grant(conn, ana, "admin", "second")
    with transaction(conn):
        assert people.refuse(conn, ana.id, "assistant", by="x", now_ms=NOW)
    assert rules.admits("public", "all", people.standing(conn, "telegram", "5"), "assistant")[0] == "refuse"


@pytest.mark.parametrize(
    ("role", "agent", "refused_by"),
    [("owner", None, set()), ("admin", None, set()), ("admin", "second", {"assistant"})],
)
def test_a_role_ends_the_refusals_that_it_outranks(conn, second, role, agent, refused_by):
    """The agent answers from now on, so the row may not say the opposite, and revoking the role refuses nobody."""
    ana = person(conn)
    with transaction(conn):
        for each in ("assistant", "second"):
            people.refuse(conn, ana.id, each, by="x", now_ms=NOW)
    grant(conn, ana, role, agent)
    assert people.standing(conn, "telegram", "5").refused_by == refused_by


WHO = {"agent": "assistant", "by": "x", "now_ms": NOW}
WRONG = {
    "a role for an unknown user": (
        lambda c: people.grant(c, 99, "owner", None, by="x", now_ms=NOW),
        NotFound,
        "no user 99",
    ),
    "a role with no agent": (
        lambda c: people.grant(c, 1, "admin", "ghost", by="x", now_ms=NOW),
        NotFound,
        "no agent 'ghost'",
    ),
    "a role over a retired agent": (
        lambda c: people.grant(c, 1, "admin", "gone", by="x", now_ms=NOW),
        NotFound,
        "no agent 'gone'",
    ),
    "a role that is none": (
        lambda c: people.grant(c, 1, "king", None, by="x", now_ms=NOW),
        ConfigInvalid,
        "'king' is none of owner, admin",
    ),
    "an owner of one agent": (
        lambda c: people.grant(c, 1, "owner", "assistant", by="x", now_ms=NOW),
        ConfigInvalid,
        "make them an admin of that agent",
    ),
    "to revoke from an unknown user": (lambda c: people.revoke(c, 99, "owner", None), NotFound, "no user 99"),
    "to take what is none": (lambda c: people.revoke(c, 1, "king", None), ConfigInvalid, "none of owner, admin"),
    "an unknown user as a member": (lambda c: people.add_member(c, 99, **WHO), NotFound, "no user 99"),
    "a member of nothing": (
        lambda c: people.add_member(c, 1, **{**WHO, "agent": "ghost"}),
        NotFound,
        "no agent 'ghost'",
    ),
    "to refuse an unknown user": (lambda c: people.refuse(c, 99, **WHO), NotFound, "no user 99"),
    "to refuse for nothing": (lambda c: people.refuse(c, 1, **{**WHO, "agent": "gone"}), NotFound, "no agent 'gone'"),
    "to remove an unknown user": (lambda c: people.remove(c, 99, "assistant"), NotFound, "no user 99"),
}


@pytest.mark.parametrize(("act", "error", "said"), WRONG.values(), ids=WRONG)
def test_an_invalid_change_is_refused_with_a_sentence_and_nothing_is_written(conn, act, error, said):
    assert person(conn).id == 1
    make_agent(conn, "gone")
    rows(conn, "UPDATE agents SET retired_at = 1 WHERE id = 'gone'")
    before = dump(conn)
    with pytest.raises(error, match=said), transaction(conn):
        act(conn)
    assert dump(conn) == before


GRANT = """
from shared.conversation.access import people, rules
with transaction(conn):
    print(people.grant(conn, 1, "owner", None, by=sys.argv[2], now_ms=1))
"""


def test_of_eight_processes_at_once_one_grants_the_role(conn, db):
    person(conn)
    assert sorted(race(db, GRANT, [[number] for number in range(8)])) == ["False"] * 7 + ["True"]
    assert column(conn, "SELECT count(*) FROM user_roles") == [1]


# Who decides


@pytest.fixture
def crowd(conn, second):
    """One of each kind on two platforms, made in an order that no rule asks for."""
    roles = {"owner": ("owner", None), "global": ("admin", None), "scoped": ("admin", "assistant")}
    instants = itertools.count(NOW)
    for channel, (kind, role) in itertools.product(("discord", "telegram"), roles.items()):
        grant(conn, person(conn, kind, channel, kind), *role, now_ms=next(instants))
    grant(conn, person(conn, "other", "telegram", "other"), "admin", "second", now_ms=NOW - 9)
    with transaction(conn):
        member = users.ensure(conn, "telegram", "member", name="", now_ms=NOW)
        people.add_member(conn, member.id, "assistant", by="x", now_ms=NOW)


APPROVERS = {
    "for an agent its admins first": (
        ("assistant", "telegram"),
        ["t scoped", "t global", "t owner", "d scoped", "d global", "d owner"],
    ),
    "on the other platform those first": (
        ("assistant", "discord"),
        ["d scoped", "d global", "d owner", "t scoped", "t global", "t owner"],
    ),
    "for another agent only its own": (
        ("second", "telegram"),
        ["t other", "t global", "t owner", "d global", "d owner"],
    ),
    "for everything no admin of an agent": ((None, "telegram"), ["t global", "t owner", "d global", "d owner"]),
    "with no approver on the platform, the others by role and age": (
        (None, "whatsapp"),
        ["d global", "t global", "d owner", "t owner"],
    ),
}


@pytest.mark.parametrize(("asked", "found"), APPROVERS.values(), ids=APPROVERS)
def test_who_is_an_approver_and_in_which_order(conn, crowd, asked, found):
    agent, channel = asked
    who = people.approvers(conn, agent, channel=channel)
    assert [f"{user.channel[0]} {user.name}" for user in who] == found


def test_an_approver_with_several_roles_counts_once_by_the_nearest(conn):
    ana, bob = person(conn), person(conn, "6", name="Bob")
    grant(conn, ana, "admin", now_ms=NOW)
    grant(conn, bob, "owner", now_ms=NOW - 5)
    grant(conn, bob, "admin", "assistant", now_ms=NOW + 5)
    assert people.approvers(conn, "assistant", channel="telegram") == [bob, ana]
    assert people.approvers(conn, None, channel="telegram") == [ana, bob]


def test_of_equal_approvers_the_first_to_get_the_role_comes_first(conn):
    ana, bob = person(conn), person(conn, "6", name="Bob")
    grant(conn, ana, now_ms=NOW + 1)
    grant(conn, bob, now_ms=NOW)
    assert people.approvers(conn, "assistant", channel="telegram") == [bob, ana]


def test_without_roles_there_is_no_approver(conn):
    person(conn)
    assert people.approvers(conn, "assistant", channel="telegram") == []
