"""Writes the page: one HTML file with its style inside, without scripts, and with a policy that allows nothing else."""

import base64
import hashlib
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import judge, verdict
from spark_jobs.report.judgement.concern import Level
from spark_jobs.report.sections import sections
from spark_jobs.report.tiles import tiles
from spark_jobs.report.words import instant, name

_FOLDER = Path(__file__).parent / "page"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def page(facts: Facts, place: str) -> str:
    """The report as HTML.

    Args:
        place: of the mart, for the last line. Its query is left out.
    """
    found = judge(facts)
    state, said = verdict(facts, found)
    style = _style()
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        state=state,
        verdict=said,
        concerns=[(concern, concern.level is Level.NEEDS_YOU) for concern in found],
        tiles=tiles(facts),
        sections=sections(facts),
        at=instant(facts.at_ms),
        made=instant(facts.now_ms),
        place=name(place.partition("?")[0], 200),
        style=Markup(style),  # noqa: S704  # a file of ours
        policy=f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'",
    )


def _style() -> str:
    return "\n" + _COMMENT.sub("", (_FOLDER / "report.css").read_text()).strip() + "\n"


def _digest(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
