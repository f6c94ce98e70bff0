"""The REST API. ``resources`` has one module a subject, each with a table of endpoints."""
