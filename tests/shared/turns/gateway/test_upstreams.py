import pytest

from shared.core.errors import ConfigInvalid
from shared.core.text import redaction
from shared.db.spending.usage import Tokens
from shared.turns.gateway.upstreams import GatewaySettings, ModelPrice, routes, upstreams


def test_only_hosts_with_a_key_or_an_address_are_reached():
    assert upstreams(GatewaySettings()) == {}
    assert routes({}) == {}
    known = upstreams(GatewaySettings(openai_api_key="sk-operator", local_models_url="http://127.0.0.1:11434/v1/"))
    assert {route.url for route in routes(known).values()} == {
        *(f"https://api.openai.com/v1/{path}" for path in ("chat/completions", "responses", "models")),
        *(f"http://127.0.0.1:11434/v1/{path}" for path in ("chat/completions", "responses", "models")),
    }
    assert known["local"].auth == ()


def test_a_key_goes_before_the_login_of_a_plan():
    both = GatewaySettings(anthropic_api_key="sk-ant-key", claude_code_oauth_token="sk-ant-oat01-login")
    assert upstreams(both)["anthropic"].paid_by == "key"
    assert upstreams(GatewaySettings(claude_code_oauth_token="sk-ant-oat01-login"))["anthropic"].paid_by == "plan"


def test_a_key_from_the_environment_is_in_no_log(monkeypatch):
    monkeypatch.setenv("POSTROOM_OPENAI_API_KEY", "sk-from-the-environment")
    assert upstreams(GatewaySettings.load())["openai"].auth == ((b"authorization", b"Bearer sk-from-the-environment"),)
    assert redaction.redact("sk-from-the-environment") == "***"


@pytest.mark.parametrize(
    "url", ["ftp://host", "api.example.com", "http://", "https://me:secret@host/v1", "http://h/?a=1"]
)
def test_an_address_that_is_none_is_refused_without_its_value(monkeypatch, url):
    monkeypatch.setenv("POSTROOM_LOCAL_MODELS_URL", url)
    with pytest.raises(ConfigInvalid, match="POSTROOM_LOCAL_MODELS_URL") as refused:
        GatewaySettings.load()
    assert "secret@" not in str(refused.value)


def test_prices_come_from_the_environment_by_the_longest_beginning(monkeypatch):
    monkeypatch.setenv(
        "POSTROOM_MODEL_PRICES", '{"gpt-5": {"input": 1, "output": 2}, "gpt-5-mini": {"input": 3, "output": 4}}'
    )
    models = GatewaySettings.load()
    assert models.price("gpt-5-mini-2026").input == 3
    assert models.price("gpt-5").input == 1
    assert models.price("o9") is None


def test_prices_that_are_no_json_are_refused_by_the_name_of_their_variable(monkeypatch):
    monkeypatch.setenv("POSTROOM_MODEL_PRICES", '{"gpt-5": hunter2')
    with pytest.raises(ConfigInvalid, match=r"^settings: POSTROOM_MODEL_PRICES: Expecting value") as refused:
        GatewaySettings.load()
    assert "hunter2" not in str(refused.value)


def test_a_cost_is_in_micro_dollars_rounded_up():
    tokens = Tokens(input=10, output=3, cache_read=100, cache_write=10)
    assert ModelPrice(input="0.5", output="2").cost(tokens) == 66
    assert ModelPrice(input="0.5", output="2", cache_read="0.05", cache_write="1").cost(tokens) == 26
    assert ModelPrice(input="0.01", output="0").cost(Tokens(1)) == 1
