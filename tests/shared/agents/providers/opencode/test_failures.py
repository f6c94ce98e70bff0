"""Errors of opencode in our words."""

import pytest

from shared.agents.providers.opencode import failures


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"name": "APIError", "data": {"statusCode": 401, "message": "no"}}, "auth"),
        ({"name": "APIError", "data": {"statusCode": 402, "message": "no"}}, "quota"),
        ({"name": "APIError", "data": {"statusCode": 429, "message": "no"}}, "rate_limited"),
        ({"name": "APIError", "data": {"statusCode": 503, "message": "no"}}, "overloaded"),
        ({"name": "APIError", "data": {"message": "Unable to connect. Is it running?"}}, "network"),
        ({"name": "ProviderModelNotFoundError", "data": {}}, "model_not_found"),
        ({"name": "UnknownError", "data": {"message": "no"}}, "error"),
        ({}, "error"),
    ],
)
def test_an_error_becomes_its_code(error, code):
    assert failures.of_error(error).code == code


def test_a_refused_request_is_not_made_again():
    assert not failures.of_error({"name": "APIError", "data": {"statusCode": 400, "message": "no"}}).retryable


def test_colours_of_a_terminal_do_not_reach_the_operator():
    assert failures.of_error({"data": {"message": "\x1b[91m\x1b[1mError: \x1b[0mno"}}).reason == "opencode: Error: no"
