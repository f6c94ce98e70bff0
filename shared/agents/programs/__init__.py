"""Programs as agents: how one is started, held in, limited and ended."""
