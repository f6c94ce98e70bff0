"""The operator's page as a file: for browsers alone, whole, and without a request to elsewhere."""

import re

from shared.rest.desk import page
from tests.api_client import get

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_the_page_and_a_program_the_endpoints(serving):
    shown = get(serving, "/", headers=BROWSER)
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Postroom</title>" in shown.text
    assert "GET /api/overview" in get(serving, "/").json()["postroom"]


def test_the_page_runs_its_own_script_alone_and_asks_nobody_else(serving):
    shown = get(serving, "/", headers=BROWSER)
    policy = shown.headers["content-security-policy"]
    (nonce,) = re.findall(r'<script nonce="([^"]+)">', shown.text)
    assert f"script-src 'nonce-{nonce}'" in policy
    for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    addresses = set(re.findall(r"https?://[^'\"` )]+", shown.text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "names of XML, which nobody asks"
    assert get(serving, "/", headers=BROWSER).text != shown.text, "each page has a nonce of its own"


def test_the_page_holds_every_script_of_its_folder(serving):
    files = {path.stem for path in page._FOLDER.glob("*.js")}
    assert files == set(page.SCRIPTS)
    assert "{{" not in get(serving, "/", headers=BROWSER).text


def test_no_text_from_outside_is_put_into_the_page_as_markup():
    for path in page._FOLDER.glob("*.js"):
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()), path


def test_the_page_itself_needs_no_token(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "a-token-of-production")
    assert get(serving, "/", headers=BROWSER).status_code == 200
    assert get(serving, "/api/overview").status_code == 401
