import pytest

from shared.conversation.access.rules import STRANGER, Standing, admits

OWNER = Standing(1, is_owner=True)
ADMIN = Standing(1, is_admin=True)
SCOPED = Standing(1, admin_of=frozenset({"a"}))
MEMBER = Standing(1, member_of=frozenset({"a"}))
OF_ANOTHER = Standing(1, admin_of=frozenset({"b"}), member_of=frozenset({"b"}))
REFUSED = Standing(1, refused_by=frozenset({"a"}))
REFUSED_BY_ANOTHER = Standing(1, refused_by=frozenset({"b"}))
USER = Standing(1)

YES = ("allow", "")
UNKNOWN, ASKED = ("refuse", "sender_unknown"), ("ask", "sender_unknown")
NOT_KNOWN, NEVER = ("refuse", "not_known"), ("refuse", "sender_refused")

# Somebody: what they get in a public chat, in one that asks, and in a strict one; then the same where the wiring wants
# to know whom it talks to.
ADMITS = {
    "an owner": (OWNER, (YES, YES, YES), (YES, YES, YES)),
    "an admin of everything": (ADMIN, (YES, YES, YES), (YES, YES, YES)),
    "an admin of this agent": (SCOPED, (YES, YES, YES), (YES, YES, YES)),
    "a member": (MEMBER, (YES, YES, YES), (YES, YES, YES)),
    "a member of another agent": (OF_ANOTHER, (YES, ASKED, UNKNOWN), (NOT_KNOWN, ASKED, UNKNOWN)),
    "a user without a role": (USER, (YES, ASKED, UNKNOWN), (NOT_KNOWN, ASKED, UNKNOWN)),
    "a stranger": (STRANGER, (YES, ASKED, UNKNOWN), (NOT_KNOWN, ASKED, UNKNOWN)),
    "a refused user": (REFUSED, (NEVER, NEVER, NEVER), (NEVER, NEVER, NEVER)),
    "refused by another agent": (REFUSED_BY_ANOTHER, (YES, ASKED, UNKNOWN), (NOT_KNOWN, ASKED, UNKNOWN)),
}
POLICIES = ("public", "request_approval", "strict")


@pytest.mark.parametrize(("standing", "to_all", "to_known"), ADMITS.values(), ids=ADMITS)
def test_who_is_admitted(standing, to_all, to_known):
    assert tuple(admits(policy, "all", standing, "a") for policy in POLICIES) == to_all
    assert tuple(admits(policy, "known", standing, "a") for policy in POLICIES) == to_known


@pytest.mark.parametrize("role", [{"is_owner": True}, {"is_admin": True}, {"admin_of": frozenset({"a"})}], ids=str)
def test_a_role_outweighs_an_earlier_refusal(role):
    assert admits("strict", "known", Standing(1, refused_by=frozenset({"a"}), **role), "a") == YES


def test_no_approver_is_asked_about_a_sender_without_an_identity():
    assert [admits(policy, "all", STRANGER, "a", has_id=False) for policy in POLICIES] == [YES, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("policy", ["", "Public", "everybody"])
def test_an_unknown_policy_admits_no_stranger(policy):
    assert admits(policy, "all", STRANGER, "a") == UNKNOWN


ADMINISTERS = {
    "an owner": (OWNER, True),
    "an admin of everything": (ADMIN, True),
    "an admin of this agent": (SCOPED, True),
    "a member": (MEMBER, False),
    "an admin of another": (OF_ANOTHER, False),
    "a stranger": (STRANGER, False),
}


@pytest.mark.parametrize(("standing", "expected"), ADMINISTERS.values(), ids=ADMINISTERS)
def test_who_administers_an_agent(standing, expected):
    assert standing.administers("a") is expected
