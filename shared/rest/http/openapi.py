"""The OpenAPI document, made from the endpoints: what they accept, answer and refuse."""

from collections.abc import Sequence
from typing import Any, NotRequired

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from starlette.responses import Response
from typing_extensions import TypedDict

from shared import __version__
from shared.rest.http.endpoint import Endpoint
from shared.rest.http.event_stream import EventStream

_REF = "#/components/schemas/{model}"


class ErrorAnswer(TypedDict):
    """What went wrong, where, and what to do next."""

    error: str
    messageId: NotRequired[str]


class _SchemaNames(GenerateJsonSchema):
    """Names schemas as their types, without the ending ``View`` that tells a view from its row."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name.removesuffix("View"))


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these endpoints."""
    schemas, definitions = _schemas(endpoints)
    paths: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Postroom", "version": __version__},
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
        "paths": paths,
    }


Key = tuple[str, str, str]


def _schemas(endpoints: Sequence[Endpoint]) -> tuple[dict[Key, Any], dict[str, Any]]:
    inputs: list[tuple[Key, JsonSchemaMode, TypeAdapter[Any]]] = [
        (("", "", "problem"), "serialization", TypeAdapter(ErrorAnswer))
    ]
    for each in endpoints:
        if each.body is not None:
            inputs.append(((each.method, each.path, "body"), "validation", TypeAdapter(each.body)))
        if each.query is not None:
            inputs.append(((each.method, each.path, "query"), "validation", TypeAdapter(each.query)))
        if not _is_text(each):
            inputs.append(((each.method, each.path, "answer"), "serialization", TypeAdapter(each.answer)))
    schemas, others = TypeAdapter.json_schemas(inputs, ref_template=_REF, schema_generator=_SchemaNames)
    definitions = others.get("$defs", {})
    for name, schema in definitions.items():
        if name in _answers(schemas, definitions) and "properties" in schema:
            schema["additionalProperties"] = False
    found = {key: schema for (key, _), schema in schemas.items()}
    for each in endpoints:
        if each.body is not None and each.is_open:
            for name in _references(found[each.method, each.path, "body"]):
                del definitions[name]["additionalProperties"]
    return found, definitions


def _is_text(each: Endpoint) -> bool:
    """Whether it answers with no JSON."""
    return isinstance(each.answer, type) and issubclass(each.answer, Response)


def _answers(schemas: dict[Any, Any], definitions: dict[str, Any]) -> set[str]:
    """The names of all definitions that answers use, also indirectly. An answer has no field that they don't name."""
    found: set[str] = set()
    waiting = [schema for ((_, _, what), _), schema in schemas.items() if what in ("answer", "problem")]
    while waiting:
        for name in _references(waiting.pop()) - found:
            found.add(name)
            waiting.append(definitions[name])
    return found


def _references(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    if not isinstance(schema, dict):
        return set()
    own = {str(schema["$ref"]).rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*map(_references, schema.values()))


def _operation(each: Endpoint, schemas: dict[Key, Any]) -> dict[str, Any]:
    summary, _, more = each.description.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": f"{each.method.lower()}{each.path.replace('/', '_').replace('{', '').replace('}', '')}",
        "summary": " ".join(summary.split()),
        "parameters": _parameters(each, schemas),
        "responses": _responses(each, schemas),
    }
    if more:
        operation["description"] = " ".join(more.split())
    if each.body is not None:
        schema = schemas[each.method, each.path, "body"]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _parameters(each: Endpoint, schemas: dict[Key, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if kind is int else "string"}}
        for name, kind in each.parameters.items()
    ]
    if each.query is not None:
        model = each.query.model_json_schema()
        found += [
            {"name": name, "in": "query", "required": name in model.get("required", ()), "schema": schema}
            for name, schema in model["properties"].items()
        ]
    return found


def _responses(each: Endpoint, schemas: dict[Key, Any]) -> dict[str, Any]:
    problem = {"application/json": {"schema": schemas["", "", "problem"]}}
    found: dict[str, Any] = {}
    if _is_text(each):
        what = "events, until the client disconnects" if each.answer is EventStream else "the answer"
        found["200"] = {"description": what, "content": {each.answer.media_type: {}}}
    elif each.answer is not type(None):
        answer = {"application/json": {"schema": schemas[each.method, each.path, "answer"]}}
        found["200"] = {"description": "the answer", "content": answer}
    everywhere = {
        401: "the token is missing or wrong",
        403: "without a token, only Postroom's own user may call",
    }
    for status, reason in sorted({**everywhere, **each.refusals}.items()):
        found[str(status)] = {"description": reason, "content": problem}
    return found
