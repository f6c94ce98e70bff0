import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from infra import probe


@pytest.mark.parametrize("arguments", [[], ["x"], ["9001", "9002"], ["-1"]])
def test_a_wrong_command_is_one_sentence(capsys, arguments):
    assert probe.main(arguments) == 64
    assert capsys.readouterr().err == "probe: name the port of one function, as in python -m infra.probe 9001\n"


def test_where_nothing_answers_the_function_is_not_healthy():
    assert probe.main(["1"]) == 1


@pytest.mark.parametrize(("said", "code"), [({"part": "standby"}, 0), ({"part": "active"}, 1), ([], 1)])
def test_the_part_of_a_host_is_asked_whatever_trouble_it_is_in(said, code):
    """A standby whose copy is behind answers 503."""

    class Host(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(503)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Host) as host:
        served = threading.Thread(target=host.handle_request)
        served.start()
        assert probe.main([str(host.server_address[1]), "standby"]) == code
        served.join()
