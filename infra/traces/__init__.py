"""Exports spans from the ``events`` table to an OpenTelemetry collector: ``python -m infra.traces``."""
