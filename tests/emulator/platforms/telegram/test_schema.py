"""The check against the Bot API's own description, in both directions."""

import pytest

from emulator.platforms.telegram import schema

CHAT = {"id": 1, "type": "private", "first_name": "Ana"}
MESSAGE = {"message_id": 1, "date": 1, "chat": CHAT, "text": "x"}


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("sendMessage", {"chat_id": 1, "text": "x"}, None),
        ("sendMessage", {"chat_id": "1", "text": 5, "disable_notification": "true"}, None),
        ("SENDMESSAGE", {"chat_id": 1, "text": ["x"]}, "text"),
        ("sendMessage", {"chat_id": [1], "text": "x"}, "chat_id"),
        ("sendMessage", {"chat_id": 1, "text": "x", "reply_parameters": {"message_id": "one"}}, "message_id"),
        ("sendMessage", {"chat_id": 1, "text": "x", "reply_parameters": "{"}, "JSON object"),
        ("sendMessage", {"chat_id": 1, "text": "x", "reply_parameters": '{"message_id": 1}'}, None),
        ("sendMessage", {"chat_id": 1, "text": "x", "entities": [{"type": "bold"}]}, 'Can\'t find field "offset"'),
        ("sendMessage", {"chat_id": 1, "text": "x", "disable_notification": "maybe"}, "Boolean"),
        ("setMessageReaction", {"chat_id": 1, "message_id": 1, "reaction": [{"type": "emoji", "emoji": []}]}, "emoji"),
        ("setMessageReaction", {"chat_id": 1, "message_id": 1, "reaction": [{"type": "emoji", "emoji": "👍"}]}, None),
        ("sendMediaGroup", {"chat_id": 1, "media": {"type": "photo"}}, "must be an Array"),
    ],
)
def test_parameters_have_their_types(method, params, said):
    found = schema.problem_of_call(method, params)
    assert (found is None) if said is None else (said in str(found))


def test_parameters_that_a_method_lacks_are_named():
    assert schema.unknown("sendMessage", {"chat_id": 1, "colour": 1, "reply_to_message_id": 1}) == ["colour"]
    assert schema.parameters("sendPigeon") is None


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (MESSAGE, None),
        ({**MESSAGE, "chat": {"id": 1}}, '"type"'),
        ({**MESSAGE, "colour": 1}, "Message has no field colour"),
        ({**MESSAGE, "text": 5}, '"text"'),
        ({**MESSAGE, "message_id": True}, '"message_id"'),
        ("sent", "must be of type Message"),
    ],
)
def test_results_fit_strictly(result, said):
    found = schema.problem_of_result("sendMessage", result)
    assert (found is None) if said is None else (said in str(found))


def test_a_call_with_a_wrong_type_is_refused(play):
    async def scenario(world):
        await world.say("hello")
        answer = await world.bot("sendMessage", chat_id=5000000001, text="x", entities=[{"type": "bold"}])
        assert (answer["error_code"], "offset" in answer["description"]) == (400, True)

    play(scenario)
