"""Schedules."""

ENDPOINTS = ()
