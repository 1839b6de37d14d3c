"""Scripted model servers: the real clients' counterpart, in place of a model and an account.

Two small servers on 127.0.0.1, one that speaks Anthropic's Messages API and one that speaks
OpenAI's Responses API, as far as Claude Code and Codex use them. Neither is a model: each answers
from scripts, and keeps all requests, so that a test can read what the model would have seen.

A script is a list of turns and has a name; a prompt that contains `[[name]]` is answered from it.
The server derives the next turn from the conversation in the request itself. It counts nothing, so
that a repeated request gets the same answer, and any number of clients and sub-agents can follow
one script, or different ones, at the same time.

The servers do not predict what a real model would answer, and do not check the requests.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self

_NAME = re.compile(r"\[\[([\w.-]+)\]\]")
_CALL_ID = re.compile(r"_t(\d+)_\d+$")


class Call(NamedTuple):
    """A tool that the model calls; free form (Codex's apply_patch) when `input` is a text."""

    tool: str
    input: dict[str, Any] | str
    namespace: str = ""
    """Where Codex keeps the tool, if it is not with the others."""


class Turn(NamedTuple):
    """One answer of the model: some text, some calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 200
    """Any status but 200: the server fails, and answers nothing else."""


class Request(NamedTuple):
    """A client's request, and the turn that answered it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    script: str
    """The script's name, or "" if the request belongs to none (a title, a warm-up)."""
    turn: int
    results: tuple[str, ...]
    """The tools' results, of the whole conversation so far, oldest first."""

    def text(self) -> str:
        """The whole request as text, for a search."""
        return json.dumps(self.body, ensure_ascii=False)


#: A turn can also be made on request: the function may wait, and gets the request.
Step = Turn | Call | str | Callable[[dict[str, Any]], "Turn | Call | str"]


def turn(step: Turn | Call | str) -> Turn:
    """A turn from its short form."""
    if isinstance(step, Turn):
        return step
    return Turn(calls=(step,)) if isinstance(step, Call) else Turn(text=step)


# The calls of Claude Code's tools


def write(path: object, content: str) -> Call:
    return Call("Write", {"file_path": str(path), "content": content})


def edit(path: object, old: str, new: str) -> Call:
    return Call("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


def read(path: object) -> Call:
    return Call("Read", {"file_path": str(path)})


def edit_cell(path: object, cell: str, source: str) -> Call:
    return Call("NotebookEdit", {"notebook_path": str(path), "cell_id": cell, "new_source": source})


def bash(command: str, *, background: bool = False) -> Call:
    more = {"run_in_background": True} if background else {}
    return Call("Bash", {"command": command, "description": "Run a command", **more})


def agent(prompt: str, *, background: bool = False, type: str = "general-purpose") -> Call:
    """Start a sub-agent, which follows the script that `prompt` names."""
    words = {"description": "Help with it", "prompt": prompt, "subagent_type": type}
    return Call("Agent", {**words, "run_in_background": background})


# The calls of Codex's tools


def patch(*parts: str) -> Call:
    """Edit files: each part describes one file, such as `*** Add File: a.txt\\n+text`."""
    return Call("apply_patch", "\n".join(["*** Begin Patch", *parts, "*** End Patch", ""]))


def shell(command: str) -> Call:
    return Call("exec_command", {"cmd": command})


def code(script: str) -> Call:
    """Run JavaScript, the only tool of Codex's newer models."""
    return Call("exec", script)


def code_patch(*parts: str) -> Call:
    """Edit files from JavaScript; the result is the tool's output, or the reason for a refusal."""
    return code(f"text(await tools.apply_patch({json.dumps(patch(*parts).input)}))")


def code_shell(command: str) -> Call:
    return code(f"text(await tools.exec_command({{cmd: {json.dumps(command)}}}))")


def spawn(prompt: str, name: str) -> Call:
    """Start a sub-agent of Codex, which follows the script that `prompt` names."""
    words = {"task_name": name, "message": prompt, "fork_turns": "none"}
    return Call("spawn_agent", words, "collaboration")


def spawn_early(prompt: str) -> Call:
    """The same with a model such as `drive.CODEX_EARLY_MODEL`, whose tools have other names."""
    return Call("spawn_agent", {"message": prompt}, "multi_agent_v1")


def wait_for_agents() -> Call:
    """Wait until any sub-agent of Codex has a message."""
    return Call("wait_agent", {"timeout_ms": 30000}, "collaboration")


class ModelServer:
    """A scripted server in threads of its own; `scripts` may be added to at any time."""

    def __init__(self, scripts: dict[str, list[Step]] | None = None) -> None:
        self.scripts: dict[str, list[Step]] = dict(scripts or {})
        self.requests: list[Request] = []
        self.outside: list[str] = []
        """The hosts that a client requested with this server as its proxy; none is reached."""
        self._numbers = count(1)
        self._changed = threading.Condition()
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def asked(self, script: str) -> list[Request]:
        """The requests for one script, in order of arrival."""
        with self._changed:
            return [request for request in self.requests if request.script == script]

    def results(self, script: str) -> tuple[str, ...]:
        """The tools' results for the model that follows a script, as last sent."""
        asked = self.asked(script)
        return asked[-1].results if asked else ()

    def wait_for(self, script: str, turn: int = 0, seconds: float = 120) -> Request:
        """Wait until a client requests a script's turn: the turns before it are over by then."""

        def found() -> Request | None:
            fits = (r for r in self.requests if r.script == script and r.turn >= turn)
            return next(fits, None)

        with self._changed:
            request = self._changed.wait_for(found, seconds)
        if request is None:
            raise TimeoutError(f"nobody asked for turn {turn} of script {script!r}")
        return request

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Turn:
        """Keep a request, and find the turn for it."""
        script, number, results = self.follow(body)
        request = Request(path, headers, body, script, number, results)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if not script:
            return Turn(text="ok")
        steps = self.scripts.get(script)
        if steps is None:
            return Turn(text=f"There is no script {script!r}.")
        if number >= len(steps):
            return Turn(text="Done.")
        step = steps[number]
        return turn(step(body) if callable(step) else step)

    def call_id(self, number: int) -> str:
        """An id for a call, from which `follow` derives the turn that it belongs to."""
        return f"call_{next(self._numbers)}_t{number}_0"

    def follow(self, body: dict[str, Any]) -> tuple[str, int, tuple[str, ...]]:
        """The script, the number of its next turn, and the tools' results."""
        raise NotImplementedError

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        """Whether a request wants events, and not one answer."""
        return bool(body.get("stream"))

    def stream(self, said: Turn, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """A turn as events, each a name and its data; the name is "" where events have none."""
        raise NotImplementedError

    def whole(self, said: Turn, number: int) -> dict[str, Any]:
        """A turn as one answer, for a client that does not want events."""
        raise NotImplementedError


class Place:
    """The position in a conversation: fed with its messages, in order."""

    def __init__(self) -> None:
        self.script = ""
        self.number = 0
        self.results: list[str] = []

    def prompt(self, text: str) -> None:
        names = _NAME.findall(text)
        if names:
            self.script, self.number = names[-1], 0

    def spoke(self) -> None:
        self.number += 1

    def called(self, id: str) -> None:
        found = _CALL_ID.search(id)
        if found:
            self.number = max(self.number, int(found[1]) + 1)

    def told(self, content: object) -> None:
        self.results.append(_plain(content))

    def where(self, works: bool) -> tuple[str, int, tuple[str, ...]]:
        return (self.script if works else ""), self.number, tuple(self.results)


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", part)) for part in content)
    return json.dumps(content, ensure_ascii=False)


class AnthropicServer(ModelServer):
    """Claude Code's server."""

    def follow(self, body: dict[str, Any]) -> tuple[str, int, tuple[str, ...]]:
        place = Place()
        for message in body.get("messages", ()):
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if message["role"] == "assistant":
                calls = [part["id"] for part in parts if part["type"] == "tool_use"]
                for id in calls:
                    place.called(id)
                if not calls:
                    place.spoke()
                continue
            for part in parts:
                if part["type"] == "tool_result":
                    place.told(part.get("content", ""))
                elif part["type"] == "text" and message["role"] == "user":
                    place.prompt(part["text"])
        # Claude Code's side requests (a title, a summary) quote prompts but have no tools.
        return place.where(bool(body.get("tools")))

    def stream(self, said: Turn, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        message = self.whole(said, number)
        blocks = message["content"]
        begin = {**message, "content": [], "stop_reason": None}
        yield "message_start", {"message": begin}
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty: dict[str, Any] = {**block, "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield "content_block_start", {"index": index, "content_block": empty}
            yield "content_block_delta", {"index": index, "delta": delta}
            yield "content_block_stop", {"index": index}
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"delta": end, "usage": {"output_tokens": 1}}
        yield "message_stop", {}

    def whole(self, said: Turn, number: int) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
        for call in said.calls:
            id = "toolu_" + self.call_id(number)
            blocks.append({"type": "tool_use", "id": id, "name": call.tool, "input": call.input})
        return {
            "id": f"msg_{next(self._numbers)}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": blocks,
            "stop_reason": "tool_use" if said.calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


class OpenAIServer(ModelServer):
    """Codex's server."""

    def follow(self, body: dict[str, Any]) -> tuple[str, int, tuple[str, ...]]:
        place = Place()
        works = bool(body.get("tools"))
        for item in body.get("input", ()):
            type = item.get("type", "message")
            if type == "additional_tools":
                works = True
            elif type == "message" and item["role"] == "assistant":
                place.spoke()
            elif type == "agent_message" or (type == "message" and item["role"] == "user"):
                place.prompt(_plain(item["content"]))
            elif type.endswith("_call_output"):
                place.told(item.get("output", ""))
            elif type.endswith("_call"):
                place.called(item.get("call_id", ""))
        return place.where(works)

    def stream(self, said: Turn, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        response = self.whole(said, number)
        yield "response.created", {"response": {**response, "status": "in_progress", "output": []}}
        for index, item in enumerate(response["output"]):
            yield "response.output_item.added", {"output_index": index, "item": item}
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield "response.completed", {"response": response}

    def whole(self, said: Turn, number: int) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        if said.text:
            content = [{"type": "output_text", "text": said.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": content})
        for call in said.calls:
            item: dict[str, Any] = {"call_id": self.call_id(number), "name": call.tool}
            if isinstance(call.input, str):
                item |= {"type": "custom_tool_call", "input": call.input}
            else:
                item |= {"type": "function_call", "arguments": json.dumps(call.input)}
            if call.namespace:
                item["namespace"] = call.namespace
            items.append(item)
        for item in items:
            item |= {"id": f"item_{next(self._numbers)}", "status": "completed"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {
            "id": f"resp_{next(self._numbers)}",
            "object": "response",
            "model": "scripted",
            "status": "completed",
            "output": items,
            "usage": usage,
        }


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a killed client drops its connection in the middle, which is no fault."""


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            try:
                body = json.loads(self.rfile.read(size) or b"{}")
            except ValueError:
                body = {}
            if "count_tokens" in self.path:
                self.give({"input_tokens": 1})
                return
            said = server.answer(self.path, dict(self.headers), body)
            number = server.follow(body)[1]
            if said.status != 200:
                error = {"type": "invalid_request_error", "message": "scripted trouble"}
                self.give({"type": "error", "error": error}, said.status)
            elif server.streams(self.path, body):
                self.events(server.stream(said, number))
            else:
                self.give(server.whole(said, number))

        def do_GET(self) -> None:
            self.give({"data": [], "models": [], "has_more": False})

        def do_CONNECT(self) -> None:
            server.outside.append(self.path)
            self.give({}, 403)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def give(self, answer: dict[str, Any], status: int = 200) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def events(self, events: Iterator[tuple[str, dict[str, Any]]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for name, data in events:
                text = json.dumps({"type": name, **data} if name else data)
                line = f"event: {name}\n" if name else ""
                self.wfile.write(f"{line}data: {text}\n\n".encode())
            self.close_connection = True

        def log_message(self, format: str, *words: object) -> None:
            """Log nothing: the requests are kept."""

    return Handler
