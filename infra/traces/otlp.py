"""OTLP over HTTP, with JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp, and its form of a span.

The names of the variables are OpenTelemetry's own: ``OTEL_EXPORTER_OTLP_ENDPOINT`` and the rest.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from infra.traces.span import ROOT, TraceSpan, Value, span_id, trace_id
from shared.core.errors import ConfigInvalid
from shared.runtime.http_client import Client, NoAnswer, RequestNotSent

PATH = "/v1/traces"
_KINDS = {"internal": 1, "producer": 4, "consumer": 5}
_ERROR = 2
_NEVER = (400, 413, 422)  # of the same bytes; what a person may mend, such as 401, is tried again


class NotExported(Exception):
    """The collector has not taken the spans; the message says why. They may be sent again."""


class SpansRefused(Exception):
    """The collector will never take these spans, or some of them; the message says why."""


class Collector(NamedTuple):
    """Where spans go, and what each request carries."""

    url: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, environment: Mapping[str, str], endpoint: str | None = None) -> "Collector":
        """The collector of the command line or of the environment.

        Raises:
            ConfigInvalid
        """
        base = endpoint or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
        url = "" if endpoint else environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
        url = url or (base.rstrip("/") + PATH if base else "")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigInvalid(
                f"no collector is named (found {url!r}): set OTEL_EXPORTER_OTLP_ENDPOINT or --endpoint to its "
                f"OTLP/HTTP address, such as http://127.0.0.1:4318"
            )
        given = environment.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environment.get("OTEL_EXPORTER_OTLP_HEADERS")
        headers: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in (given or "").split(","))):
            name, found, value = each.partition("=")
            if not found:
                raise ConfigInvalid("OTEL_EXPORTER_OTLP_HEADERS has a part without '=': write name=value,name=value")
            headers[name.strip().lower()] = unquote(value.strip())
        return cls(url, {"content-type": "application/json", **headers})

    async def send(self, client: Client, spans: Sequence[TraceSpan]) -> None:
        """Export the spans.

        Raises:
            NotExported
            SpansRefused
        """
        try:
            answer = await client.request("POST", self.url, json.dumps(document(spans)).encode(), self.headers)
        except (RequestNotSent, NoAnswer) as error:
            raise NotExported(f"the collector does not answer: {error}") from None
        if not 200 <= answer.status < 300:
            sentence = f"the collector answered {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
            raise (SpansRefused if answer.status in _NEVER else NotExported)(sentence)
        if (rejected := _rejected(answer.body)) is not None:
            raise SpansRefused(f"the collector refused a part of the spans: {rejected}")


def _rejected(body: bytes) -> str | None:
    """What a partial success says, which has a number of refused spans above 0."""
    try:
        said = json.loads(body or b"{}").get("partialSuccess") or {}
        return str(said.get("errorMessage") or said) if int(said.get("rejectedSpans", 0)) else None
    except (ValueError, TypeError, AttributeError):
        return None


def document(spans: Sequence[TraceSpan]) -> dict[str, Any]:
    """The body of a request."""
    scope = {"scope": {"name": "postroom.events"}, "spans": [_span(each) for each in spans]}
    resource = {"attributes": _attributes({"service.name": "postroom"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _span(span: TraceSpan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": trace_id(span.of),
        "spanId": span_id(span.of, span.key),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nano(span.start_ms),
        "endTimeUnixNano": _nano(span.end_ms),
        "attributes": _attributes(span.attributes | ({} if span.error is None else {"error.type": span.error})),
        "status": {} if span.error is None else {"code": _ERROR},
    }
    if span.parent is not None:
        found["parentSpanId"] = span_id(span.of, span.parent)
    if span.notes:
        found["events"] = [
            {"timeUnixNano": _nano(each.at_ms), "name": each.name, "attributes": _attributes(each.attributes)}
            for each in span.notes
        ]
    if span.links:
        found["links"] = [{"traceId": trace_id(each), "spanId": span_id(each, ROOT)} for each in span.links]
    return found


def _nano(ms: int) -> str:
    return str(ms * 1_000_000)


def _attributes(found: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in found.items()
    ]
