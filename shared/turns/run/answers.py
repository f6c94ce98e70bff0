"""What an agent says in a turn, on its way to people: the same for all providers.

::

    text ── thinking ──> without what the agent said to itself
         ── answer_tags ──> the rest, and what goes elsewhere
         ── prompt.unwrapped ──> without what our prompt wraps around messages
         ── answer_files ──> with its files, or a sentence about them
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from shared.agents import answer_tags, prompt, thinking
from shared.agents.answer_tags import HandOff, SendFile
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.queue.turns import TurnReply
from shared.turns.run.files import answer_files
from shared.turns.tools.outbox_files import FOR_ANY, FilePlace, FileTaker

_LONG = 20_000  # characters; a text of tags and code takes 0.5 ms for each thousand


class _Reply(NamedTuple):
    reply: TurnReply
    files: tuple[str, ...]


class TurnAnswers:
    """The answers of a turn, in order.

    Args:
        told: more texts that the agent may only repeat; it may grow while the turn runs.

    Attributes:
        chose_silence: the agent marked all that it said as internal: it means to say nothing.
    """

    def __init__(self, claim: Claim, told: Sequence[str] = ()) -> None:
        self.chose_silence = False
        self._replies: list[_Reply] = []
        self._open: str | None = None
        self._first = claim.asked[0]
        self._asked = {message.message_id: message for message in claim.asked}
        self._ids = {message.message_id for message in claim.batch}
        self._told = told
        self._heard = [text for message in claim.batch for text in _texts(message)]

    @property
    def is_empty(self) -> bool:
        """Nothing goes anywhere."""
        return not self._replies

    async def hear(self, text: str, answers: str | None = None) -> None:
        """As ``add``; the event loop goes on while a long text is read."""
        if len(text) > _LONG:
            await asyncio.to_thread(self.add, text, answers)
        else:
            self.add(text, answers)

    def add(self, text: str, answers: str | None = None) -> None:
        """Add a text about the message with the id *answers*, or about the first one; a blank one is left out."""
        spoken = thinking.without(text, self._open)
        self._open = spoken.open
        self.chose_silence = self.chose_silence or (spoken.was_internal and spoken.open is None)
        quiet = prompt.repeated_elements(spoken.text, self._ids)
        read = answer_tags.read(spoken.text, [*self._heard, *self._told], quiet)
        kept = prompt.unwrapped(read.text, self._ids)
        tags = tuple(self._unwrapped(tag) for tag in read.tags if not isinstance(tag, SendFile))
        files = tuple(tag.path for tag in read.tags if isinstance(tag, SendFile))
        if kept.strip() or tags or files:
            said = spoken.text if tags or files else None
            asked = self._asked.get(answers or "", self._first)
            self._replies.append(_Reply(TurnReply(kept, asked, tags, said), files))

    @property
    def count(self) -> int:
        """How many answers there are."""
        return len(self._replies)

    def so_far(self) -> str:
        """What people would read if the turn ended now. It joins all texts, so don't call it for each one."""
        return "\n\n".join(filter(str.strip, (each.reply.text for each in self._replies)))

    def append_note(self, note: str) -> None:
        """Add a sentence of ours to the first answer; nothing where there is none."""
        if self._replies:
            first = self._replies[0]
            said = first.reply.text if first.reply.said is None else first.reply.said
            text = "\n\n".join(filter(str.strip, [first.reply.text, note]))
            self._replies[0] = first._replace(reply=replace(first.reply, text=text, said=said))

    def _unwrapped(self, tag: HandOff) -> HandOff:
        text = prompt.unwrapped(tag.text, self._ids)
        return tag._replace(text=text)

    async def replies(self, place: FilePlace, taker_of: Callable[[Message], FileTaker]) -> Sequence[TurnReply]:
        """The replies, with their files.

        Args:
            place: of the session's files.
            taker_of: what the receiver of the answers to a message can be given.
        """
        done: list[TurnReply] = []
        for each in self._replies:
            reply = each.reply
            if any(tag.files for tag in reply.tags):
                reply = await asyncio.to_thread(_with_handed, reply, place)
            taker = taker_of(reply.asked) if self._may_need_files(each) else FileTaker()
            if each.files or taker.is_fetched:
                made = await asyncio.to_thread(answer_files.attach, reply.text, each.files, place, taker)
                said = reply.text if reply.said is None else reply.said
                problems = (*reply.problems, *made.problems)
                reply = replace(reply, text=made.text, files=made.files, said=said, problems=problems)
            done.append(reply)
        return done

    @staticmethod
    def _may_need_files(each: _Reply) -> bool:
        return bool(each.files) or len(each.reply.text) > answer_files.LONGEST_TEXT


def _with_handed(reply: TurnReply, place: FilePlace) -> TurnReply:
    """The reply with copies of the files that its tags name. Reads and writes files: not for the loop."""
    names = list(dict.fromkeys(name for tag in reply.tags for name in tag.files))
    copied = answer_files.copy_all(names, place, FOR_ANY)
    text = "\n\n".join(filter(str.strip, [reply.text, *copied.notes]))
    said = reply.text if reply.said is None else reply.said
    return replace(reply, text=text, said=said, handed=copied.files, problems=copied.notes)


def _texts(message: Message) -> tuple[str, ...]:
    quoted = message.content.get("reply_to")
    return (message.message, quoted["text"]) if quoted else (message.message,)
