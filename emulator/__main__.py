"""``python -m emulator``: the ``emulator`` command, where it is on no PATH."""

from emulator.cli.main import main

if __name__ == "__main__":
    main()
