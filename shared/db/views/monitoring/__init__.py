"""What ``GET /metrics`` and the export of traces read from rows, and the sums that pruning would take away."""
