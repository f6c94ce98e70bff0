"""Makes text safe for a terminal: the one place that everything from outside passes before a person sees it.

A terminal obeys control characters, in the range of ASCII (C0) and above it (C1): they move the cursor, delete lines,
change colours, or answer as if the person had typed. Marks of direction show a text in another order than it has, and a
line break makes two lines of one. All of these appear as escapes, such as ``\\x1b`` or ``\\u202e``.
"""

import json

# In prose these show as what they are. The joiners belong to scripts and to combined emoji.
PROSE = "\n\t\u200c\u200d\u00a0\u202f\u3000"


def escape(text: str, *, keep: str = "") -> str:
    """The text with every character escaped that can't be seen, except those in *keep*."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )


def escape_json(text: str) -> str:
    """JSON with the same characters escaped in its strings, as JSON escapes them; its value stays the same."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def indent_more(text: str, width: int) -> str:
    """The lines after the first, *width* columns to the right, so that none of them looks like a line of its own."""
    return text.replace("\n", "\n" + " " * width)
