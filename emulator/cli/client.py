"""The client of the REST API: a path of segments, JSON both ways, and each error response as an ``EmulatorError``.

The address and the token come from the running emulator or, for a Postroom elsewhere, from ``POSTROOM_URL`` and
``POSTROOM_API_TOKEN``. A token is never an option, because the shell's history and the list of processes would show it.
It is never sent unencrypted to another machine.
"""

import http.client
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.base.hints import STATE, command_line
from emulator.base.state import StateFolder, find_running
from shared.core.text import half_characters
from shared.core.time import clock

URL = "POSTROOM_URL"
DOOR_TOKEN = "EMULATOR_TOKEN"  # noqa: S105 - as in emulator/base/door.py
TOKEN = "POSTROOM_API_TOKEN"  # noqa: S105 - the variable's name
_LIMIT_S = 30.0
_LOCAL_LIMIT_S = 5.0
_LISTED = re.compile(r"GET /api/([a-z]+) lists them")
_AS_COMMANDS: Mapping[str, str] = {
    "POST /api/messages/{id}/cancel": "messages cancel MESSAGE",
    "DELETE /api/schedules/{id}": "schedules cancel SCHEDULE",
    "DELETE /api/users/{id}/roles/{role}": "users revoke USER ROLE",
}
_AS_OPTIONS: Mapping[str, str] = {
    "?force=true": "--force",
    "?others=remove": "--instead",
    "?others=keep": "--also",
    "runAt '": "--at '",
    "give the plan's agents other ids": "add --prefix old-",
    "set sameAgents": "add --same-agents",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FAILURES: Mapping[int, type[EmulatorError]] = {
    400: errors.InvalidInput,
    401: errors.Unsafe,
    403: errors.Unsafe,
    404: errors.DoesNotExist,
    413: errors.InvalidInput,
    503: errors.TimedOut,
}


@dataclass(frozen=True, slots=True)
class RestClient:
    """One Postroom's API.

    Args:
        url: without a path.
        state: the folder of the emulator that serves it, if the API was found by that folder.
        is_by_option: the URL was an option, so the commands in hints need it too.
        past: the sentence of a copy of the past, if the emulator in *state* is one.
        limit_s: how long an answer may take.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    state: Path | None = None
    is_by_option: bool = False
    past: str | None = None
    limit_s: float = _LIMIT_S

    @property
    def clock(self) -> Path | None:
        """The file of the emulator's clock; None: it is no emulator's."""
        return StateFolder(self.state.resolve()).clock if self.state is not None else None

    def get(self, *path: str | int, **query: str | int | None) -> Any:
        """``GET /api/PATH?QUERY``, without the parameters that are None."""
        return self._call("GET", path, query)

    def put(self, *path: str | int, body: Mapping[str, Any] | None = None, **query: str | int | None) -> Any:
        """``PUT /api/PATH?QUERY``."""
        return self._call("PUT", path, query, body or {})

    def patch(self, *path: str | int, body: Mapping[str, Any]) -> Any:
        """``PATCH /api/PATH``."""
        return self._call("PATCH", path, body=body)

    def post(self, *path: str | int, body: Mapping[str, Any] | None = None, **query: str | int | None) -> Any:
        """``POST /api/PATH?QUERY``."""
        return self._call("POST", path, query, body or {})

    def delete(self, *path: str | int, **query: str | int | None) -> Any:
        """``DELETE /api/PATH?QUERY``."""
        return self._call("DELETE", path, query)

    def retry_all(self, path: str) -> list[Any]:
        """``POST /api/PATH/dead/retry`` until none is left; returns the ids of the retried rows, oldest first."""
        retried: list[Any] = []
        after: int | None = 0
        while after is not None:
            answer = self.post(path, "dead", "retry", after=after)
            retried += answer["retried"]
            after = answer["next"]
        return retried

    def command_line(self, arguments: str) -> str:
        """A command line for a hint, about the same Postroom."""
        return command_line(arguments, self.state) + (f" --url {self.url}" if self.is_by_option else "")

    def _call(
        self,
        method: str,
        path: tuple[str | int, ...],
        query: Mapping[str, str | int | None] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        target = "/api/" + "/".join(_segment(str(part)) for part in path)
        named = {name: half_characters.mend(str(value)) for name, value in (query or {}).items() if value is not None}
        status, text = self._exchange(method, target + (f"?{urlencode(named)}" if named else ""), body)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if 200 <= status < 300 and answer is not None:
            return answer
        raise self._failure(status, f"{method} {target}", answer)

    def _failure(self, status: int, request: str, answer: Any) -> EmulatorError:
        sentence = answer.get("error") if isinstance(answer, dict) else None
        if status == 401 and self.state is None:
            return errors.Unsafe(
                f"{self.url} refuses the token in {TOKEN}: set it to the value that Postroom was started with"
                if self.token
                else f"{self.url} requires a token: set {TOKEN} to the value that Postroom was started with. "
                f"It says: {sentence}"
            )
        if not isinstance(sentence, str) or sentence in ("Not Found", "Method Not Allowed"):
            if status in (404, 405):
                return EmulatorError(f"{self.url} has no {request}: it is another release than this command")
            return EmulatorError(f"{self.url} answered {status} to {request}; the reason is in its log")
        return _FAILURES.get(status, EmulatorError)(self._as_commands(sentence))

    def _as_commands(self, sentence: str) -> str:
        """The API's error, with our commands and options in place of its routes."""
        for route, arguments in _AS_COMMANDS.items():
            sentence = sentence.replace(route, f"`{self.command_line(arguments)}`")
        for query, option in _AS_OPTIONS.items():
            sentence = sentence.replace(query, option)
        return _LISTED.sub(lambda found: f"`{self.command_line(f'{found[1]} list')}` lists them", sentence)

    def _exchange(self, method: str, target: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Status and body."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            return _request(self.url, method, target, headers, body, limit_s=self.limit_s)
        except TimeoutError:
            outcome = "" if method == "GET" else "; the change may be done or not: check before you repeat it"
            raise errors.TimedOut(f"{self.url} did not answer within {self.limit_s:g} s{outcome}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise errors.NotReady(f"{self.url} does not answer: {reason}") from None


@contextmanager
def time_of(api: RestClient) -> Iterator[None]:
    """Tell the time meanwhile as the rows of *api* do: it is asked as soon as the time is needed, and once."""
    asked = cache(lambda: _clock_of(api))
    clock.move(lambda machine_ms: asked()(machine_ms))
    try:
        yield
    finally:
        clock.move(None)


def _clock_of(api: RestClient) -> Callable[[int], int]:
    """From the machine's clock to that of the rows; a copy of the past stands still."""
    try:
        found = api.get("past")
    except EmulatorError:  # an earlier release; or it has just ended, and the command finds that out by itself
        found = {}
    if found.get("past"):
        at_ms: int = found["past"]["at"]
        return lambda _: at_ms
    ahead_ms: int = found["now"] - clock.machine_ms() if "now" in found else 0
    return lambda machine_ms: machine_ms + ahead_ms


def get_json(url: str, target: str, headers: Mapping[str, str] | None = None) -> Any:
    """The parsed response to a GET; None if there is none."""
    try:
        return json.loads(_request(url, "GET", target, headers or {}, None, limit_s=_LOCAL_LIMIT_S)[1])
    except (OSError, ValueError, http.client.HTTPException):
        return None


def post_json(
    url: str, target: str, headers: Mapping[str, str], *, body: Mapping[str, Any] | None = None, limit_s: float | None
) -> tuple[int, dict[str, Any]]:
    """Status and parsed response of a POST; *limit_s*: None waits for ever.

    Raises:
        OSError: there was no answer.
    """
    try:
        status, text = _request(url, "POST", target, headers, body or {}, limit_s=limit_s)
        answer = json.loads(text)
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(str(error)) from None
    return status, answer if isinstance(answer, dict) else {}


def _request(
    url: str,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: Mapping[str, Any] | None,
    *,
    limit_s: float | None,
) -> tuple[int, bytes]:
    """Status and body. Not by urllib, which would use the proxies of the shell.

    Raises:
        OSError, http.client.HTTPException: there was no answer.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=limit_s)
    try:
        connection.request(
            method,
            target,
            None if body is None else half_characters.mend(json.dumps(body, ensure_ascii=False)).encode(),
            dict(headers) if body is None else {**headers, "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def find(folder: Path | None, url: str | None, environ: Mapping[str, str] = os.environ) -> RestClient:
    """The API of the emulator in *folder*; else the API at *url*; else the API of the emulator in the default folder.

    Args:
        url: from the command line or from the environment; *folder* overrules the environment.

    Raises:
        EmulatorError: no emulator runs there, or the address can't be used.
    """
    _check_one(folder, url, environ)
    if folder is None and url is not None:
        address = _checked(url, environ.get(TOKEN))
        return RestClient(address, environ.get(TOKEN), is_by_option=url != environ.get(URL))
    state = folder or STATE
    instance = instance_in(state)
    past = (instance.get("past") or {}).get("sentence")
    own = instance["environment"]
    return RestClient(instance["urls"]["api"], own.get(TOKEN) or own.get(DOOR_TOKEN), state, past=past)


def instance_in(state: Path) -> dict[str, Any]:
    """The running emulator in the folder, as :func:`emulator.base.state.find_running` describes it.

    Raises:
        EmulatorError: none runs there, or it is still starting.
    """
    instance = find_running(StateFolder(state.resolve()))
    if instance is None:
        raise errors.NotReady(
            f"no emulator is running in {state}: start it with `{command_line('run', state)}`. For a Postroom "
            f"elsewhere set {URL} and {TOKEN}"
        )
    if not instance:
        raise errors.TimedOut(f"the emulator in {state} is still starting: try again in a moment")
    return instance


def no_answer(instance: Mapping[str, Any], state: Path) -> EmulatorError:
    """The error of an emulator that runs and does not answer; and why, where the kernel knows it."""
    from shared.db.engine.writer_process.remote import STOPPED, why_it_hangs  # late: few commands meet it

    pid = instance["pid"]
    why = why_it_hangs(pid, STOPPED)
    next_ = f"`kill -CONT {pid}` lets it go on" if why else f"`{command_line('logs', state)}` shows its last lines"
    said = f"emulator[{pid}] does not answer at {instance['urls']['gateway']}"
    return errors.NotReady(f"{said}: {why or 'it hangs, or this machine is very busy'}. {next_}")


def _check_one(folder: Path | None, url: str | None, environ: Mapping[str, str]) -> None:
    if folder is not None and url not in (None, environ.get(URL)):
        raise errors.UsageError("--state and --url name two different Postrooms: use only one of them")


def door_headers(instance: Mapping[str, Any]) -> dict[str, str]:
    """The headers that open the own paths of a running emulator, also where the kernel can't tell our user."""
    token = instance["environment"].get(DOOR_TOKEN)
    return {"Authorization": f"Bearer {token}"} if token else {}


def ask_platforms(state: Path, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The answer of the fake platforms of the emulator in *state* to a call of their control API.

    Raises:
        EmulatorError: they don't answer, or refuse; the message says why.
    """
    instance = instance_in(state)
    url = instance["urls"]["platforms"]
    try:
        status, text = _request(url, method, path, door_headers(instance), body, limit_s=_LIMIT_S)
        answer = json.loads(text)
    except (OSError, http.client.HTTPException, ValueError):
        raise errors.NotReady(f"the fake platforms at {url} do not answer: is the emulator starting?") from None
    if not 200 <= status < 300:
        raise _FAILURES.get(status, EmulatorError)(str(answer.get("error", status)))
    return answer


def move_clock(state: Path, move: Mapping[str, Any]) -> dict[str, Any]:
    """Move the clock of the emulator in *state*; what the clock says then. It waits for as long as the move takes.

    Raises:
        EmulatorError: none runs there, or it refuses the move.
    """
    instance = instance_in(state)
    url = instance["urls"]["gateway"]
    try:
        status, facts = post_json(url, "/_emulator/clock", door_headers(instance), body=move, limit_s=None)
    except OSError as error:
        raise errors.NotReady(f"emulator[{instance['pid']}] does not answer at {url}: {error}") from None
    if status != 200:
        kinds = {kind.exit_code: kind for kind in (errors.InvalidInput, errors.TimedOut)}
        raise kinds.get(facts.get("code", 0), EmulatorError)(facts.get("error", f"{url} answered {status}"))
    return facts


def emulator_folder(folder: Path | None, url: str | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The state folder of the emulator that a command is about; None if it is about the Postroom at *url*.

    ``emulator exec`` sets the address of its emulator for its command, and the folder beside it.

    Raises:
        UsageError: both are given.
    """
    _check_one(folder, url, environ)
    if folder is not None or url is None:
        return folder or STATE
    is_of_exec = url == environ.get(URL) == environ.get("EMULATOR_API")
    return Path(environ["EMULATOR_STATE"]) if is_of_exec and "EMULATOR_STATE" in environ else None


def _segment(text: str) -> str:
    if not text or text in (".", "..") or "/" in text:  # servers and proxies would read another path
        raise errors.InvalidInput(f"{text!r} is not an id")
    return quote(half_characters.mend(text), safe="")


def _checked(url: str, token: str | None) -> str:
    parts = urlsplit(url)
    try:
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.username or parts.path.strip("/") or parts.query or parts.fragment:
        raise errors.UsageError(
            "the address of a Postroom is such as http://127.0.0.1:3777, without a path or a password"
        )
    if token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise errors.Unsafe(
            f"{parts.hostname} would get the token unencrypted: use https or a tunnel "
            f"(ssh -L 3777:127.0.0.1:3777 HOST, and POSTROOM_URL=http://127.0.0.1:3777)"
        )
    return f"{parts.scheme}://{parts.netloc}"
