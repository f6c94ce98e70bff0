"""The answers of then and now, side by side."""

import io

from emulator.cli.commands.past.answers import comparison, exchange
from emulator.cli.output import result, write

AT = 1_800_000_000_000


def story(**fields):
    """A message with its answers, as the API tells it."""
    base = {"messageId": "telegram_a", "sender": "Ana", "message": "What?", "createdAt": AT, "updatedAt": AT + 1500}
    return base | {"status": "completed", "lastError": None, "responses": [], "usage": [], **fields}


def said(text, after_ms):
    return {"message": text, "createdAt": AT + after_ms}


def took(model, cost, messages=1):
    return {
        "model": model,
        "input": 100,
        "cacheRead": 20,
        "cacheWrite": 1,
        "output": 7,
        "cost": cost,
        "messages": messages,
    }


def test_times_tokens_and_cost_are_told_where_they_are_known():
    then = story(responses=[said("This.", 400), said("And that.", 1400)], usage=[took("m", 1200), took("n", 300)])
    now = story(messageId="telegram_b", responses=[said("Another.", 250)], usage=[took("q", None)])
    facts = exchange(then, now).facts()
    assert (facts["messageId"], facts["replayId"]) == ("telegram_a", "telegram_b")
    assert facts["then"] == {
        "status": "completed", "answers": ["This.", "And that."], "reason": None, "took": 1400, "models": ["m", "n"],
        "inputTokens": 242, "outputTokens": 14, "cost": 1500, "shared": 1,
    }  # fmt: skip
    assert (facts["now"]["took"], facts["now"]["cost"], facts["now"]["models"]) == (250, None, ["q"])


def shown(*exchanges):
    out = io.StringIO()
    write(result({}, comparison(exchanges, then="assistant (echo)", now="other (api, q)")), as_json=False, stream=out)
    return out.getvalue()


def test_both_answers_stand_beside_the_message():
    text = shown(exchange(story(responses=[said("This.\nAnd that.", 400)], usage=[took("m", 1500)]),
                          story(responses=[said("Another.", 250)])))  # fmt: skip
    head, *_ = text.splitlines()
    assert [word for word in ("message", "then: assistant (echo)", "now: other (api, q)") if word not in head] == []
    first = next(line for line in text.splitlines() if "This." in line)
    assert first.split() == ["What?", "This.", "Another."]
    assert "— 0.4 s, 121 + 7 tokens, $0.0015" in text


def test_a_failure_stands_with_its_reason():
    text = shown(exchange(story(), story(status="dead", lastError="no model", responses=[said("Sorry.", 90)])))
    assert "(no answer of its own)" in text
    assert "Sorry." in text
    assert "(dead: no model)" in text


def test_a_message_without_an_end_has_no_time():
    waiting = story(status="pending", lastError="no answer within 5 s: its agent is paused")
    assert exchange(story(), waiting).facts()["now"]["took"] is None
    assert "(pending: no answer within 5 s: its agent is paused)" in shown(exchange(story(), waiting))


def test_what_people_wrote_moves_no_cursor():
    assert "\x1b[2J" not in shown(exchange(story(message="\x1b[2J"), story(responses=[said("\x1b[2J", 1)])))
