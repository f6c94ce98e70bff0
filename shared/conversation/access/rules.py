"""Who may talk to an agent: decided by the sender's standing, and by how the chat treats strangers.

::

    owner ─> admin of everything ─> admin of this agent ─> member of it     always allowed
    refused by the agent                                                    refused everywhere
    anybody else        public: allowed      request_approval: an approver is asked      strict: refused
                        (public: refused where the wiring's sender_scope is ``known``)
"""

from typing import Literal

import msgspec

Admission = Literal["allow", "ask", "refuse"]


class Standing(msgspec.Struct, frozen=True):
    """The roles and memberships of a sender, by ``(channel, sender_id)`` and nothing else.

    Attributes:
        user_id: ``users.id``; None for an unknown sender.
        is_admin: an admin of everything; ``admin_of`` names single agents.
        refused_by: the agents for which an approver refused them.
    """

    user_id: int | None = None
    is_owner: bool = False
    is_admin: bool = False
    admin_of: frozenset[str] = frozenset()
    member_of: frozenset[str] = frozenset()
    refused_by: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether they may talk to any agent by a role or a membership."""
        return self.is_owner or self.is_admin or bool(self.admin_of or self.member_of)

    def administers(self, agent: str) -> bool:
        """Whether they have an admin's rights over *agent*."""
        return self.is_owner or self.is_admin or agent in self.admin_of

    def knows(self, agent: str) -> bool:
        """Whether they may talk to *agent* by a role or a membership."""
        return self.administers(agent) or agent in self.member_of


STRANGER = Standing()


def admits(policy: str, scope: str, standing: Standing, agent: str, *, has_id: bool = True) -> tuple[Admission, str]:
    """Whether the sender may talk to *agent* in a chat with this *policy*, by a wiring with this *scope*. Pure.

    Args:
        has_id: whether the platform names the sender; an approver can't be asked about a sender without an identity.

    Returns:
        The admission, and the reason where it is not ``allow``.
    """
    if standing.knows(agent):
        return "allow", ""
    if agent in standing.refused_by:
        return "refuse", "sender_refused"
    if policy == "public":
        return ("allow", "") if scope == "all" else ("refuse", "not_known")
    if policy == "request_approval" and has_id:
        return "ask", "sender_unknown"
    return "refuse", "sender_unknown"
