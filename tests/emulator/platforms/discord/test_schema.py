"""The check against Discord's own OpenAPI document, in both directions."""

import pytest

from emulator.platforms.discord import schema
from emulator.platforms.discord.calls import DiscordError

CREATE = "POST /channels/{channel}/messages"


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"content": "a" * 4001}, ["content"], "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "embeds": [{}] * 11}, ["embeds"], "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "tts": "yes"}, ["tts"], "BASE_TYPE_BAD_TYPE"),
        ({"content": "x", "attachments": [{"filename": "a"}]}, ["attachments", "0", "id"], "BASE_TYPE_REQUIRED"),
    ],
)
def test_the_error_names_the_field(body, path, code):
    with pytest.raises(DiscordError) as refused:
        schema.check_body(CREATE, body)
    found = refused.value.body["errors"]
    for part in path:
        found = found[part]
    assert found["_errors"][0]["code"] == code


def test_what_fits_and_what_is_not_described_passes():
    schema.check_body(CREATE, {"content": "x", "attachments": [{"id": 0}], "strange": 1})
    schema.check_body("POST /no/such/route", {"anything": 1})
    assert schema.problem_of_answer("POST /no/such/route", {}) is None


def test_an_answer_that_lacks_a_field_is_found():
    assert "is a required property" in str(schema.problem_of_answer("GET /users/@me", {"id": "1", "username": "x"}))
