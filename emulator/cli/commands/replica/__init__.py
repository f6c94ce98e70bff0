"""``emulator replica``: the state of the replica, and the drill that proves it."""
