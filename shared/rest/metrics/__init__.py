"""``GET /metrics``: what Prometheus and its kin read, from rows. ``exposition`` is the text, ``families`` the facts."""
