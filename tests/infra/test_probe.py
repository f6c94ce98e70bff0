import pytest

from infra import probe


@pytest.mark.parametrize("arguments", [[], ["x"], ["9001", "9002"], ["-1"]])
def test_a_wrong_command_is_one_sentence(capsys, arguments):
    assert probe.main(arguments) == 64
    assert capsys.readouterr().err == "probe: name the port of one function, as in python -m infra.probe 9001\n"


def test_where_nothing_answers_the_function_is_not_healthy():
    assert probe.main(["1"]) == 1
