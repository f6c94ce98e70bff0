"""A database between two releases: what an upgrade will do, tried on a copy, and the way back without a loss."""
