"""How long the oldest commit waits that Litestream has not brought to the bucket."""

from pathlib import Path

from shared.core.time import clock


def waiting_s(database: Path, replicated: int, now_s: float) -> float | None:
    """Seconds since Litestream took the oldest commit after position *replicated*; None if it is not known.

    Litestream keeps what it took in files named by their positions, beside the database.

    Args:
        now_s: Unix time, on the clock of the rows.
    """
    folder = database.with_name(f".{database.name}-litestream") / "ltx" / "0"
    try:
        waiting = [path.stat().st_mtime for path in folder.glob("*.ltx") if path.stem[:16] > f"{replicated:016x}"]
    except OSError:  # a file that Litestream has just removed
        return None
    return max(0.0, now_s - clock.of_machine(round(min(waiting) * 1000)) / 1000) if waiting else None
