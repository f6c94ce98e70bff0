"""What the functions share: the database, the channels, the agents, routing, settings."""
