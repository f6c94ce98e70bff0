"""How ``make docs`` makes a site of the Markdown pages. They are read where they stand: a link holds here and there."""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

project = "Postroom"
author = "the Postroom authors"
html_title = "Postroom"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = ["docs/**.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "infra/README.md"]
myst_heading_anchors = 4  # as deep as pages link into others
myst_fence_as_directive = ["mermaid"]
# What draws the diagrams, put there by infra/setup.sh where there is npm; without it they stay text.
_DRAWS = Path(__file__).parents[1] / "out/site-static"
html_static_path = [str(_DRAWS)] if _DRAWS.exists() else []

_DRAW = "mermaid.initialize({startOnLoad: true, theme: 'neutral'})"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(((?!https?:)[^)#]+\.md)\)")


class Diagram(SphinxDirective):
    """A fence ``mermaid``: its text, for the script in the page to draw."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", f'<pre class="mermaid">{escape(chr(10).join(self.content))}</pre>', format="html")]


def _add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the pages that list others (README.md) a hidden table of contents: what they link to, section by section."""
    if not page.startswith("docs/") or not page.endswith("/README"):
        return
    is_root = page == root_doc
    parts = _SECTION.split(source[0])
    for title, text in list(zip(["", *parts[1::2]], parts[::2], strict=True))[is_root:]:
        pages = [each for each in dict.fromkeys(_LINK.findall(text)) if is_root or "/" not in each]
        caption = [f":caption: {title.partition(':')[0]}"] if title else []
        if pages:
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", *caption, *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("mermaid", Diagram)
    app.connect("source-read", _add_contents)
    if html_static_path:
        app.add_js_file("mermaid.min.js")
        app.add_js_file(None, body=_DRAW)
