"""Reads requests to a collector, one JSON document a line, as OpenTelemetry's own schema has them; prints their spans.

An unknown field, a value of another type, or an id of another length ends it.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LENGTHS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def in_base64(document):
    """The document with its ids as protobuf has bytes; OTLP alone writes them in hexadecimal."""
    if isinstance(document, list):
        return [in_base64(each) for each in document]
    if not isinstance(document, dict):
        return document
    read = {name: in_base64(value) for name, value in document.items()}
    for name in LENGTHS.keys() & read.keys():
        id_ = bytes.fromhex(read[name])
        assert len(id_) == LENGTHS[name], (name, read[name])
        assert any(id_), f"{name} is empty"
        read[name] = base64.b64encode(id_).decode()
    return read


spans = []
for line in sys.stdin:
    request = json_format.ParseDict(in_base64(json.loads(line)), ExportTraceServiceRequest())
    for resource in request.resource_spans:
        assert [each.key for each in resource.resource.attributes] == ["service.name"]
        spans += [span for scope in resource.scope_spans for span in scope.spans]
print(
    json.dumps(
        [
            {
                "name": span.name,
                "kind": type(span).SpanKind.Name(span.kind),
                "trace": span.trace_id.hex(),
                "id": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                "start": span.start_time_unix_nano,
                "end": span.end_time_unix_nano,
                "isFailed": span.status.code == span.status.STATUS_CODE_ERROR,
                "links": [each.trace_id.hex() for each in span.links],
                "events": [each.name for each in span.events],
            }
            for span in spans
        ]
    )
)
