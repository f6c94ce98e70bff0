import json
from urllib.parse import quote

import pytest

from shared.core.text import redaction

SECRET = 'a:b/c="d"é+'


@pytest.fixture(autouse=True)
def registered():
    redaction.register(SECRET)


FORMS = {
    "as it is": SECRET,
    "in a URL": quote(SECRET, safe=""),
    "in a URL, in small letters": "a%3ab%2fc%3d%22d%22%c3%a9%2b",
    "in JSON": json.dumps(SECRET)[1:-1],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_found_in_each_of_its_forms(form):
    assert redaction.redact(f"https://x/bot{form}/getMe?{form}") == "https://x/bot***/getMe?***"


def test_a_secret_inside_a_longer_one_leaves_nothing_of_the_longer_one():
    redaction.register("inner-secret")
    redaction.register("outer-inner-secret-outer")
    assert redaction.redact("<outer-inner-secret-outer>") == "<***>"


def test_a_word_too_short_for_a_secret_stays():
    redaction.register("hello")
    redaction.register("")
    assert redaction.redact("hello") == "hello"


def test_tokens_of_single_requests_are_forgotten_after_many_others():
    for number in range(redaction.MOST_BRIEF):
        redaction.register_brief(f"token-{number:08}")
    assert redaction.redact("token-00000000") == "***"
    redaction.register_brief("one-more-token")
    assert redaction.redact("token-00000000 token-00000001") == "token-00000000 ***"


def test_a_token_that_comes_again_is_kept_as_the_newest():
    redaction.register_brief("comes-again")
    for number in range(redaction.MOST_BRIEF - 1):
        redaction.register_brief(f"other-{number:08}")
    redaction.register_brief("comes-again")
    redaction.register_brief("and-another")
    assert redaction.redact("comes-again") == "***"


def test_every_text_of_a_json_value_is_redacted():
    value = {"description": [f"no {SECRET}", 5, None], SECRET: True}
    assert redaction.redact_all(value) == {"description": ["no ***", 5, None], "***": True}
