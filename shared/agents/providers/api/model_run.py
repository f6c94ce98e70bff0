"""One run of a model by pydantic-ai, which only this module and ``failures`` import; ``provider`` imports this late."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import httpx2
from pydantic_ai import Agent, BinaryContent, ModelMessagesTypeAdapter, Tool, ToolFailed, UsageLimits
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from shared.agents import briefing, own_files
from shared.agents.access import ProgramAccess, Toolbox, ToolSpec
from shared.agents.base import Acted, Failed, Progress, Turn
from shared.agents.providers.api.config import ApiConfig, Dialect
from shared.agents.providers.api.failures import failed
from shared.agents.providers.api.steering import ApiSteering

_HOST = "http://postroom"  # any name: the connection is a Unix socket
_WORDS_OR_NONE: list[type[str] | type[None]] = [str, type(None)]  # none, where the tools have said it all
_LARGEST_BLOCK = 5_000_000  # bytes of a file that goes to the model itself
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DOCUMENTS: dict[Dialect, tuple[str, ...]] = {"messages": ("application/pdf",), "responses": ("application/pdf",)}


class Answered(NamedTuple):
    """The model's last words, and all messages of the session as JSON."""

    text: str
    messages: bytes


async def run(
    config: ApiConfig, turn: Turn, access: ProgramAccess, before: bytes, steering: ApiSteering
) -> AsyncGenerator[Progress | Acted | Failed | Answered, None]:
    """Run the turn: what happens, then ``Answered`` or ``Failed``.

    Args:
        before: the messages of the session so far, as JSON.
        steering: what the model is told beside the results of its tools.
    """
    try:
        async with _client(turn, access) as client:
            agent = Agent(
                _model(config, turn, access, client),
                output_type=_WORDS_OR_NONE,
                instructions=briefing.text(turn),
                tools=_tools(turn),
                model_settings=ModelSettings(max_tokens=config.max_tokens) if config.max_tokens else None,
            )
            async with agent.iter(
                await asyncio.to_thread(_question, config, turn),
                message_history=ModelMessagesTypeAdapter.validate_json(before),
                usage_limits=UsageLimits(request_limit=config.max_requests),
            ) as running:
                async for node in running:
                    if Agent.is_model_request_node(node):
                        yield Progress("asks the model")
                        told = [UserPromptPart(text) for text in steering.take()]
                        node.request.parts = [*node.request.parts, *told]
                        async with node.stream(running.ctx) as stream:
                            async for _ in stream:
                                pass
                    elif Agent.is_call_tools_node(node):
                        if not node.model_response.tool_calls:
                            steering.close()
                        for part in node.model_response.tool_calls:
                            yield Acted(part.tool_name)
                result = running.result
            assert result is not None  # noqa: S101 - the run has ended
            yield Answered(result.output or "", result.all_messages_json())
    except AgentRunError as error:
        yield failed(error, turn.limits)


@contextlib.asynccontextmanager
async def _client(turn: Turn, access: ProgramAccess) -> AsyncIterator[httpx2.AsyncClient]:
    """A client over the gateway's socket. Silence of the model for the turn's idle time ends a request."""
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without one, httpx2 reads all of the machine's certificates
    transport = httpx2.AsyncHTTPTransport(uds=str(access.socket), verify=no_tls)
    limit_s = turn.limits.idle_ms / 1000
    async with httpx2.AsyncClient(transport=transport, timeout=limit_s, trust_env=False) as client:
        yield client


def _model(config: ApiConfig, turn: Turn, access: ProgramAccess, client: httpx2.AsyncClient) -> Model[Any]:
    name, url, limit_s = turn.model or "", f"{_HOST}{access.models}", turn.limits.idle_ms / 1000
    if config.dialect == "messages":
        from anthropic import AsyncAnthropic  # only the library of the dialect in use
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AsyncAnthropic(
            api_key=access.token, base_url=url, http_client=client, max_retries=0, timeout=limit_s
        )
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=anthropic))
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    openai = AsyncOpenAI(api_key=access.token, base_url=url, http_client=client, max_retries=0, timeout=limit_s)
    kind = OpenAIResponsesModel if config.dialect == "responses" else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(openai_client=openai))


def _question(config: ApiConfig, turn: Turn) -> str | Sequence[str | BinaryContent]:
    """The prompt, and the files of its messages that the model reads itself."""
    media_types = (*_IMAGES, *_DOCUMENTS.get(config.dialect, ()))
    blocks = [
        BinaryContent(found, media_type=each.media_type)
        for each in turn.attachments
        if each.media_type in media_types
        and (found := own_files.read_path(turn.folder, each.path, most_bytes=_LARGEST_BLOCK)) is not None
    ]
    return [turn.prompt, *blocks] if blocks else turn.prompt


def _tools(turn: Turn) -> list[Tool[None]]:
    if turn.tools is None:
        return []
    numbers = count(1)
    return [_tool(turn.tools, spec, numbers, turn.limits.tool_ms / 1000) for spec in turn.tools.specs()]


def _tool(toolbox: Toolbox, spec: ToolSpec, numbers: "count[int]", limit_s: float) -> Tool[None]:
    async def call(**arguments: Any) -> str:
        try:
            async with asyncio.timeout(limit_s):
                answer = await toolbox.call(spec.name, arguments, call_id=f"api-{next(numbers)}")
        except TimeoutError:
            raise ToolFailed(f"{spec.name} took longer than {limit_s:g} s. It may still have been done.") from None
        if answer.is_error:
            raise ToolFailed(answer.text)
        return answer.text

    return Tool.from_schema(call, spec.name, spec.description, dict(spec.schema), sequential=True)
