"""A process of its own that does one kind of work on the database; ``remote`` is the function's side of it."""

from shared.db.engine.writer_process.remote import RemoteWriter, WriterProcess

__all__ = ["RemoteWriter", "WriterProcess"]
