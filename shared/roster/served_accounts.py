"""The adapters of the accounts to send for. They follow the rows and the file of tokens while the process runs."""

from collections.abc import Mapping

import apsw

from shared.channels import registry
from shared.channels.base import Channel
from shared.core import logs
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.roster import accounts

log = logs.get()


class ServedAccounts:
    """Looks up the adapters again when an account comes or goes, or the file of tokens changes."""

    def __init__(self, settings: Settings) -> None:
        self._tokens = settings.account_tokens
        self._names: list[str] = []
        self._changed_ns: int | None = None
        self._channels: dict[str, Channel] = {}
        self._off: dict[str, str] = {}

    def look(self, conn: apsw.Connection) -> Mapping[str, Channel]:
        """The adapters by account. An account that lacks a setting has none; the log names the setting once."""
        names, changed_ns = accounts.served(conn, registry.PLATFORMS), self._tokens_changed_ns()
        if changed_ns != self._changed_ns:
            registry.get.cache_clear()
        elif names == self._names:
            return self._channels
        self._names, self._changed_ns = names, changed_ns
        self._channels = {name: channel for name in names if (channel := self._get(name)) is not None}
        return self._channels

    def _get(self, name: str) -> Channel | None:
        try:
            found = registry.get(name)
        except ConfigInvalid as error:
            if self._off.get(name) != str(error):
                log.warning("deliver.channel_off", channel=name, reason=str(error))
            self._off[name] = str(error)
            return None
        self._off.pop(name, None)
        return found

    def _tokens_changed_ns(self) -> int | None:
        try:
            return self._tokens.stat().st_mtime_ns
        except OSError:
            return None
