import pytest

from spark_jobs.copies import OptionInvalid
from spark_jobs.streaming.options import StreamOptions, check_table


def test_without_options_a_stream_begins_with_the_oldest_row_and_stops_at_what_is_doubtful():
    assert StreamOptions.of({}) == StreamOptions(False, None, False, False, None, True)


def test_every_option_is_taken():
    given = {"start": "newest", "max_rows": "10", "on_hole": "cross", "on_new_epoch": "cross", "instants": "millis"}
    assert StreamOptions.of(given | {"cache_dir": "/c"}) == StreamOptions(True, 10, True, True, "/c", False)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"start": "latest"}, "start is 'latest': write oldest or newest"),
        ({"max_rows": "0"}, "max_rows is '0': write a whole number"),
        ({"max_rows": "-5"}, "max_rows is '-5': write a whole number"),
        ({"on_hole": "skip"}, "on_hole is 'skip': write stop or cross"),
        ({"on_new_epoch": ""}, "on_new_epoch is '': write stop or cross"),
    ],
)
def test_an_option_that_means_nothing_is_refused(given, sentence):
    with pytest.raises(OptionInvalid, match=sentence):
        StreamOptions.of(given)


def test_a_table_whose_rows_change_is_refused():
    with pytest.raises(OptionInvalid, match=r"agent_messages, chat_messages, events; read 'messages' with spark.read"):
        check_table("messages")
