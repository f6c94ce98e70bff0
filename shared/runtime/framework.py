"""functions-framework for functions over HTTP alone: what its other kinds need, Flask first, is a third of a start.

Where the framework's own command serves a function, it has loaded itself before, and whole.
"""

from shared.core.slim_imports import in_name_only

with in_name_only(
    *("cloudevents", "cloudevents.exceptions", "cloudevents.http", "cloudevents.http.event"),
    *("flask", "flask.typing", "werkzeug", "werkzeug.local"),
):
    from functions_framework import aio, execution_id
    from functions_framework._function_registry import FUNCTION_SIGNATURE_TYPE

http = aio.http

__all__ = ["FUNCTION_SIGNATURE_TYPE", "aio", "execution_id", "http"]
