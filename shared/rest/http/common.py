"""The answers and queries that several subjects share."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.db.engine import named_rows
from shared.rest.http.endpoint import Query


class Ok(TypedDict):
    """It is done, and committed."""

    ok: Literal[True]


class Removed(TypedDict):
    """It is gone; *retired*: what was said names it, so it is only hidden, or left alone, until it is wanted again."""

    ok: Literal[True]
    retired: bool


class LimitQuery(Query):
    """How many, of the newest."""

    limit: int = Field(default=100, ge=1, le=1000)


class PageQuery(LimitQuery):
    """How many, of those before a row."""

    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)


class BatchQuery(Query):
    """How many at once, of those after a row; of one that fails again meanwhile there is no second time."""

    after: int = Field(default=0, ge=0, le=named_rows.NEWEST)
    limit: int = Field(default=100, ge=1, le=1000)


OK: Ok = {"ok": True}
