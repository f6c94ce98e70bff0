"""How far the export has come: a file beside the database, because the exporter writes nothing into it."""

import json
from pathlib import Path
from typing import NamedTuple, Self

from shared.core.errors import ConfigInvalid, DatabaseUnavailable


class Cursor(NamedTuple):
    """*done*: the newest event whose spans the collector has; *begin*: the event to read after, at the next start.

    What lies between is read again, for what was open, and not exported again. *epoch*: of the database whose events
    these are; a restored one has another.
    """

    done: int
    begin: int
    epoch: str | None = None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The cursor in the file; None: there is none.

        Raises:
            ConfigInvalid: it can't be read.
        """
        try:
            said = json.loads(path.read_bytes())
            return cls(int(said["done"]), int(said["begin"]), said.get("epoch"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigInvalid(
                f"{path} does not say how far the export of traces has come ({type(error).__name__}): remove it, and "
                f"export what is missing with --since"
            ) from None

    def write(self, path: Path) -> None:
        """Keep it: the whole file or the one before.

        Raises:
            DatabaseUnavailable: it can't be written beside the database at the moment, as on a full disk.
        """
        new = path.with_name(f"{path.name}.new")
        try:
            new.write_text(json.dumps(self._asdict()))
            new.replace(path)
        except OSError as error:
            raise DatabaseUnavailable(
                f"{path}, which keeps how far the export of traces has come, can't be written ({error.strerror}): "
                f"check its permissions and the space on its disk, and start again; send what is missing with --since"
            ) from None


def path_of(database: Path) -> Path:
    """The file of this database."""
    return database.with_name(f"{database.name}-traces")
