"""What a call uploads: the fields and the files of its body."""

import json
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from tests.simulation.machine.wires import Asked

Uploads = list[tuple[str, bytes]]
"""Files, by the names that they are given."""


def read(asked: Asked) -> tuple[dict[str, Any], Uploads]:
    """The fields of a JSON body or of a form, and the files of the form."""
    kind = asked.headers.get("content-type", "")
    if not kind.startswith("multipart/"):
        return (dict(json.loads(asked.body)) if asked.body.startswith(b"{") else {}), []
    fields: dict[str, Any] = {}
    files: Uploads = []
    whole = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + asked.body)
    for part in whole.iter_parts():
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        if (name := part.get_filename()) is not None:
            files.append((name, content))
        else:
            is_json = part.get_content_type() == "application/json"
            name = str(part.get_param("name", header="content-disposition"))
            fields[name] = json.loads(content) if is_json else content.decode()
    return fields, files
