"""What a month of Postroom costs, by counts of requests and a table of prices: ``python -m infra.costs``."""
