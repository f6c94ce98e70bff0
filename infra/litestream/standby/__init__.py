"""The standby: a warm copy of the replica, and the taking of its lease when the other host is gone.

``python -m infra.standby`` (``program.py``) is what a host runs; docs/operations.md says how to operate it. It imports
the rest of ``infra.litestream``, and nothing there imports it.
"""
