"""The adapters of the accounts to send for. They follow the rows and the file of tokens while the process runs."""

import asyncio
from collections.abc import Collection, Mapping

import apsw

from shared.channels import account_secrets, registry
from shared.channels.base import Channel
from shared.core import logs
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.roster import accounts
from shared.db.roster.accounts import Account

log = logs.get()


class ServedAccounts:
    """Looks up the adapters again when an account comes or goes, or the file of tokens changes."""

    def __init__(self, settings: Settings) -> None:
        self._tokens = settings.account_tokens
        self._names: list[str] = []
        self._changed_ns: int | None = None
        self._channels: dict[str, Channel] = {}
        self._off: dict[str, str] = {}
        self._lost: set[str] = set()
        self.set_ups: list[Account] = []  # those whose token is to be fetched, as of the last look
        self._importing = asyncio.Lock()

    async def find(self, conn: apsw.Connection, name: str) -> Channel | None:
        """The adapter of the account *name*, or None. The event loop goes on while the first one is imported."""
        async with self._importing:
            if not registry.are_imported():
                await asyncio.to_thread(registry.import_all)
        return self.look(conn).get(name)

    def look(self, conn: apsw.Connection) -> Mapping[str, Channel]:
        """The adapters by account. An account that lacks a setting has none; the log names the setting once."""
        found = accounts.every(conn)
        names, changed_ns = accounts.names_served(found, registry.PLATFORMS), account_secrets.changed_ns(self._tokens)
        if changed_ns != self._changed_ns:
            registry.get.cache_clear()
        elif names == self._names:
            self.set_ups = self._find_set_ups(found)
            return self._channels
        self._names, self._changed_ns = names, changed_ns
        self._channels = {name: channel for name in names if (channel := self._get(name)) is not None}
        kept = self._kept()
        self._lost = {each for each in names if each not in self._channels and each not in kept}
        self.set_ups = self._find_set_ups(found)
        return self._channels

    def _find_set_ups(self, found: list[Account]) -> list[Account]:
        """The bots that others manage whose token is to be fetched: for the first time, again, or as it was lost."""
        managed = (each for each in found if each.manager is not None)
        return [each for each in managed if each.retry_at is not None or each.name in self._lost]

    def _kept(self) -> Collection[str]:
        try:
            return account_secrets.read(self._tokens)
        except ConfigInvalid as error:
            log.error("channel.tokens_unreadable", reason=str(error))
            return self._names  # none of them counts as lost: the file is to be mended

    def _get(self, name: str) -> Channel | None:
        try:
            found = registry.get(name)
        except ConfigInvalid as error:
            if self._off.get(name) != str(error):
                log.warning("channel.off", channel=name, reason=str(error))
            self._off[name] = str(error)
            return None
        self._off.pop(name, None)
        return found
