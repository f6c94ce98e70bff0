import sys

import pytest

from emulator.storage.placeholder_modules import Placeholder, placeholders


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_module_is_itself_again_after_its_placeholder(is_loaded):
    if is_loaded:
        import wsgiref.util
    else:
        for name in ("wsgiref", "wsgiref.util"):
            sys.modules.pop(name, None)
    with placeholders("wsgiref", "wsgiref.util"):
        import wsgiref.util
        from wsgiref.util import guess_scheme

        assert issubclass(wsgiref.anything, Placeholder)
        assert wsgiref.util.guess_scheme is guess_scheme
        assert issubclass(guess_scheme, Placeholder)
    from wsgiref.util import guess_scheme

    assert guess_scheme({}) == "http"


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library that was imported with placeholders for ``wsgiref`` and ``wsgiref.util``."""
    (tmp_path / "slim_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    with placeholders("wsgiref", "wsgiref.util"):
        import slim_library
    yield slim_library
    del sys.modules["slim_library"]


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

def call_late():
    return wsgiref.util.request_uri({}, include_query=False)
"""

CALLS = {
    "a function": (lambda library: library.guess_scheme({}), "wsgiref.util.guess_scheme"),
    "a class": (lambda library: library.FileWrapper(file=1), "wsgiref.util.FileWrapper"),
    "a derived class": (lambda library: library.Wrapper(1), "wsgiref.util.FileWrapper"),
    "a decorated function": (lambda library: library.decorated("http"), "wsgiref.util.decorator"),
    "an object made during the import": (lambda library: library.at_once(), "wsgiref.util.FileWrapper"),
    "an attribute first read later": (lambda library: library.call_late(), "wsgiref.util.request_uri"),
}


@pytest.mark.parametrize(("call", "name"), CALLS.values(), ids=CALLS)
def test_a_call_to_a_placeholder_names_the_importer_and_the_remedy(library, call, name):
    with pytest.raises(RuntimeError) as raised:
        call(library)
    assert str(raised.value) == (
        f"{name} was called, but slim_library was imported with a placeholder for 'wsgiref.util': "
        "take 'wsgiref.util' out of the names given to placeholders()"
    )


def test_nothing_is_an_instance_of_a_placeholder(library):
    assert not library.is_wrapper("file")


def test_a_placeholder_module_is_not_taken_for_a_package(library):
    with pytest.raises(AttributeError, match="the placeholder for module 'wsgiref' has no __path__"):
        _ = library.wsgiref.__path__
