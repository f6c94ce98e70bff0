"""The owner of the world reads the cards in a direct chat and decides; others press what is not theirs to press."""

import asyncio
from collections.abc import Sequence

import apsw

from shared.conversation.access import people as roles
from shared.db.access import users
from shared.db.roster import chats
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.platforms.messages import Arrival, Place
from tests.simulation.platforms.telegram import Telegram

OWNER = Place("500", None, "500")
_OUTSIDER = Place("666", None, "666")
_LOOKS_S = 5.0
DECIDES_NOTHING = ("not_approver", "decided_already", "approval_failed", "question_closed")
"""Why a press is dropped that decides nothing. On Discord, a press that was withdrawn has closed its question."""


class Owner(WorldPart):
    """One owner, who gives more of each budget, and says yes or no to all else."""

    def __init__(self, world: Surroundings, platform: Telegram) -> None:
        self._world = world
        self._platform = platform
        self._seen = 0
        self.cards: list[Arrival] = []

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        user = users.ensure(conn, "telegram", OWNER.sender, name=f"P{OWNER.sender}", now_ms=now_ms)
        roles.grant(conn, user.id, "owner", None, by="the world", now_ms=now_ms)
        users.ensure(conn, "telegram", _OUTSIDER.sender, name=f"P{_OUTSIDER.sender}", now_ms=now_ms)
        chat = chats.ensure(conn, "telegram", OWNER.chat, is_group=False, sender_policy="public", now_ms=now_ms)
        roles.remember_direct_chat(conn, user.id, chat.id, now_ms)

    def lasting(self) -> Sequence[Work]:
        return [self._read()]

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """P10: an approval is decided by the owner alone, as one of its cards offered."""
        decided = query("SELECT approval_id, decided_by FROM approvals WHERE status IN ('approved', 'refused')")
        mine = f"telegram {OWNER.sender} (P{OWNER.sender})"
        offered = {data.partition(".")[0] for card in self.cards for data in card.buttons.values()}
        return [
            *(f"{id_} was decided by {by!r}" for id_, by in decided if by != mine),
            *(f"{id_} was decided, and no card showed it" for id_, _ in decided if id_ not in offered),
        ]

    async def _read(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS_S)
            arrived = self._platform.arrivals
            new, self._seen = arrived[self._seen :], len(arrived)
            for card in [each for each in new if each.chat == OWNER.chat and each.buttons]:
                self.cards.append(card)
                asyncio.create_task(self._decide(card))  # noqa: RUF006 - it ends with the world

    async def _decide(self, card: Arrival) -> None:
        """Give what is asked for, or say yes or no; now and then twice. An outsider may try before."""
        dice = self._world.dice(f"card {card.number}")
        yes, *others = card.buttons
        if dice.random() < 0.2:
            await self._press(_OUTSIDER, card, yes)
        await asyncio.sleep(dice.uniform(0, 40))
        words = [yes] if yes.startswith("Give ") else [yes, yes, others[-1]]  # what nobody gives waits for its month
        pressed = dice.choices(words, k=1 + (dice.random() < 0.2))
        await asyncio.gather(*(self._press(OWNER, card, each) for each in pressed))

    async def _press(self, by: Place, card: Arrival, word: str) -> None:
        self._world.tell(f"person {by.sender} presses {word!r} of {card.text[:60]!r}")
        await self._platform.bring(self._platform.press(by, card, word), self._world.dice(f"press {card.number}"))
