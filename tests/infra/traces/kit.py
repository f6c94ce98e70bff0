"""A collector, and an export of a database to it."""

import asyncio
import json

import httpx

from infra.traces.cursor import Cursor
from infra.traces.export import Export
from infra.traces.otlp import Collector
from infra.traces.program import sender
from shared.db.queue import events
from tests.fake_client import FakeClient

COLLECTOR = Collector("http://collector.example/v1/traces", {"content-type": "application/json"})


class Taken:
    """What a collector got. *statuses*: what it answers first; then 200."""

    def __init__(self, *statuses, body=b"{}"):
        self.statuses = list(statuses)
        self.body = body
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        return httpx.Response(self.statuses.pop(0) if self.statuses else 200, content=self.body)

    @property
    def spans(self):
        """All spans, by name, in order."""
        documents = [json.loads(request.content) for request in self.requests]
        return [
            span
            for document in documents
            for resource in document["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def one(self, name):
        """The one span of this name."""
        (found,) = (span for span in self.spans if span["name"] == name)
        return found


def attributes(span):
    """The attributes by key."""
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def export(conn, taken, begin=None, last=None):
    """Export everything after *begin*, or everything; the cursor afterwards."""

    async def go():
        work = Export(conn, sender(COLLECTOR, FakeClient(taken)), begin or Cursor(0, 0))
        while await work.step(last or events.latest_id(conn)):
            pass
        return work.cursor

    return asyncio.run(go())
