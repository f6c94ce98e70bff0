"""How a handler becomes known to functions-framework, where its own command serves the function.

That command has loaded the framework before it loads a function. Our runner calls the handler itself and never loads
the framework: Flask and the rest of its imports would add 7.7 MB to each function and a third to its start.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]


def http(handler: Handler) -> Handler:
    """Register *handler* as an ASGI function over HTTP, if functions-framework is loaded."""
    if "functions_framework" not in sys.modules:
        return handler
    from functions_framework import aio  # its own command has loaded it; no other process pays for it

    return cast(Handler, aio.http(handler))
