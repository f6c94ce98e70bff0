"""What a person may take away: of each table whether, which columns, and which rows are somebody's."""

from shared.db.views.portable.tables import NOT_TAKEN, TABLES, PortableTable

__all__ = ["NOT_TAKEN", "TABLES", "PortableTable"]
