"""The operator's page at ``/``: one file without requests to elsewhere, and for programs the list of endpoints.

The page itself holds no data, so it needs no token. What it shows it asks of the API, and with a token where the API
wants one.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from shared.core import chance
from shared.rest.http.endpoint import Endpoint

_FOLDER = Path(__file__).with_name("page")
# In this order: each uses those before it.
SCRIPTS = ("base", "acts", "alerts", "overview", "queue", "talk", "story", "schedules", "past", "find", "pages", "main")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def answer(request: Request, endpoints: Sequence[Endpoint]) -> Response:
    """The page for a browser; for any other client the endpoints as JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"postroom": [f"{each.method} {each.path}" for each in endpoints]})
    nonce = chance.token_urlsafe(16)
    headers = {"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store", "Vary": "Accept"}
    return HTMLResponse(_template().replace("{{NONCE}}", nonce), headers=headers)


@cache
def _template() -> str:
    script = "\n".join((_FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    page = (_FOLDER / "desk.html").read_text("utf-8")
    return page.replace("{{STYLE}}", (_FOLDER / "desk.css").read_text("utf-8")).replace("{{SCRIPT}}", script)
