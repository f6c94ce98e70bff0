"""Commands about a running emulator on this machine, for a person at a terminal and for scripts."""
