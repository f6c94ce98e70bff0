"""Who may talk to an agent: what somebody is here, how the chat treats strangers, and the decision between them.

::

    owner ─> admin of everything ─> admin of this agent ─> member of it     known: may always
    refused by the agent                                                    may nowhere
    anybody else        public: may       request_approval: is asked for       strict: may not
                        (not where the wiring wants to know whom it talks to)
"""

from dataclasses import dataclass
from typing import Literal

Admission = Literal["allow", "ask", "refuse"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What somebody is, by ``(channel, sender_id)`` and nothing else.

    Attributes:
        user_id: ``users.id``; None where nobody of that identity is known.
        is_admin: of everything; ``admin_of`` names the agents of those who are admins of some.
        refused_by: the agents that somebody with a say does not want them to talk to.
    """

    user_id: int | None = None
    is_owner: bool = False
    is_admin: bool = False
    admin_of: frozenset[str] = frozenset()
    member_of: frozenset[str] = frozenset()
    refused_by: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether somebody with a say has let them talk to any agent."""
        return self.is_owner or self.is_admin or bool(self.admin_of or self.member_of)

    def administers(self, agent: str) -> bool:
        """Whether they may do with *agent* what only an admin may."""
        return self.is_owner or self.is_admin or agent in self.admin_of

    def knows(self, agent: str) -> bool:
        """Whether somebody let them talk to *agent*."""
        return self.administers(agent) or agent in self.member_of


STRANGER = Standing()


def admits(policy: str, scope: str, standing: Standing, agent: str, *, has_id: bool = True) -> tuple[Admission, str]:
    """Whether somebody may talk to *agent* in a chat with this *policy*, by a wiring with this *scope*.

    Args:
        has_id: whether the platform said who it is; nobody can be asked about somebody without an identity.

    Returns:
        The verdict, and the reason where it is not ``allow``.
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
