import pytest

from shared.conversation.routing.unwired import reason_not_to_wire
from shared.db.roster.chats import Chat
from tests.shared.conversation.routing.router.kit import ASK, OPEN, WIRE, event

CHAT = Chat(1, "telegram", "100", True, "active", "public", None, None, None, 0)
ASIDE = event(is_group=True, is_mention=False)


@pytest.mark.parametrize(
    ("what", "chat", "policy", "reason"),
    [
        (event(), None, WIRE, None),
        (event(), CHAT, ASK, None),
        (event(is_mention=False), CHAT, WIRE, None),
        (event(), CHAT, OPEN, "not_wired"),
        (ASIDE, CHAT, WIRE, "not_wired"),
        (event(), CHAT._replace(refused_at=1), WIRE, "chat_refused"),
    ],
)
def test_why_no_agent_is_wired(what, chat, policy, reason):
    assert reason_not_to_wire(what, chat, policy) == reason
