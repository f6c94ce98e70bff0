"""The checks of ``emulator doctor``. Each reads, and changes nothing; nothing has to run."""
