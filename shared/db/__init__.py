"""The one SQLite file: connections, migrations, the writer, and one module per table."""
