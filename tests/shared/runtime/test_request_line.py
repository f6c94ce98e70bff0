from structlog.testing import capture_logs

from shared.runtime import request_line


def test_the_line_that_the_runner_writes_has_what_the_function_tells():
    scope = {}
    line = request_line.begin(scope)
    assert (line.event, line.facts) == ("request.done", {})
    with capture_logs() as logged:
        request_line.tell(scope, "ingest.stored", stored=1)
    assert (line.event, line.facts, logged) == ("ingest.stored", {"stored": 1}, [])


def test_what_comes_after_that_line_or_without_a_runner_is_a_line_of_its_own():
    late = {}
    request_line.begin(late).is_written = True
    with capture_logs() as logged:
        request_line.tell(late, "ingest.stored", stored=1)
        request_line.tell({}, "ingest.stored", stored=2)
    assert [(each["event"], each["stored"]) for each in logged] == [("ingest.stored", 1), ("ingest.stored", 2)]
