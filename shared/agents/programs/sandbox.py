"""A place on the leash that serves one turn of a session after another, so that a turn costs no sandbox and no fork.

The first process inside is a shell that no program can stop, kill, trace or read: it is process 1 of its namespace, and
its own file can be executed and not read. A child of it waits for the next turn, opens three named pipes then, and
becomes the program. After the turn the first process kills every other process of the namespace, empties ``/tmp`` and
``/dev/shm``, says that the place is clean, and starts the next child. No child waits while a program runs.

The way out to the gateway is a socket that listens inside, and that dispatch has open: see ``listeners``.
"""

import asyncio
import contextlib
import errno
import os
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from shared.agents.programs import containment, syscalls
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.holder import Holder
from shared.agents.programs.listeners import ChildPid
from shared.agents.programs.pipes import OurEnds, close, out_of_the_way
from shared.core import logs

log = logs.get()

WayOut = Callable[[int, int], Awaitable[asyncio.Server]]
"""Serves the gateway inside a sandbox: where the given process has its network, at a port of 127.0.0.1."""

INSIDE = "/.postroom/turn"
"""Where the pipes and the words of a turn are inside."""

_IN_MEMORY = ("/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own

# The end of a child may interrupt `read`, which looks like the end of dispatch: a line to dispatch tells which it was.
# "lost": the process that waits for the program is gone. `jobs` collects processes that ended. A line in descriptor 6
# starts the program; the program has neither that nor the line to dispatch.
_FIRST_PROCESS = """\
trap : CHLD
turn=0
prepare() {{
  turn=$((turn + 1))
  (
    ulimit -u 4096 || ulimit -p 4096
    ( read -r _ <&6 || exit; exec 3<&- 6<&-; . {inside}/words )
    echo "$turn $?" >&3
  ) </dev/null &
}}
prepare
while :; do
  word=; read -r word <&3
  case $word in
  end)
    while kill -s KILL -- -1; do jobs; done
    said=clean
    for path in {looked_at}; do
      case $path in {kept}) continue ;; esac
      if [ -e "$path" ] || [ -L "$path" ]; then
        find {in_memory} -xdev -mindepth 1 {excepted} -delete || said=spent
        break
      fi
    done
    echo "$turn $said" >&3
    prepare ;;
  *)
    jobs
    kill -0 "$!" || echo "$turn lost" >&3 || exit
    echo >&3 || exit ;;
  esac
done >/dev/null 2>&1
"""

_SHELL = "/.postroom/sh"
_PIPES = ("in", "out", "error")
_SPECIAL = re.compile(r"[][*?\\]")  # in a pattern of find
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SHELLS = frozenset(
    {"BASHOPTS", "BASH_VERSINFO", "EUID", "IFS", "LINENO", "OPTIND", "PPID", "SHELLOPTS", "UID", "_"}
)
_CLEAN_WITHIN_S = 1.0


def is_supported() -> bool:
    """Whether this host's bubblewrap can hide the shell's own file (0.5 and newer)."""
    return "--perms" in containment.bubblewrap_help()


class Sandbox:
    """One such place: at most one program at a time, all of one session.

    Args:
        folder: of its pipes, outside; it is removed with the sandbox.
        way_out: opens the way that ``command.gateway`` asks for.
    """

    def __init__(self, folder: Path, command: ProgramCommand, way_out: WayOut | None = None) -> None:
        self._folder = folder
        self._opening: asyncio.Task[asyncio.Server] | None = None
        self._turn = 0
        self._on_code: Callable[[bytes | None], None] = lambda _: None
        self._cleaned: asyncio.Future[bool] | None = None  # since the program ended
        self.on_end: Callable[[], None] = lambda: None
        self._starts: int | None = None  # a pipe: a line in it starts the program
        self._reader_of_input: int | None = None
        folder.mkdir(mode=0o700)
        for name in _PIPES:
            os.mkfifo(folder / name, 0o600)
        self._words = open(folder / "words", "xb", buffering=0, opener=_for_owner)  # noqa: SIM115 - closed at the end
        self.holder = self._start(command, way_out)

    def run(self, command: ProgramCommand, on_code: Callable[[bytes | None], None]) -> OurEnds:
        """Start a program.

        Args:
            on_code: gets the exit code as text, or None when nothing can be known of it.
        """
        self._on_code = on_code
        self._cleaned = None
        self._turn += 1
        self._write(_words(command).encode())
        ours = self._open()
        if self._opening is None:
            self._begin()
        else:
            self._opening.add_done_callback(self._begin_or_end)
        return ours

    def _write(self, words: bytes) -> None:
        """Replace the words of the turn before. To make the file anew would take six times as long."""
        self._words.seek(0)
        if self._words.write(words) < len(words):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._words.truncate()

    def _begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is gone, and the holder tells so
            if self._starts is not None:
                os.write(self._starts, b"\n")

    def _begin_or_end(self, opened: asyncio.Task[asyncio.Server]) -> None:
        """Begin when the way out is open; a sandbox without its way out ends."""
        if opened.cancelled():
            return
        if error := opened.exception():
            log.error("agent.no_way_out", reason=str(error) or type(error).__name__)
            self.holder.kill()
        else:
            self._begin()

    async def clean(self) -> bool:
        """Once the program has ended, and with it all processes but the first: whether another turn can be served."""
        if self._cleaned is None or not self.holder.is_open:
            return False
        try:
            async with asyncio.timeout(_CLEAN_WITHIN_S):
                return await self._cleaned
        except TimeoutError:
            return False

    async def end(self) -> None:
        """End everything inside; return when it is gone."""
        self.holder.kill()
        self._close_way_out()
        try:
            await self.holder.gone()
        finally:
            self._words.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, command: ProgramCommand, way_out: WayOut | None) -> Holder:
        if way_out is None or command.gateway is None:
            return self._hold(command)
        child = ChildPid()
        try:
            holder = self._hold(command, ["--info-fd", "7"], [child.theirs])
        except BaseException:
            child.close()
            raise
        finally:
            close(child.theirs)
        self._opening = asyncio.ensure_future(_open_way_out(way_out, child, command.gateway.port))
        return holder

    def _hold(self, command: ProgramCommand, options: Sequence[str] = (), further: Sequence[int] = ()) -> Holder:
        starts, self._starts = _pipe()
        shell, nothing = _shell_file(), os.open(os.devnull, os.O_RDWR)
        syscall_filter = syscalls.opened(makes_sandboxes=command.makes_sandboxes)
        inside = [*options, "--perms", "0111", "--file", "5", _SHELL, "--ro-bind", str(self._folder), INSIDE]
        held = replace(command, gateway=None)  # its way out is no part of the sandbox's files
        words = [*containment.bubblewrap(held, inside), _SHELL, "-c", _first_process(held)]
        try:
            further = [syscall_filter, shell, starts, *further]
            return Holder.start(words, {}, (nothing, nothing, nothing), self._hear, further=further)
        except BaseException:
            self._close_starts()
            self._words.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        finally:
            close(shell, nothing, syscall_filter, starts)

    def _close_way_out(self) -> None:
        if self._opening is None or self._opening.cancel() or self._opening.cancelled():
            return
        if self._opening.exception() is None:
            self._opening.result().close()

    def _open(self) -> OurEnds:
        """Our ends of the pipes. Until the sandbox opens its ends, a reader of ours keeps the input."""
        path = str(self._folder)
        opened: list[int] = []
        try:
            for name, mode in (("in", os.O_RDONLY), ("in", os.O_WRONLY), ("out", os.O_RDONLY), ("error", os.O_RDONLY)):
                opened.append(os.open(f"{path}/{name}", mode | os.O_NONBLOCK | os.O_CLOEXEC))
        except BaseException:
            close(*opened)
            raise
        self._reader_of_input = opened[0]
        return OurEnds(*opened[1:])

    def _close_input(self) -> None:
        if self._reader_of_input is not None:
            os.close(self._reader_of_input)
            self._reader_of_input = None

    def _close_starts(self) -> None:
        if self._starts is not None:
            os.close(self._starts)
            self._starts = None

    def _hear(self, said: bytes | None) -> None:
        if said is None:
            self._close_input()
            self._close_starts()
            self._close_way_out()
            self._answer(False)
            self._on_code(None)
            self.on_end()
            return
        turn, _, word = said.partition(b" ")
        if turn == b"%d" % (self._turn + 1):
            self.holder.kill()  # what was to become the next program is gone
        if turn != b"%d" % self._turn:
            return  # an empty line, or about an earlier turn
        if word in (b"clean", b"spent"):
            self._answer(word == b"clean")
        elif self._cleaned is None:  # else it is the same end, told once more
            self._cleaned = asyncio.get_running_loop().create_future()
            self._close_input()
            self.holder.say(b"end\n")
            self._on_code(word)

    def _answer(self, is_clean: bool) -> None:
        if self._cleaned is not None and not self._cleaned.done():
            self._cleaned.set_result(is_clean)


def _first_process(command: ProgramCommand) -> str:
    """The script of the first process. Where the program's folder is below /tmp, it must stay when /tmp is emptied."""
    binds = [str(path) for path in containment.shown(command)]
    kept = sorted({part for path in binds for part in _below_memory(path)})
    folders = [*_IN_MEMORY, *(path for path in kept if path not in binds)]
    return _FIRST_PROCESS.format(
        inside=INSIDE,
        in_memory=" ".join(_IN_MEMORY),
        looked_at=" ".join(shlex.quote(path) + rest for path in folders for rest in ("/*", "/.[!.]*", "/..?*")),
        kept="|".join(map(shlex.quote, kept)) or "''",
        excepted=" ".join(f"! -path {shlex.quote(_SPECIAL.sub(_escaped, path))}" for path in kept),
    )


def _below_memory(path: str) -> list[str]:
    """The path and the folders above it, as far as they are in memory."""
    parts = [Path(path), *Path(path).parents]
    return [str(each) for each in parts if any(Path(top) in each.parents for top in _IN_MEMORY)]


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found.group()}"


def _words(command: ProgramCommand) -> str:
    """The shell's words that become the program, each quoted."""
    plain = {name: value for name, value in command.environment.items() if _is_plain(name)}
    odd = [f"{name}={value}" for name, value in command.environment.items() if not _is_plain(name)]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in plain.items()]
    words = [*(["env", *odd] if odd else []), *command.words]
    # Opened for both ways first: a reader alone would wait for a writer, and ours may have closed its end already.
    pipes = f"exec 4<>{INSIDE}/in <{INSIDE}/in 4<&- >{INSIDE}/out 2>{INSIDE}/error"
    return "\n".join([*lines, pipes, f"exec {shlex.join(words)}", ""])


def _is_plain(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in _OF_SHELLS


def _shell_file() -> int:
    fd = os.open(os.path.realpath("/bin/sh"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return out_of_the_way(fd)
    finally:
        os.close(fd)


def _pipe() -> tuple[int, int]:
    """The end for the first process, and ours."""
    read, write = os.pipe()
    try:
        return out_of_the_way(read), write
    finally:
        os.close(read)


async def _open_way_out(way_out: WayOut, child: ChildPid, port: int) -> asyncio.Server:
    return await way_out(await asyncio.to_thread(child.read), port)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
