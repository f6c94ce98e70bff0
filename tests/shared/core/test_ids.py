from shared.core import ids


def test_ids_are_a_prefix_and_eight_of_their_alphabet():
    made = {ids.new("telegram") for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(each) == len("telegram_") + 8 and set(each[9:]) <= set(ids.ALPHABET) for each in made)
