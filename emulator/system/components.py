"""The components of one emulator, made from its options and its template. The supervisor starts and stops them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from emulator.base import environment, ports
from emulator.base.clock_page import ClockPage
from emulator.base.console import Console
from emulator.base.door import Door
from emulator.base.errors import Misconfigured, NotReady
from emulator.base.fakes import PLATFORMS, place_of
from emulator.base.faults import FaultBook
from emulator.base.options import RunOptions
from emulator.base.shell import of_shell
from emulator.platforms import Platforms, PlatformsConfig
from emulator.processes.fork_client import ForkClient
from emulator.storage import past, past_chats, replica
from emulator.storage.s3_process import S3Process
from emulator.system import hangs
from emulator.system.functions import Function, Functions
from emulator.system.gateway import Gateway
from emulator.system.relay import RelayProcess
from infra.litestream import lease_ms_from, lease_on, retention_ms_from
from infra.template import deployment
from infra.template.cloudformation import TemplateInvalid
from infra.template.specs import Deployment, TickSpec
from shared.conversation.alerts import faults_by_hand
from shared.core.durability import behind, needs_replica
from shared.runtime import operator_token

if TYPE_CHECKING:
    from emulator.system.model_hosts import ModelHosts

_ANSWER_LIMIT_S = 1.0
_HEALTH_LIMIT_S = 4.0  # the API asks Litestream, for two seconds at most
API_PORT = 3777  # TinyAGI's clients call this port


class Sockets(msgspec.Struct):
    """All listening sockets. They are bound before anything starts, so every address is known from the beginning."""

    gateway: ports.ListeningSocket
    s3: ports.ListeningSocket
    platforms: ports.ListeningSocket
    functions: dict[str, ports.ListeningSocket] = msgspec.field(default_factory=dict)

    def close(self) -> None:
        for listening in (self.gateway, self.s3, self.platforms, *self.functions.values()):
            listening.sock.close()


class EmulatorHealth(NamedTuple):
    """A sentence for each thing that *stops* the work, that *needs* a person meanwhile, that is as one *wants* it."""

    stops: list[str]
    needs: list[str]
    wanted: list[str]


class Components:
    """Everything that one emulator has.

    Args:
        kept: the result of ``StateFolder.kept``; the ports are written back to it.
        clock: of this emulator; this process follows it.
        s3, fork_client: running already, S3 on *s3_socket*.
        status: what the gateway answers at ``/_emulator/status``, and in short at ``/_emulator/ready``.
    """

    def __init__(
        self,
        options: RunOptions,
        kept: dict[str, Any],
        environ: Mapping[str, str],
        console: Console,
        *,
        clock: ClockPage,
        s3: S3Process,
        s3_socket: ports.ListeningSocket,
        fork_client: ForkClient,
        status: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        self.options = options
        self.state = options.state
        self.tick_secret: str = kept["tick_secret"]
        self.clock = clock
        self.s3 = s3
        self.fork_client = fork_client
        self.deployment = read_template(options.template)
        self.past = past.opened_in(self.state)
        if self.past is not None:
            past_chats.write(self.state.platforms, self.state.database)
        self.files = environment.read_files(options.project)
        self.known_variables: frozenset[str] = frozenset()  # of our own settings models
        self._from_shell: Sequence[str] = environment.FROM_SHELL
        self._of_gateway: Mapping[str, str | None] = {}  # settings of the model gateway, with their defaults
        self._model_hosts: ModelHosts | None = None  # from the first fault of models on
        self._environ = environ
        self.aws = of_shell(environ) | environment.DUMMY_AWS
        self.sockets = self._bind(s3_socket, kept)
        token = operator_token.read_or_make(self.state.database)
        self.door = Door(token, operator_token.path_of(self.state.database).name)
        self.faults = FaultBook(self.state.run, self._fault_readers)
        self.s3.on_fault_taken = partial(self.faults.learn, "bucket")
        self.platforms = Platforms(
            PlatformsConfig(
                state=self.state.path,
                webhook_urls={name: f"{self.url}/webhooks/{name}" for name in PLATFORMS},
                door=self.door,
                account_tokens=self.state.database.with_name(self.state.database.name + ".tokens"),
                unwell=self._sentences,
                why=self._why,
                faults=self.faults.of,
                before_fault=self._before_fault,
                registered=partial(_keep_address, self.state.database),
            )
        )
        self.litestream = self._litestream(console)
        has_relay = options.relay and self.past is None
        self.relay = RelayProcess(options.project, console, self.state.clock) if has_relay else None
        self.functions = Functions(fork_client, console)
        for spec in self.deployment.functions:
            self.functions.add(Function(spec, self.sockets.functions[spec.name].sock, {}))
        self.gateway = Gateway(
            self.deployment.routes,
            lambda name: self.functions[name].upstream,
            status=status,
            platforms=lambda: self.platforms.url,
            door=self.door,
            network=self.faults.of["network"],
        )

    @property
    def ticks(self) -> Sequence[TickSpec]:
        """The ticks of the template; none in the past, where nothing becomes due."""
        return () if self.past is not None else self.deployment.ticks

    def look_at_past(self) -> None:
        """Read the mark of the database again: a restore from the own bucket may have brought it."""
        self.past = past.opened_in(self.state)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sockets.gateway.port}"

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.sockets.functions['api'].port}"

    @property
    def replica_url(self) -> str:
        return replica.url(self.sockets.s3.port)

    async def find_health(self) -> EmulatorHealth:
        """What the API says of Postroom's health, and what only the emulator knows of its own processes."""
        durability = self.functions["api"].environment.get("POSTROOM_DURABILITY", "local")
        functions = self.functions.all
        asking = asyncio.ensure_future(self._ask_api("/api/health"))
        s3_answers, *_ = await asyncio.gather(
            self.gateway.answers(self.s3.url, limit_s=_ANSWER_LIMIT_S),
            *(hangs.look(each, self.gateway, self.state) for each in functions),
        )
        is_api_up = self.functions["api"].is_up
        answer = await asking if is_api_up else None
        asking.cancel()  # nothing that hangs or is down will answer
        stops = [f"{each.name} does not run: {each.problem or each.hangs}" for each in functions if not each.is_up]
        if self.relay is not None and self.relay.problem is not None:
            stops.append(f"the Discord relay is down: {self.relay.problem}")
        if answer is None and is_api_up:
            stops.append(f"api does not answer within {_HEALTH_LIMIT_S:.0f} s at {self.api_url}")
        silent = None if s3_answers else f"S3 (process {self.s3.pid}) does not answer within {_ANSWER_LIMIT_S:.0f} s"
        of_replica = of_storage(
            self.s3.problem, silent and f"{silent} at {self.s3.url}", self.litestream.problem, durability
        )
        said = answer or {"notReady": [], "needsYou": [], "asWanted": []}
        if needs_replica(durability):
            stops += of_replica
        needs = [] if needs_replica(durability) else of_replica
        by_hand = self.faults.sentences()
        wanted = [*by_hand, *(each for each in said["asWanted"] if not each.startswith(faults_by_hand.BEGIN))]
        return EmulatorHealth(_and(stops, said["notReady"]), _and(needs, said["needsYou"]), wanted)

    def _fault_readers(self) -> list[int]:
        """The processes that fail by faults of the book."""
        current = [function.current for function in self.functions.all]
        pids = [self.s3.pid, *(process.pid for process in current if process is not None)]
        return [pid for pid in pids if pid is not None]

    async def _ask_api(self, path: str) -> Any:
        """What the API answers to a GET of *path*; None where no answer comes in time, or another than 200."""
        token = self.functions["api"].environment.get("POSTROOM_API_TOKEN") or self.door.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self.gateway.read_json(f"{self.api_url}{path}", headers, limit_s=_HEALTH_LIMIT_S)

    async def _why(self, account: str, chat: str, message: str) -> Mapping[str, Any] | None:
        """Why a message of the chat page has no answer, as ``emulator why`` says it. An interaction's id is enough."""
        asked = {"ref": message, "channel": account, "limit": 1, **place_of(account, chat)}
        found = await self._ask_api("/api/why?" + urlencode(asked))
        return {key: found[0][key] for key in ("state", "reason", "until")} if found else None

    async def _sentences(self) -> list[str]:
        """What the chat page tells, in the words of ``emulator status``."""
        if self.past is not None:
            return [self.past.sentence[0].upper() + self.past.sentence[1:]]
        found = await self.find_health()
        stops, needs = (f"not ready: {each}" for each in found.stops), (f"needs you: {each}" for each in found.needs)
        moved = [sentence[0].upper() + sentence[1:]] if (sentence := self.clock.facts.sentence) else []
        return [*moved, *self.platforms.faults(), *stops, *needs]

    def own_environment(self) -> dict[str, str]:
        """The variables that no file can override, because they keep a local run local."""
        return {
            **self.platforms.environment(),
            "POSTROOM_DB": str(self.state.database),
            "POSTROOM_RUN_DIR": str(self.state.run),
            "POSTROOM_TICK_SECRET": self.tick_secret,
            "POSTROOM_PUBLIC_URL": self.url,
            "POSTROOM_REPLICA_URL": self.replica_url,
            "POSTROOM_LITESTREAM_SOCKET": str(self.litestream.control),
            "POSTROOM_AGENTS_DIR": str(self.state.agents),
            **(environment.OF_PAST if self.past is not None else {}),
        }

    def read_files(self) -> None:
        """Read the files of settings again, for the processes that start from now on.

        Raises:
            EmulatorError: a file can't be used; the settings stay as they are.
        """
        self.files = environment.read_files(self.options.project)
        self.set_environments()

    def learn_variables(self, known: Iterable[str], of_gateway: Mapping[str, str | None]) -> None:
        """Take in the variables that our settings models read: all, and those of the model gateway with their defaults.

        This process does not load the models: they would delay its start.
        """
        self.known_variables, self._of_gateway = frozenset(known), of_gateway
        self._from_shell = (*environment.FROM_SHELL, *of_gateway)
        self.set_environments()

    def notes_on_settings(self) -> list[str]:
        """A sentence for each line of the files that has no effect, and one about the shell."""
        own = self.own_environment()
        declared = {name for spec in self.deployment.functions for name in (*spec.environment, *spec.secrets)}
        known = {*self.known_variables, *own, *declared, *self.deployment.emulator_environment}
        effective = {setting.name: setting.value for setting in self._used_files} | own
        return [
            *environment.ignored(self.files, own),
            *environment.unknown(self._used_files, known),
            *environment.ignored_of_shell(self._environ, effective, known, self._from_shell),
        ]

    @property
    def _used_files(self) -> list[environment.EnvSetting]:
        """The settings of files that have an effect. In the past no setting of a platform's account has one."""
        return self.files if self.past is None else environment.without_accounts(self.files)

    def set_environments(self) -> None:
        """Give every function its environment, from the template as it is now."""
        own = self.own_environment()
        for spec in self.deployment.functions:
            found = environment.for_function(
                self._environ,
                spec.environment,
                self.deployment.emulator_environment,
                self._used_files,
                own,
                self._from_shell,
            )
            instead = self._model_hosts.instead(found) if self._model_hosts is not None else {}
            self.functions[spec.name].environment = found | instead

    async def _before_fault(self, target: str) -> None:
        """Before a fault of models: dispatch asks us in place of the hosts from now on.

        Raises:
            NotReady: it does not, because it can't be started anew; the fault would do nothing.
        """
        if target != "models":
            return
        if self._model_hosts is None:
            from emulator.system.model_hosts import ModelHosts  # most emulators have no fault of models

            self._model_hosts = hosts = ModelHosts(self.faults.of["models"], self._of_gateway)
            await hosts.start()
            self.set_environments()
        dispatch = self.functions["dispatch"]
        if dispatch.current is None or self._model_hosts.is_asked_with(dispatch.runs_with):
            return  # where it is down, its next process asks us
        await self.functions.reload(["dispatch"], because="the address of the hosts of models")
        if dispatch.stale is not None:
            raise NotReady(f"dispatch has to start anew for a fault of models, and {dispatch.stale}: mend that first")

    async def stop_platforms(self) -> None:
        """Stop the fake platforms, and what stands before the hosts of models."""
        if self._model_hosts is not None:
            await self._model_hosts.stop()
        await self.platforms.stop()

    def _bind(self, s3: ports.ListeningSocket, kept: dict[str, Any]) -> Sockets:
        sockets = Sockets(
            gateway=ports.listen(self.options.port), s3=s3, platforms=ports.listen(kept["ports"].get("platforms") or 0)
        )
        for spec in self.deployment.functions:
            # People call the api directly; they reach the other functions through the gateway.
            # Of the past, programs that call the usual ports know nothing.
            usual = API_PORT if spec.name == "api" else spec.port
            sockets.functions[spec.name] = ports.listen(0 if self.past is not None else usual)
        kept["ports"] = {"s3": s3.port, "platforms": sockets.platforms.port}
        self.state.keep(kept)
        return sockets

    def _litestream(self, console: Console) -> replica.EmulatorLitestream:
        state = self.state
        return replica.EmulatorLitestream(
            database=state.database,
            replica=self.replica_url,
            run=state.run,
            lease=lease_on(self.replica_url, state.owner, state.database, self.aws, lease_ms_from(self._environ)),
            environment=self.aws | {"GOGC": "25"},  # its heap is small, and is kept so: 4 MB less
            on_line=lambda text: console.line("replica", text),
            on_trouble=lambda text: console.event("replica", text, level="warning"),
            retention_ms=retention_ms_from(self._environ),
        )


def of_storage(down: str | None, silent: str | None, lag: str | None, durability: str) -> list[str]:
    """The sentences about S3 and the replica in it. Pure.

    Args:
        down: why S3 does not run. *silent*: the sentence where S3 does not answer.
        lag: why commits do not reach S3. *durability*: ``POSTROOM_DURABILITY``.
    """
    of_s3 = silent if down is None else f"S3 is down: {down}"
    return [each for each in (of_s3, lag and behind(lag, durability)) if each]


def _and(known: Sequence[str], more: Sequence[str]) -> list[str]:
    """Both, without what is *known*, with a nearer reason: that replication is behind, that a function does not run."""
    subjects = {each.partition(":")[0] for each in known}
    return [*known, *(each for each in more if each.partition(":")[0] not in subjects)]


def _keep_address(database: Path, account: str, url: str) -> None:
    from emulator.storage import own_address  # with the settings models, which the start does not wait for

    own_address.keep(database, account, url)


def read_template(path: Path) -> Deployment:
    """The deployment that the template describes.

    Raises:
        Misconfigured: every problem of the template, each with its place.
    """
    if not path.is_file():
        raise Misconfigured(
            f"{path} does not exist: start in the project's folder, or name the template with --template"
        )
    try:
        found = deployment.load(path)
    except TemplateInvalid as error:
        raise Misconfigured(f"{path.name} can't be used:\n{error}") from None
    if not any(function.name == "api" for function in found.functions):
        raise Misconfigured(f"{path} has no function 'api'; REST clients and this command need it")
    return found
