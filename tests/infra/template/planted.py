"""The real template with a mistake in it, the place of the mistake, and the problems that are found."""

from pathlib import Path

import pytest

from infra.template.cloudformation import TemplateInvalid
from infra.template.deployment import load

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "template.yaml"
TEXT = TEMPLATE.read_text()


def line_of(fragment, text=TEXT):
    """The (line, column), from 1, of *fragment*, which must occur once."""
    assert text.count(fragment) == 1, f"{fragment!r} stands {text.count(fragment)} times"
    before = text[: text.index(fragment)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def problems_of(tmp_path, text, root=None):
    path = tmp_path / "template.yaml"
    path.write_text(text)
    with pytest.raises(TemplateInvalid) as caught:
        load(path, root=root)
    return caught.value.problems


def planted(*changes):
    """The real template with each (old, new) replaced; *old* must occur once."""
    text = TEXT
    for old, new in changes:
        line_of(old, text)
        text = text.replace(old, new)
    return text
