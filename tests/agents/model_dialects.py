"""The three dialects of model APIs, for a scripted model: requests read, answers written whole or as a stream.

Sources: docs.anthropic.com (messages, streaming), platform.openai.com (chat completions, responses).
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.model_script import Answer, Conversation, Entry, tool_named

Json = dict[str, Any]
Event = tuple[str | None, Json | str]
"""The name of an event of a stream, where the dialect names them, and its data."""


class Messages:
    """Anthropic's messages."""

    path = "/messages"

    def read(self, body: Json) -> Conversation:
        found = Conversation(body.get("model", ""), _text(body.get("system")), is_streamed=bool(body.get("stream")))
        found.tools = [tool["name"] for tool in body.get("tools") or ()]
        for message in body["messages"]:
            for block in _blocks(message["content"]):
                self._block(found, message["role"], block)
        return found

    def _block(self, found: Conversation, role: str, block: Json) -> None:
        match block["type"]:
            case "text" if role == "system":
                found.system += "\n" + block["text"]
            case "text" if not block["text"].lstrip().startswith("<system-reminder>"):
                found.entries.append(Entry(role, block["text"]))
            case "tool_use":
                found.entries.append(Entry("call", block["name"]))
            case "tool_result":
                found.entries.append(Entry("result", _text(block.get("content")), block.get("is_error") is True))
            case "image" | "document":
                source = block["source"]
                data = source.get("data", "")
                found.media.append(f"{source.get('media_type', source['type'])} {len(data)}")

    def write(self, conversation: Conversation, answer: Answer) -> Json:
        blocks: list[Json] = []
        if answer.thinking:
            blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": "c2lnbmVk"})
        if answer.text:
            blocks.append({"type": "text", "text": answer.text})
        if answer.call:
            name, arguments = answer.call
            name = tool_named(name, conversation.tools)
            blocks.append(
                {"type": "tool_use", "id": _call_id("toolu_", conversation, answer), "name": name, "input": arguments}
            )
        reason = "refusal" if answer.is_refusal else "tool_use" if answer.call else "end_turn"
        return {
            "id": f"msg_{len(conversation.entries) - 2 * answer.is_again:04}",  # Claude Code joins those of one id
            "type": "message",
            "role": "assistant",
            "model": conversation.model,
            "content": blocks,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": _tokens_in(conversation), "output_tokens": _tokens_out(answer)},
        }

    def events(self, conversation: Conversation, answer: Answer) -> Iterator[Event]:
        whole = self.write(conversation, answer)
        usage = {**whole["usage"], "output_tokens": 1}
        begun = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield _named({"type": "message_start", "message": begun})
        for index, block in enumerate(whole["content"]):
            yield from (_named({"type": kind, "index": index, **data}) for kind, data in self._parts(block))
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _named({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
        yield _named({"type": "message_stop"})

    def _parts(self, block: Json) -> Iterator[tuple[str, Json]]:
        empty: Json
        match block["type"]:
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
            case "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case _:
                empty = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield "content_block_start", {"content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"delta": delta}
        yield "content_block_stop", {}

    def error(self, status: int, text: str) -> Json:
        kinds = {401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
                 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}  # fmt: skip
        fallback = "api_error" if status >= 500 else "invalid_request_error"
        return {"type": "error", "error": {"type": kinds.get(status, fallback), "message": text}}

    def quota(self, until_s: int, wait_s: int) -> tuple[Json, dict[str, str]]:
        headers = {
            "retry-after": str(wait_s),
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(until_s),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        }
        return self.error(429, "This request would exceed your account's rate limit."), headers


class _OpenAI:
    """What OpenAI's two dialects share."""

    def error(self, status: int, text: str) -> Json:
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        return {"error": {"message": text, "type": "scripted", "param": None, "code": codes.get(status)}}

    def quota(self, until_s: int, wait_s: int) -> tuple[Json, dict[str, str]]:
        text = "You exceeded your current quota, please check your plan and billing details."
        kind = "insufficient_quota"
        return {"error": {"message": text, "type": kind, "param": None, "code": kind}}, {"retry-after": str(wait_s)}


class Chat(_OpenAI):
    """OpenAI's chat completions."""

    path = "/chat/completions"

    def read(self, body: Json) -> Conversation:
        found = Conversation(body.get("model", ""), is_streamed=bool(body.get("stream")))
        found.tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
        for message in body["messages"]:
            role = message["role"]
            if role in ("system", "developer"):
                found.system += _text(message["content"])
            elif role == "tool":
                found.entries.append(Entry("result", _text(message["content"])))
            else:
                if text := _text(message.get("content")):
                    found.entries.append(Entry(role, text))
                found.entries += [Entry("call", call["function"]["name"]) for call in message.get("tool_calls") or ()]
                found.media += _media(message.get("content"))
        return found

    def write(self, conversation: Conversation, answer: Answer) -> Json:
        message: Json = {"role": "assistant", "content": answer.text or None}
        if answer.is_refusal:
            message["refusal"] = "I can't help with that."
        if answer.call:
            message["tool_calls"] = [self._call(conversation, answer, answer.call)]
        choice = {"index": 0, "message": message, "finish_reason": self._reason(answer), "logprobs": None}
        return {
            **self._head(conversation, "chat.completion"),
            "choices": [choice],
            "usage": _usage(conversation, answer),
        }

    def events(self, conversation: Conversation, answer: Answer) -> Iterator[Event]:
        head = self._head(conversation, "chat.completion.chunk")

        def chunk(delta: Json, reason: str | None = None) -> Event:
            return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield chunk({"role": "assistant", "content": ""})
        if answer.is_refusal:
            yield chunk({"refusal": "I can't help with that."})
        for word in _words(answer.text):
            yield chunk({"content": word})
        if answer.call:
            yield chunk({"tool_calls": [{"index": 0, **self._call(conversation, answer, answer.call)}]})
        yield chunk({}, self._reason(answer))
        yield None, {**head, "choices": [], "usage": _usage(conversation, answer)}
        yield None, "[DONE]"

    def _head(self, conversation: Conversation, kind: str) -> Json:
        return {"id": "chatcmpl-scripted", "object": kind, "created": 1_700_000_000, "model": conversation.model}

    def _call(self, conversation: Conversation, answer: Answer, call: tuple[str, Json]) -> Json:
        function = {"name": tool_named(call[0], conversation.tools), "arguments": json.dumps(call[1])}
        return {"id": _call_id("call_", conversation, answer), "type": "function", "function": function}

    def _reason(self, answer: Answer) -> str:
        return "content_filter" if answer.is_refusal else "tool_calls" if answer.call else "stop"


_CODE = "functions/exec"  # a tool that runs scripts, in place of all others


class Responses(_OpenAI):
    """OpenAI's responses."""

    path = "/responses"

    def read(self, body: Json) -> Conversation:
        found = Conversation(
            body.get("model", ""), body.get("instructions") or "", is_streamed=bool(body.get("stream"))
        )
        found.tools = [name for tool in body.get("tools") or () for name in _tool_names(tool)]
        given = body.get("input")
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or ():
            self._item(found, item)
        return found

    def _item(self, found: Conversation, item: Json) -> None:
        kind = item.get("type", "message")
        if kind == "message" and item["role"] in ("system", "developer"):
            found.system += "\n" + _text(item["content"])
        elif kind == "message":
            if text := _text(item["content"]):
                found.entries.append(Entry(item["role"], text))
            found.media += _media(item["content"])
        elif kind == "additional_tools":
            found.tools += [name for tool in item["tools"] for name in _tool_names(tool)]
        elif kind.endswith("_call"):
            found.entries.append(Entry("call", str(item.get("name"))))
        elif kind.endswith("_call_output"):
            output = item.get("output")
            found.entries.append(Entry("result", output if isinstance(output, str) else _text(output)))

    def write(self, conversation: Conversation, answer: Answer) -> Json:
        items: list[Json] = []
        if answer.thinking:
            summary = [{"type": "summary_text", "text": answer.thinking}]
            items.append({"type": "reasoning", "id": "rs_scripted", "summary": summary})
        if answer.text or answer.is_refusal:
            items.append(self._message(answer))
        if answer.call:
            name = tool_named(answer.call[0], conversation.tools)
            space, _, plain = name.rpartition("/")
            call_id = _call_id("call_", conversation, answer)
            call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": plain}
            call |= {"arguments": json.dumps(answer.call[1]), "status": "completed"}
            is_code = _CODE in conversation.tools and name not in conversation.tools
            items.append(_code(call) if is_code else call | ({"namespace": space} if space else {}))
        return {
            **self._head(conversation),
            "status": "completed",
            "output": items,
            "usage": {
                "input_tokens": _tokens_in(conversation),
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": _tokens_out(answer),
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": _tokens_in(conversation) + _tokens_out(answer),
            },
        }

    def events(self, conversation: Conversation, answer: Answer) -> Iterator[Event]:
        whole = self.write(conversation, answer)
        begun = {**self._head(conversation), "status": "in_progress", "output": [], "usage": None}
        yield _named({"type": "response.created", "response": begun})
        for index, item in enumerate(whole["output"]):
            yield _named({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
            if item["type"] == "message" and answer.text:
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                for word in _words(answer.text):
                    yield _named({"type": "response.output_text.delta", **place, "delta": word})
            yield _named({"type": "response.output_item.done", "output_index": index, "item": item})
        yield _named({"type": "response.completed", "response": whole})

    def _head(self, conversation: Conversation) -> Json:
        return {
            "id": "resp_scripted",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": conversation.model,
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
        }

    def _message(self, answer: Answer) -> Json:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        if answer.is_refusal:
            part = {"type": "refusal", "refusal": "I can't help with that."}
        return {"type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed", "content": [part]}


def _code(call: Json) -> Json:
    """The call as codex' newer models make it: by a script, which calls the tools of the server ``postroom``."""
    script = (
        f"for (const part of (await tools.mcp__postroom__{call['name']}({call['arguments']})).content) text(part.text)"
    )
    return {
        **{
            "type": "custom_tool_call",
            "id": f"ctc_{call['call_id']}",
            "call_id": call["call_id"],
            "status": "completed",
        },
        **{"namespace": "functions", "name": "exec", "input": script},
    }


DIALECTS = (Messages(), Chat(), Responses())


def _named(event: Json) -> Event:
    return event["type"], event


def _begun(item: Json) -> Json:
    return {**item, "status": "in_progress", **({"content": []} if "content" in item else {})}


def _tool_names(tool: Json) -> list[str]:
    """A tool's name; of a namespace of codex, ``NAMESPACE/NAME`` for each."""
    if tool.get("type") == "namespace":
        return [f"{tool['name']}/{each['name']}" for each in tool["tools"]]
    return [tool["name"]] if "name" in tool else []


def _blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _text(content: object) -> str:
    return "\n".join(block["text"] for block in _blocks(content) if isinstance(block.get("text"), str))


def _media(content: object) -> list[str]:
    found = []
    for block in _blocks(content):
        url = block.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if isinstance(url, str):
            kind, _, data = url.partition(",")
            found.append(f"{kind.removeprefix('data:').partition(';')[0]} {len(data)}")
    return found


def _words(text: str) -> list[str]:
    """Pieces of a stream: words, or larger ones of a long text."""
    if len(text) > 4000:
        return [text[at : at + 4000] for at in range(0, len(text), 4000)]
    return [f"{word} " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]] if text else []


def _call_id(prefix: str, conversation: Conversation, answer: Answer) -> str:
    before = sum(entry.role == "call" for entry in conversation.entries)
    return f"{prefix}{before + (not answer.is_again):04d}"


def _tokens_in(conversation: Conversation) -> int:
    return (len(conversation.system) + sum(len(entry.text) for entry in conversation.entries)) // 4 + 1


def _tokens_out(answer: Answer) -> int:
    return len(answer.text) // 4 + 1


def _usage(conversation: Conversation, answer: Answer) -> Json:
    used = {"prompt_tokens": _tokens_in(conversation), "completion_tokens": _tokens_out(answer)}
    return {**used, "total_tokens": sum(used.values())}
