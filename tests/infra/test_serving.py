import threading

from infra.serving import is_served, serving_lock, wait_until_served


def test_functions_may_open_the_database_while_the_lock_is_held_and_not_after_its_holder(tmp_path):
    database = tmp_path / "p.db"
    assert not is_served(database)
    lock = serving_lock(database)
    assert lock.try_acquire()
    assert is_served(database)
    lock.release()
    assert not is_served(database)


def test_functions_that_ask_at_once_do_not_take_each_other_for_the_holder(tmp_path):
    database = tmp_path / "p.db"
    found = []

    def ask():
        found.extend(is_served(database) for _ in range(300))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()

    assert len(found) == 1200
    assert not any(found)


def test_a_function_that_waits_goes_on_when_the_lock_is_taken(tmp_path):
    database = tmp_path / "data" / "p.db"
    waiting = threading.Thread(target=wait_until_served, args=(database,))
    waiting.start()
    while not database.parent.exists():
        waiting.join(0.005)
    assert waiting.is_alive()
    lock = serving_lock(database)
    while not lock.try_acquire():  # the waiting one looks at it for an instant
        waiting.join(0.001)
    waiting.join(30)
    assert not waiting.is_alive()
    lock.release()
