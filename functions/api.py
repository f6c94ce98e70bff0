"""``api``: REST and server-sent events for people, programs and TinyAGI's clients.

The endpoints are in ``shared/rest``, by subject; ``GET /api/openapi.json`` describes them all. Errors are
``{"error": sentence}``.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.rest import endpoints
from shared.rest.desk import page
from shared.rest.http import free_programs
from shared.rest.http.authorization import Authorization
from shared.rest.http.endpoint import routes
from shared.rest.http.past import OnlyReads
from shared.rest.http.service import Service
from shared.runtime import framework
from shared.runtime.app import AppResponse, function_app
from shared.runtime.service import LazyService

_service = LazyService(Service)
lifespan = _service.lifespan


async def _index(request: Request) -> Response:
    """The operator's page, or the list of endpoints."""
    return page.answer(request, endpoints.ENDPOINTS)


_routes = [Route("/", _index, methods=["GET"]), *routes(endpoints.ENDPOINTS, _service.get)]


def _why_token() -> str | None:
    service = _service.get()
    return free_programs.why_token(service.reader, service.settings)


_reading = OnlyReads(function_app("api", _routes), lambda: _service.get().past)
_app = Authorization(_reading, _service.get, _why_token)


@framework.http
async def api(_: Request) -> Response:
    """The handler: see the module's docstring."""
    return AppResponse(_app)
