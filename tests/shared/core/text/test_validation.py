import pytest
from pydantic import BaseModel, ValidationError, field_validator

from shared.core.text.validation import reason, where


class Sample(BaseModel):
    name: str
    inner: dict[str, int] = {}

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        if value == "assert":
            raise AssertionError("write a name")
        raise ValueError("write a name, such as Ana")


@pytest.mark.parametrize("value", ["x", "assert"])
def test_our_own_words_have_no_prefix(value):
    """Pydantic says "Value error, write a name"."""
    with pytest.raises(ValidationError) as refused:
        Sample(name=value)
    (problem,) = refused.value.errors()
    assert reason(problem).startswith("write a name")


def test_the_place_is_a_path():
    with pytest.raises(ValidationError) as refused:
        Sample.model_validate({"name": "x", "inner": {"a": "b"}})
    assert [where(each) for each in refused.value.errors()] == ["name", "inner.a"]
