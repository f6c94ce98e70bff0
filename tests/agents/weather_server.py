"""A tool server (MCP) with two tools, in the standard library alone: ``python weather_server.py`` serves it."""

import json
import sys
from typing import Any

TOWN = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOLS = [
    {"name": "look", "description": "The weather of a town.", "inputSchema": TOWN},
    {"name": "change", "description": "Changes the weather.", "inputSchema": TOWN},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of one request, or the error."""
    match method:
        case "initialize":
            about = {"name": "weather", "version": "1"}
            version = params["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            text = f"{params['name']}: sun in {params.get('arguments', {}).get('at')}"
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            found = answer(asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **found}), flush=True)
