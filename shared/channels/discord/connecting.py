"""Connects an application with this Postroom: the address to which Discord sends its interactions.

Discord calls the address at once, with a PING and with a wrong signature, and refuses it where one of the answers is
wrong. Source: https://docs.discord.com/developers/resources/application#edit-current-application
(``interactions_endpoint_url``).
"""

from urllib.parse import urlsplit

from shared.channels.base import Registration
from shared.channels.discord.api import DiscordApi
from shared.core.errors import ConfigInvalid, PermanentError, WrongState
from shared.runtime.http_client import Client

_EVENTS_ON = 2


def address_of(url: str, account: str) -> str:
    """The address to register: *url*, with the path of our webhook where it has none.

    Raises:
        ConfigInvalid: Discord would refuse it.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        raise ConfigInvalid(f"{url[:200]!r} is no address") from None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname == "127.0.0.1")  # the emulator's
    if not is_safe or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigInvalid("the address should be one such as https://bot.example.com")
    path = parts.path if parts.path.strip("/") else f"/webhooks/{account}"
    return f"{parts.scheme}://{parts.netloc}{path}"


async def connect(api: DiscordApi, client: Client, *, url: str, take_over: bool) -> Registration:
    """Register *url*, and switch webhook events on again; what was registered before. Safe to repeat.

    Raises:
        WrongState: another address is registered, and *take_over* is False. Nothing was changed.
        ConfigInvalid: the token belongs to another application.
        PermanentError: Discord refuses the address.
        PostroomError: Discord can't be asked now.
    """
    before = await api.registration(client)
    if before.last_error is not None and before.is_ours is False:
        raise ConfigInvalid(f"{before.last_error}: {before.mend}")
    if before.url == url and not before.missing:
        return before
    if before.url not in (None, url) and not take_over:
        raise WrongState(f"Discord sends this application's interactions to {before.url}")
    events = {"event_webhooks_status": _EVENTS_ON} if before.missing else {}
    try:
        await api.do(client, "PATCH", f"{api.base}/applications/@me", {"interactions_endpoint_url": url, **events})
    except PermanentError as error:
        raise PermanentError(
            f"{error}. Discord called {url} with a PING and with a wrong signature: Postroom must answer there,"
            " with the application's DISCORD_PUBLIC_KEY"
        ) from None
    return before
