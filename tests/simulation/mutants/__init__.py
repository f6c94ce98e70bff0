"""Deliberate faults in the product: each must make a run fail, or the promises see too little.

``python -m tests.simulation.mutants`` hunts them all, and ``python -m tests.simulation.mutants NAME`` one of them. Each
is put into a copy of the product and of the simulator; the checkout is never touched. Those that nothing finds are the
next tests to write.
"""
