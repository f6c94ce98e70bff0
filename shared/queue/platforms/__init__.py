"""How responses wait for a platform: paced, in an outage, or while it refuses our token."""
