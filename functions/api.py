"""``api``: REST and server-sent events for people, programs and TinyAGI's clients.

What it answers stands in ``shared/rest``, by subject; ``GET /api/openapi.json`` says it whole. Errors are
``{"error": sentence}``.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared import framework
from shared.rest import table
from shared.rest.endpoint import routes
from shared.rest.guard import Guard
from shared.rest.service import Service
from shared.serving import Handled, Held, function_app
from shared.settings import Settings

_held = Held(lambda: Service(Settings.load()), lambda service: service.listen())
lifespan = _held.lifespan


async def _index(_: Request) -> Response:
    """What can be asked here."""
    return JSONResponse({"postroom": [f"{each.method} {each.path}" for each in table.ENDPOINTS]})


_routes = [Route("/", _index, methods=["GET"]), *routes(table.ENDPOINTS, _held.get)]
_app = Guard(function_app("api", _routes), lambda: _held.get().settings.api_token)


@framework.http
async def api(_: Request) -> Response:
    """The handler: see the module's docstring."""
    return Handled(_app)
