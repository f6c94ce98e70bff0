"""What is imported without something, and that nobody else notices."""

import subprocess
import sys

import pytest

from shared.core.slim_imports import Placeholder, in_name_only, without


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_is_kept_away_is_missing_within_and_there_afterwards(is_loaded):
    if is_loaded:
        import colorsys
    else:
        sys.modules.pop("colorsys", None)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_is_there_in_name_only_is_itself_again_afterwards(is_loaded):
    if is_loaded:
        import wsgiref.util
    else:
        for name in ("wsgiref", "wsgiref.util"):
            sys.modules.pop(name, None)
    with in_name_only("wsgiref", "wsgiref.util"):
        import wsgiref.util
        from wsgiref.util import guess_scheme

        assert issubclass(wsgiref.anything, Placeholder)
        assert wsgiref.util.guess_scheme is guess_scheme
        assert issubclass(guess_scheme, Placeholder)
    from wsgiref.util import guess_scheme

    assert guess_scheme({}) == "http"


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library that was imported where ``wsgiref`` and ``wsgiref.util`` are there in name only."""
    (tmp_path / "leanlib.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    with in_name_only("wsgiref", "wsgiref.util"):
        import leanlib
    yield leanlib
    del sys.modules["leanlib"]


LIBRARY = """
import wsgiref.util
from wsgiref.util import FileWrapper, guess_scheme

class Wrapper(FileWrapper):
    def __init__(self, file):
        self.file = file

@wsgiref.util.decorator
def decorated(scheme: guess_scheme | None = None):
    return scheme

at_once = FileWrapper("file", 8)

def is_wrapper(value):
    return isinstance(value, FileWrapper)

def unheard_of():
    return wsgiref.util.request_uri({}, include_query=False)
"""

CALLS = {
    "a function": (lambda library: library.guess_scheme({}), "wsgiref.util.guess_scheme"),
    "a class": (lambda library: library.FileWrapper(file=1), "wsgiref.util.FileWrapper"),
    "what is derived from one": (lambda library: library.Wrapper(1), "wsgiref.util.FileWrapper"),
    "what was decorated": (lambda library: library.decorated("http"), "wsgiref.util.decorator"),
    "what was made within": (lambda library: library.at_once(), "wsgiref.util.FileWrapper"),
    "what nobody took before": (lambda library: library.unheard_of(), "wsgiref.util.request_uri"),
}


@pytest.mark.parametrize(("call", "name"), CALLS.values(), ids=CALLS)
def test_what_is_there_in_name_only_says_so_when_it_is_called(library, call, name):
    with pytest.raises(RuntimeError) as raised:
        call(library)
    assert str(raised.value) == (
        f"{name} is called, and is here in name only, since leanlib was imported: where that is imported within "
        "in_name_only, take 'wsgiref.util' out of the names"
    )


def test_nothing_is_what_is_there_in_name_only(library):
    assert not library.is_wrapper("file")


def test_what_python_asks_of_a_module_is_not_there_in_name_only(library):
    with pytest.raises(AttributeError, match="wsgiref is here in name only and has no __path__"):
        _ = library.wsgiref.__path__


def test_the_framework_can_not_be_asked_for_what_it_was_loaded_without():
    code = "from shared.runtime import framework; framework.aio.from_http({}, b'')"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = "RuntimeError: cloudevents.http.from_http is called, and is here in name only, since functions_framework"
    assert said in asked.stderr


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "recurrence", "api"])
def test_a_function_loads_nothing_that_draws_on_terminals_no_flask_and_no_second_http_library(function):
    code = f"""
import sys
import functions.{function}, infra.runner, shared.channels.discord, shared.channels.telegram
print(*sorted({{"flask", "httpx", "pygments", "rich", "werkzeug"}} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
