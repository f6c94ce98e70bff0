"""The types of the JSON columns: what is encoded comes back, and SQL names no key that the types do not have."""

import re
from pathlib import Path

import pytest

from shared.core import content
from shared.core.content import ApprovalPayload, MessageContent, ResponseContent

SHARED = Path(content.__file__).parents[1]
KEY_IN_SQL = re.compile(r"\b(content|payload)(?: ->> |, )'\$\.(\w+)'")
KEYS = {
    "content": MessageContent.__annotations__.keys() | ResponseContent.__annotations__.keys(),
    "payload": ApprovalPayload.__annotations__.keys(),
}


@pytest.mark.parametrize("value", [{}, {"hops": 2, "reply_to": {"text": "é"}}, {"buttons": [["Yes", "a.0"]]}])
def test_encoded_content_comes_back(value):
    assert content.decode(content.encode(value)) == value


def test_empty_content_is_the_default_of_the_column():
    assert content.encode({}) == "{}"


def test_sql_names_only_keys_that_the_types_have():
    """mypy checks the keys in Python; no tool checks those inside SQL texts."""
    found = {key for path in SHARED.rglob("*.py") for key in KEY_IN_SQL.findall(path.read_text())}
    assert found >= {("content", "label"), ("content", "replay_of"), ("payload", "withdrawn")}
    assert {(column, key) for column, key in found if key not in KEYS[column]} == set()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], ""),
        ([{"kind": "photo", "file_id": "x"}], "(photo)"),
        ([{"kind": "document", "name": "a.pdf"}, {"kind": "voice"}], "(document a.pdf, voice)"),
        ([{"kind": "photo"}] * 12, f"({'photo, ' * 10}2 more)"),
    ],
)
def test_files_are_named_where_there_is_no_text(files, words):
    assert content.files_in_words(files) == words
