"""The story of one message through time, from replicas alone: what each position has about it, and its events."""
