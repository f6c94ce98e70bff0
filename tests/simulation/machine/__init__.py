"""The computer of the world, and what it is made of."""
