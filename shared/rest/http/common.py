"""The answers and queries that several resources share."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.db.engine import named_rows
from shared.rest.http.endpoint import Query


class Ok(TypedDict):
    """The change is committed."""

    ok: Literal[True]


class Removed(TypedDict):
    """The row is removed; *retired*: it is only hidden, because stored messages name it, and can be brought back."""

    ok: Literal[True]
    retired: bool


class LimitQuery(Query):
    """*limit*: how many rows, of the newest."""

    limit: int = Field(default=100, ge=1, le=1000)


class PageQuery(LimitQuery):
    """*before*: only rows with a lower id; for the next page, send the last id of this one."""

    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)


class FilterQuery(PageQuery):
    """*reason*: a word as in ``state`` of the rows. *since*, *until*: made from then, before then, in ms UTC."""

    agent: str | None = Field(default=None, max_length=64)
    chatId: int | None = Field(default=None, ge=1)
    channel: str | None = Field(default=None, max_length=32)
    senderId: str | None = Field(default=None, max_length=200)
    reason: str | None = Field(default=None, max_length=64)
    since: int | None = Field(default=None, ge=0)
    until: int | None = Field(default=None, ge=0)
    limit: int = Field(default=50, ge=1, le=200)


class DeadQuery(FilterQuery):
    """The filters of the page's lists, and their words."""

    limit: int = Field(default=100, ge=1, le=1000)


class BatchQuery(Query):
    """*after*: only rows with a higher id, so a row that fails again meanwhile is not taken twice."""

    after: int = Field(default=0, ge=0, le=named_rows.NEWEST)
    limit: int = Field(default=100, ge=1, le=1000)


OK: Ok = {"ok": True}
