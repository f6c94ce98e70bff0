"""The places of variables, for errors."""

from shared.core import setting_places


def test_a_variable_is_found_in_any_case_and_an_unreadable_list_has_none(monkeypatch):
    ((name, value),) = setting_places.variable({"postroom_new_chats": ".env:3"}).items()
    monkeypatch.setenv(name, value)
    assert setting_places.find("POSTROOM_NEW_CHATS") == ".env:3"
    assert setting_places.find("POSTROOM_DB") is None
    for broken in ("{", "[]"):
        monkeypatch.setenv(name, broken)
        assert setting_places.find("POSTROOM_NEW_CHATS") is None
    assert setting_places.variable({}) == {}
