"""Notices a channel that receives nothing, and tells an owner once; and once more when it receives again.

A platform sends events to one address for each bot. It may have been taken away, or be another Postroom's, and then
nothing here fails: it is only quiet. Postroom says so, and never takes the address back by itself.
"""

import shlex
from typing import NamedTuple

import apsw

from shared.channels.base import Registration
from shared.conversation.access import cards, people
from shared.core.accounts import is_further, platform_of
from shared.db.access import user_roles, users
from shared.db.alerts import alert_routes, alerts
from shared.db.alerts.alert_routes import STUCK, WEBHOOK, AlertRoute
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.platforms.channel_watches import ChannelWatch, DeafCode
from shared.db.queue import events
from shared.db.roster import chats

LOOK_EVERY_MS = 4 * 60_000  # sweep comes once a minute: at most five minutes lie between two looks
_ON_ITS_WAY_MS = 10_000  # longer than an event takes from the platform to us


class Deafness(NamedTuple):
    """Why the platform sends us nothing. *reason*: a clause for people, without secrets.

    *mend*: what an operator does about it; None: connects the channel again.
    """

    code: DeafCode
    reason: str
    mend: str | None = None


def is_due(last: ChannelWatch | None, *, now_ms: int) -> bool:
    """Whether it is time for a look. Where events wait at the platform, the next sweep looks again. Pure."""
    if last is None or last.backlog or last.looked_at > now_ms:
        return True
    return now_ms - last.looked_at >= LOOK_EVERY_MS


def judge(
    found: Registration, last: ChannelWatch | None, *, known_url: str | None, last_event_at: int | None
) -> Deafness | None:
    """Why nothing comes in, by these facts alone; None: nothing speaks for it. Pure.

    Args:
        last: the look before this one.
        known_url: the address under which events came in; None: it is not known.
        last_event_at: when our newest event came in, in ms UTC; None: none did.
    """
    if found.url is None:
        return Deafness("not_registered", "no address is registered at the platform, so it sends events nowhere")
    if found.is_ours is False and found.last_error is not None and found.last_error_at_ms is None:
        return Deafness("failing", found.last_error, found.mend)
    if found.is_ours is False or (found.is_ours is None and known_url is not None and found.url != known_url):
        return Deafness(
            "elsewhere", f"the platform sends events to {found.url}: another Postroom or program has this bot"
        )
    return _late(found, last, last_event_at) or _missing(found)


def _missing(found: Registration) -> Deafness | None:
    if not found.missing:
        return None
    return Deafness("kinds_missing", f"the platform leaves out events of these kinds: {', '.join(found.missing)}")


def _late(found: Registration, last: ChannelWatch | None, last_event_at: int | None) -> Deafness | None:
    """Events that wait at the platform, because it can't deliver them or for no reason that it names."""
    failed_at = found.last_error_at_ms
    if found.last_error and found.backlog != 0 and (failed_at is None or failed_at > (last_event_at or 0)):
        return Deafness("failing", f"the platform could not deliver its last event: {cards.line(found.last_error)}")
    if last is None or not found.backlog or last.backlog is None or (last_event_at or 0) > last.looked_at:
        return None
    if found.backlog > last.backlog or (found.backlog == last.backlog and last.code == "backlog"):
        return Deafness("backlog", f"{found.backlog} events wait at the platform, and none came since the last check")
    return None


def note(conn: apsw.Connection, channel: str, found: Registration, *, now_ms: int) -> ChannelWatch:
    """Keep what a look found, and tell an owner where that is news; the row as it is now."""
    last = channel_watches.get(conn, channel)
    last_event_at = last.heard_at if last is not None else None
    known_url = _known_url(found, last, last_event_at)
    deafness = judge(found, last, known_url=known_url, last_event_at=last_event_at)
    state = "well" if deafness is None else "deaf"
    was = last.state if last is not None else "well"
    watch = ChannelWatch(
        channel=channel,
        looked_at=now_ms,
        url=found.url,
        known_url=known_url,
        backlog=found.backlog,
        state="well" if deafness is None else "deaf",
        code=deafness.code if deafness else None,
        reason=deafness.reason if deafness else None,
        since=last.since if last is not None and was == state else now_ms,
        heard_at=last_event_at,
        mend=deafness.mend if deafness else None,
    )
    channel_watches.put(conn, watch)
    if was != state:
        _tell_news(conn, watch, now_ms=now_ms)
    return watch


def heard(conn: apsw.Connection, channel: str, *, now_ms: int) -> None:
    """Note that an event came in to the registered address: a channel that was deaf is so no more, at once."""
    watch = channel_watches.note_event(conn, channel, now_ms=now_ms)
    if watch is None or watch.state == "well" or watch.code == "kinds_missing":
        return
    watch = watch._replace(state="well", code=None, reason=None, mend=None, since=now_ms)
    channel_watches.put(conn, watch)
    _tell_news(conn, watch, now_ms=now_ms)


def _known_url(found: Registration, last: ChannelWatch | None, last_event_at: int | None) -> str | None:
    """Our own address: the one that the platform's facts or events that came in speak for. Pure.

    An event that was on its way when another program took the bot says nothing for that program's address.
    """
    if found.ours or found.is_ours:
        return found.ours or found.url
    known = last.known_url if last is not None else None
    if last is None or last.url != found.url or last_event_at is None:
        return known
    if last_event_at <= last.looked_at + _ON_ITS_WAY_MS:
        return known
    return found.url


def _tell_news(conn: apsw.Connection, watch: ChannelWatch, *, now_ms: int) -> None:
    if watch.state == "deaf":
        events.append(conn, "channel_deaf", now_ms=now_ms, channel=watch.channel, data={"reason": watch.reason or ""})
        text = f"{cards.escape(_finding(watch))} To fix it: {watch.mend or f'`{command(watch)}`'}"
    else:
        events.append(conn, "channel_hears", now_ms=now_ms, channel=watch.channel)
        text = f"{cards.escape(watch.channel)} receives messages again."
    tell_owner(conn, text, channel=watch.channel, now_ms=now_ms)


def sentence(watch: ChannelWatch) -> str:
    """What an operator should know of a channel that is deaf, with the one thing that mends it."""
    return f"{_finding(watch)} To fix it: {mend(watch)}"


def _finding(watch: ChannelWatch) -> str:
    what = "does not receive everything" if watch.code == "kinds_missing" else "receives nothing"
    return f"{watch.channel} {what}: {watch.reason}."


def troubles(conn: apsw.Connection) -> list[str]:
    """A sentence for each channel that is paused or deaf, or whose platform can't work."""
    found = [
        f"{name} is paused, and its answers wait: {pause.reason}. Set the correct token and restart"
        for name, pause in channel_pauses.every(conn).items()
    ]
    found += [
        f"{outage.channel} can't send, and its answers wait: {outage.reason}. Postroom tries again by itself"
        for outage in channel_outages.every(conn).values()
    ]
    return found + [sentence(watch) for watch in channel_watches.deaf(conn)]


def mend(watch: ChannelWatch) -> str:
    """What mends a channel that is deaf: the command, or what only an operator can set."""
    return watch.mend or command(watch)


def command(watch: ChannelWatch) -> str:
    """The command that mends a channel that is deaf. It names our own address where that is known."""
    platform = platform_of(watch.channel)
    account = f" --account {watch.channel.partition('.')[2]}" if is_further(watch.channel) else ""
    address = f" --url {shlex.quote(watch.known_url)}" if watch.known_url else ""
    takes_over = " --take-over" if watch.code == "elsewhere" else ""
    return f"emulator channel {platform} connect{account}{address}{takes_over}"


def tell_paused(conn: apsw.Connection, channel: str, reason: str, *, now_ms: int) -> int | None:
    """Tell an owner, on another channel, that the platform refuses our token; the chat, or None."""
    text = (
        f"{channel} is paused, and its answers wait: {cards.line(reason)}. Set the correct token and restart; "
        "nothing is lost"
    )
    return tell_owner(conn, cards.escape(text), channel=channel, now_ms=now_ms, elsewhere_only=True)


def tell_owner(
    conn: apsw.Connection, text: str, *, channel: str, now_ms: int, elsewhere_only: bool = False
) -> int | None:
    """Tell the first owner who can be reached, on another channel where that is possible; the chat, or None.

    Nobody is told here where the operator's alerts tell it.

    Args:
        elsewhere_only: *channel* can't send, so a chat there is no place for news about it.
    """
    silent = channel if elsewhere_only else None
    if any(_tells(conn, route, silent) for route in alert_routes.every(conn)):
        return None
    owners = [user for id_ in user_roles.owners(conn) if (user := users.get(conn, id_)) is not None]
    owners.sort(key=lambda user: user.channel == platform_of(channel))
    told = people.tell_first(conn, owners, text, page=("overview", None), but_channel=silent, now_ms=now_ms)
    return None if told is None else told.chat_id


def _tells(conn: apsw.Connection, route: AlertRoute, silent: str | None) -> bool:
    """Whether the route tells that a channel is deaf or refused. *silent*: a channel that can't send, or None."""
    chat = chats.get(conn, route.chat_id) if route.takes("deaf") else None
    if chat is None or chat.status != "active" or chat.channel == silent:
        return False
    return chat.channel != WEBHOOK or not alerts.stands(conn, STUCK)
