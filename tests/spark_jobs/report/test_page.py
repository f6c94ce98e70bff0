"""The page as text: what it holds, that nothing from outside becomes markup, and that it is whole and small."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from spark_jobs.report.page import page
from tests.spark_jobs.report.samples import bad_month, facts, failed, month

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'\u202e{{ 7*7 }}"
VOID = {"meta", "link", "img", "br"}


class Elements(HTMLParser):
    """All elements with their attributes; fails where one is not closed in its order."""

    def __init__(self, html):
        super().__init__()
        self.found, self._open = [], []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag


PAGES = {
    "good": facts(**month()),
    "bad": facts(**bad_month()),
    "empty": facts(),
    "one_day": facts(**month(1)),
    "hostile": facts(**month(names=lambda name: HOSTILE + name), absent={"people": HOSTILE}),
    "absent": facts(absent={"costs": "table usage"}, **{job: rows for job, rows in month().items() if job != "costs"}),
}


@pytest.fixture(scope="module", params=PAGES)
def made(request):
    html = page(PAGES[request.param], f"s3://bucket/{HOSTILE}?endpoint=http://secret")
    return html, Elements(html).found


def test_a_page_has_no_script_and_loads_nothing(made):
    html, found = made
    assert not {tag for tag, _ in found} & {
        "script",
        "iframe",
        "object",
        "embed",
        "img",
        "base",
        "form",
        "use",
        "image",
    }
    names = {name for _, attrs in found for name in attrs}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset", "style", "action")]
    links = {attrs["href"] for _, attrs in found if "href" in attrs}
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert "http://secret" not in html
    assert "\u202e" not in html
    assert len(html) < 500_000


def test_the_policy_allows_the_one_style_and_nothing_else(made):
    html, found = made
    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    (policy,) = [attrs["content"] for _, attrs in found if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\((?!#)|@import", style[0])


def test_every_plot_has_words_and_every_link_a_target(made):
    _, found = made
    plots = [attrs for tag, attrs in found if tag == "svg" and attrs.get("class") in ("plot", "graph")]
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 20 for attrs in plots)
    ids = [attrs["id"] for _, attrs in found if "id" in attrs]
    links = {attrs["href"][1:] for _, attrs in found if attrs.get("href", "").startswith("#")}
    assert links <= set(ids)
    ids = [each for each in ids if each != "head"]
    assert len(ids) == len(set(ids))
    headings = [tag for tag, _ in found if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}


def test_every_section_has_a_plot_and_its_table():
    found = Elements(page(PAGES["good"], "/mart")).found
    sections = [attrs["id"] for tag, attrs in found if tag == "section" and attrs.get("class") == "topic"]
    assert sections == [
        "volume", "times", "backlog", "failures", "deliveries", "schedules", "people", "agents", "costs",
    ]  # fmt: skip
    assert len([tag for tag, _ in found if tag == "details"]) == 9
    assert len([tag for tag, _ in found if tag == "figure"]) == 20


def test_the_verdict_comes_first_and_says_what_to_do():
    html = page(facts(failures=[failed(0, "<b>", "killed", 1, 5, dead=1)]), "/mart")
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<body>")[2]))
    assert said.startswith(
        " Postroom report · 9 Oct 2025, 12:00 UTC ! One thing needs you. Needs you "
        "1 message of the last 7 days is dead, without an answer (1 killed). It was for agent &lt;b&gt;. plot "
        "Read the reasons, fix the cause, then retry or discard them. emulator messages list "
    )


def test_a_table_shows_the_newest_rows_first_and_says_how_many_it_left_out():
    rows = [failed(days, f"agent{index}", "killed", 1, 1) for days in range(29, -1, -1) for index in range(15)]
    html = page(facts(failures=rows), "/mart")
    assert "50 earlier rows" in html
    assert re.search(r"<tbody>\s*<tr><td>2025-10-09</td><td>agent14</td>", html)


def test_a_mart_that_lacks_a_table_says_so_in_its_section():
    assert "This mart has no table usage." in page(PAGES["absent"], "/mart")
