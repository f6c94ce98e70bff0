import subprocess
import sys

from shared.runtime import host

# A process that has two others print their identity, one after the other.
PARENT = """
import subprocess, sys
for _ in range(2):
    print(subprocess.run([sys.executable, "-c", sys.argv[1]], capture_output=True, text=True, check=True).stdout)
"""
CHILD = "from shared.runtime import host; print(host.identity('epoch_1'))"


def children():
    done = subprocess.run([sys.executable, "-c", PARENT, CHILD], capture_output=True, text=True, check=True)
    return done.stdout.split("\n\n")[:2]


def test_a_process_that_its_parent_starts_again_has_the_same_identity():
    first, second = children()
    assert first == second != ""


def test_another_parent_or_a_restored_database_is_another_identity():
    assert children() != children()
    assert host.identity("epoch_1") == host.identity("epoch_1") != host.identity("epoch_2")
