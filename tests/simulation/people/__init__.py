"""People and programs: what they write, and what must become of it."""
