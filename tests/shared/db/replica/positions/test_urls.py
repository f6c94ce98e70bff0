"""The URL of a replica as it is shown."""

import pytest

from shared.db.replica.positions.urls import check_url, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://b/p", "s3://b/p"),
        ("file:///var/backups/a b", "file:///var/backups/a b"),
        ("s3://b/p?endpoint=http://h:1&region=eu-1", "s3://b/p?endpoint=http://h:1&region=eu-1"),
        ("s3://b/p?endpoint=http%3A%2F%2Fh%3A1%2Fs3&force-path-style=true", None),
        ("s3://b/p?secret=x&endpoint=http://h:1&access-key-id=y#z", "s3://b/p?endpoint=http://h:1"),
        ("s3://key:secret@b/p?endpoint=http://user:word@h:1&region=eu-1", "s3://b/p?region=eu-1"),
    ],
    ids=[
        "the bucket",
        "a folder",
        "the endpoint",
        "as the endpoint was quoted",
        "other settings",
        "names and passwords",
    ],
)
def test_a_url_that_a_person_copies_reaches_the_bucket_and_has_no_secret(url, shown):
    found = without_secrets(url)
    assert found == (shown or "s3://b/p?endpoint=http://h:1/s3&force-path-style=true")
    check_url(found)
