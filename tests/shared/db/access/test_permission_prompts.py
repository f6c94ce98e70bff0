"""A yes is taken once, or lost once, and never both."""

import json

import pytest

from shared.db.access import approvals, permission_prompts
from shared.db.access.approvals import NewApproval
from shared.db.engine.connection import transaction
from tests.support import NOW, row


@pytest.fixture
def allowed(conn):
    with transaction(conn):
        made, _ = approvals.request(
            conn, NewApproval("tool", {"tool": "x", "turn": "t"}), expires_at=NOW + 9, now_ms=NOW
        )
        approvals.decide(conn, made.approval_id, choice=0, decided_by="Bo", now_ms=NOW)
    return made.approval_id


def unsettled(conn):
    return permission_prompts.unsettled(conn, since_ms=NOW)


def test_a_yes_is_taken_once_and_is_lost_no_more(conn, allowed):
    assert unsettled(conn) == [allowed]
    assert permission_prompts.take(conn, allowed, now_ms=NOW + 1)
    assert not permission_prompts.take(conn, allowed, now_ms=NOW + 2)
    assert not permission_prompts.lose(conn, allowed, now_ms=NOW + 2)
    assert json.loads(row(conn, "approvals")["payload"])["used_at"] == NOW + 1
    assert unsettled(conn) == []


def test_a_yes_that_is_lost_is_taken_no_more(conn, allowed):
    assert permission_prompts.lose(conn, allowed, now_ms=NOW + 1)
    assert not permission_prompts.lose(conn, allowed, now_ms=NOW + 2)
    assert not permission_prompts.take(conn, allowed, now_ms=NOW + 2)
    assert unsettled(conn) == []


def test_what_nobody_allowed_can_not_be_taken(conn):
    with transaction(conn):
        made, _ = approvals.request(conn, NewApproval("tool", {"tool": "x"}), expires_at=NOW + 9, now_ms=NOW)
        other, _ = approvals.request(conn, NewApproval("action", {"action": "x"}), expires_at=NOW + 9, now_ms=NOW)
        approvals.decide(conn, other.approval_id, choice=0, decided_by="Bo", now_ms=NOW)
    assert not permission_prompts.take(conn, made.approval_id, now_ms=NOW)
    assert not permission_prompts.take(conn, other.approval_id, now_ms=NOW)
    assert unsettled(conn) == [made.approval_id]


def test_of_an_old_yes_nobody_is_told(conn, allowed):
    assert permission_prompts.unsettled(conn, since_ms=NOW + 1) == []
