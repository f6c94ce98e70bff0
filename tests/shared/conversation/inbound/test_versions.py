import pytest

from shared.conversation.inbound import versions
from shared.db.views.originals import Original
from tests.shared.conversation.routing.router.kit import event

FILES = [{"file_id": "a"}, {"file_id": "b"}, {"file_id": "c"}]
PIECES = [
    {"message_id": "1", "text": "@bot /ask one", "files": 1},
    {"message_id": "2", "text": "", "files": 2},
    {"message_id": "3", "text": "three", "files": 0},
]
COMMAND = {"mention": "@bot ", "command": "ask", "command_args": "x"}


def change(number, text="new", *files):
    return event(text, platform_message_id=str(number), attachments=files, group_key="g", **COMMAND)


def test_an_edit_of_a_piece_changes_its_words_and_its_files():
    whole = versions.edited(change(2, "two", {"file_id": "x"}), PIECES, FILES)
    assert whole.text == "@bot /ask one\ntwo\nthree"
    assert [each["file_id"] for each in whole.attachments] == ["a", "x"]
    assert [each["files"] for each in whole.pieces] == [1, 1, 0]
    assert (whole.platform_message_id, whole.group_key) == ("1", None)


@pytest.mark.parametrize(("number", "command"), [(1, "ask"), (3, None)])
def test_a_command_counts_where_it_begins_the_words(number, command):
    whole = versions.edited(change(number), PIECES, FILES)
    assert (whole.command, bool(whole.mention)) == (command, command is not None)


def test_an_edit_of_a_message_that_is_no_album_is_the_whole_message():
    assert versions.edited(change(7), [], []).text == "new"


def test_a_piece_is_taken_out_with_its_files():
    rest = versions.without(change(2), PIECES, FILES)
    assert ([each["file_id"] for each in rest.attachments], rest.text) == (["a"], "@bot /ask one\nthree")


@pytest.mark.parametrize("pieces", [[], PIECES[:1]])
def test_of_a_message_without_other_pieces_nothing_is_left(pieces):
    assert versions.without(change(1), pieces, FILES[:1]) is None


def original(files="[]", **content):
    return Original(1, "telegram_a", "assistant", 1, "pending", True, None, "Ana", "5", "words", content, files)


def test_only_an_album_has_parts():
    album = original('[{"file_id": "a"}]', pieces=PIECES[:1])
    assert versions.parts_of([album, original()]) == (PIECES[:1], [{"file_id": "a"}])
    assert versions.parts_of([original('[{"file_id": "a"}]')]) == ((), ())
    assert versions.parts_of([]) == ((), ())


@pytest.mark.parametrize(
    ("text", "files", "is_same"),
    [
        ("words", [{"url": "https://cdn/1?ex=2", "name": "x"}], True),
        ("words", [{"url": "https://cdn/2?ex=1", "name": "x"}], False),
        ("words", [], False),
        ("other", [{"url": "https://cdn/1?ex=1", "name": "x"}], False),
    ],
)
def test_what_a_person_sees_tells_whether_something_changed(text, files, is_same):
    assert versions.is_same(original('[{"url": "https://cdn/1?ex=1", "name": "x"}]'), text, files) is is_same


def test_the_words_that_we_heard_in_a_voice_message_are_no_change_of_it():
    heard = original('[{"kind": "voice", "file_id": "a", "transcript": "buy milk"}]')
    assert versions.is_same(heard, "words", [{"kind": "voice", "file_id": "a"}])
