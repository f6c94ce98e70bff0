import pytest

from emulator.testing import wait_until


def test_the_first_true_result_is_returned() -> None:
    results = iter([0, "", "third", "fourth"])
    assert wait_until(lambda: next(results)) == "third"


def test_a_wait_in_vain_names_what_did_not_happen() -> None:
    with pytest.raises(AssertionError, match=r"^the parcel did not happen within 0 s$"):
        wait_until(lambda: None, limit_s=0, what="the parcel")
