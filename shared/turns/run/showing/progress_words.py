"""What an agent does, in words for people who wait: ``reading 3 files …``. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

_FIRST_STEP = "working …"

# The tools of the programs, by the last part of their names in lower case.
_KINDS = {
    "reading a file|reading {} files": ("read", "glob", "grep", "ls", "list", "notebookread"),
    "changing a file|changing {} files": ("edit", "write", "multiedit", "patch", "filechange", "notebookedit"),
    "running a command|running {} commands": ("bash", "commandexecution", "shell"),
    "looking at the web|looking at {} pages of the web": ("websearch", "webfetch"),
}
_WORDS = {tool: words for words, tools in _KINDS.items() for tool in tools}
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 -]{0,39}")  # a program names its tools: nothing of it is markup


def of(acts: Sequence[str]) -> str:
    """The newest kind of work, and how much of it there was, from the names of the tools so far."""
    if not acts:
        return _FIRST_STEP
    words = [_words(each) for each in acts]
    one, _, many = words[-1].partition("|")
    count = Counter(words)[words[-1]]
    return f"{one if count == 1 else many.format(count)} …"


def _words(tool: str) -> str:
    name = tool.rpartition("__")[2]
    known = _WORDS.get(name.lower())
    if known is not None:
        return known
    plain = name.replace("_", " ")
    if not _PLAIN.fullmatch(plain):
        return "using a tool|using {} tools"
    return f"using {plain}|using {plain}, {{}} times by now"
