"""Reports changed files: the project's Python and SQL files, its template and its files of settings."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from watchfiles import Change, awatch

from emulator.base import environment
from emulator.base.errors import first_reason

FOLDERS = ("functions", "shared", "infra")
_CODE = (".py", ".sql")
_STEP_MS, _DEBOUNCE_MS = 10, 50


async def changes(project: Path, template: Path, stop: asyncio.Event, *, since_s: float) -> AsyncIterator[set[Path]]:
    """Sets of files that were saved together, until *stop*; the first may be those saved from *since_s* to now.

    Args:
        since_s: seconds since the epoch.

    Raises:
        OSError: the system can't watch any more files.
    """
    folders = [project / name for name in FOLDERS if (project / name).is_dir()]
    single = {template, *(project / name for name in environment.FILES)}
    queue: asyncio.Queue[set[Path] | OSError] = asyncio.Queue()

    def is_ours(_: Change, path: str) -> bool:
        if Path(path) in single:
            return True
        # In the folders of single files only these count: an agent.py beside the template is no function.
        is_code = path.endswith(_CODE) and "__pycache__" not in path
        return is_code and any(Path(path).is_relative_to(folder) for folder in folders)

    async def watch(*where: Path, recursive: bool) -> None:
        # Most editors replace a file when they save it. Watching the folder sees that; watching the file does not.
        try:
            async for found in awatch(
                *where, watch_filter=is_ours, step=_STEP_MS, debounce=_DEBOUNCE_MS, stop_event=stop, recursive=recursive
            ):
                await queue.put({Path(path) for _, path in found})
        except (OSError, ExceptionGroup) as error:  # a group: it watched already, and could not watch a new folder
            reason = first_reason(error)
            await queue.put(reason if isinstance(reason, OSError) else OSError(str(reason)))

    tasks = [
        asyncio.create_task(watch(*folders, recursive=True)),
        asyncio.create_task(watch(*{path.parent for path in single}, recursive=False)),
    ]
    try:
        await asyncio.sleep(0)  # both tasks run to their first wait, so the system watches from here on
        if saved := set(_saved(folders, single, since_s)):
            yield saved
        while not stop.is_set():
            found = await queue.get()
            if isinstance(found, OSError):
                raise found
            yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _saved(folders: Iterable[Path], single: Iterable[Path], since_s: float) -> Iterator[Path]:
    code = (path for folder in folders for path in folder.rglob("*") if path.suffix in _CODE)
    for path in (*code, *single):
        with contextlib.suppress(FileNotFoundError):  # it was moved or removed, as editors do
            if path.stat().st_mtime >= since_s:
                yield path
