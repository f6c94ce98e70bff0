from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.core import ids


def test_ids_are_a_prefix_and_eight_of_their_alphabet():
    made = {ids.new("telegram") for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(each) == len("telegram_") + 8 and set(each[9:]) <= set(ids.ALPHABET) for each in made)


def test_an_id_has_the_form_of_one():
    assert all(ids.has_form(ids.new(prefix)) for prefix in ("telegram", "chatroom_batch"))


@pytest.mark.parametrize(
    "text", ["", "_", "telegram_", "_0badcafe", "telegram_0BADCAFE", "telegram_0badcafe\n", "telegram_0badcafe0x"]
)
def test_another_text_has_not(text):
    assert not ids.has_form(text)


def test_every_place_of_an_id_takes_every_character():
    made = [ids.new("x")[2:] for _ in range(5000)]
    assert all({each[place] for each in made} == set(ids.ALPHABET) for place in range(ids.SIZE))


def test_ids_of_a_burst_are_as_random_as_others_beyond_their_beginning():
    prefixes = ["telegram", "api", "x"] * 2000
    burst = ids.Burst()
    made = [burst.new(prefix) for prefix in prefixes]
    assert [each.rpartition("_")[0] for each in made] == prefixes
    assert all(ids.has_form(each) for each in made)
    assert len({each[-ids.SIZE :] for each in made}) == len(prefixes)
    assert all({each[-place] for each in made} == set(ids.ALPHABET) for place in range(1, 6))


def test_256_ids_share_their_beginning():
    burst = ids.Burst()
    made = [burst.new("x") for _ in range(768)]
    beginnings = [each[2:5] for each in made]
    assert [len(set(beginnings[at : at + 256])) for at in range(0, 768, 256)] == [1, 1, 1]
    assert len(set(beginnings)) > 1


def test_every_place_of_a_beginning_takes_every_character():
    beginnings = [ids.Burst().new("x")[2:5] for _ in range(1000)]
    assert all({each[place] for each in beginnings} == set(ids.ALPHABET) for place in range(3))


def test_bursts_of_two_threads_stay_ids():
    burst = ids.Burst()
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: burst.new("x"), range(21_000)))
    assert all(ids.has_form(each) for each in drawn)
    assert len(set(drawn)) > len(drawn) - 20
