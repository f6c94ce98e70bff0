"""The platforms of the world: they take, refuse, fall silent, and bring what people do until we say 2xx."""
