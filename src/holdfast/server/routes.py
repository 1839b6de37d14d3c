"""Requests and their answers: routes, headers, errors.

Every error is answered as JSON with a stable code: {"error": {"code", "message", "hint"}}.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.core.errors import HoldfastError, InvalidInput, Lost, Refused
from holdfast.manager.plain_data import error_data
from holdfast.server import agent_files, event_stream, metrics
from holdfast.server.access_control import WebError
from holdfast.server.agent_files import Log, NotThereError, Patch
from holdfast.server.ledger_feed import as_json
from holdfast.server.state.board import REASONS, WAITING_MAX

if TYPE_CHECKING:
    from holdfast.server.server import Server

#: How long a connection may neither send nor receive.
SILENCE_SECONDS = 20.0
#: How long an idle connection is kept for the next request.
KEPT_SECONDS = 5.0
BODY_BYTES_MAX = 64 << 10
#: How many items one request may name.
WHY_MAX = 200

JSON = "application/json; charset=utf-8"
STREAM = "text/event-stream; charset=utf-8"
_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in (
            "page",
            "detail",
            "ledger",
            "lists",
            "progress",
            "tasks",
            "timeline",
            "views",
            "visible",
        )
    },
}
#: The page loads nothing from elsewhere, is shown in no frame, and sends nothing to other sites.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class MethodError(WebError):
    """The path exists, but not for this method."""

    status = 405
    code = "E_METHOD"


class TooLargeError(WebError):
    """The body is larger than any request needs."""

    status = 413
    code = "E_TOO_LARGE"


class BusyError(WebError):
    """Too many streams are open already."""

    status = 503
    code = "E_BUSY"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "holdfast"
    sys_version = ""
    timeout = SILENCE_SECONDS
    disable_nagle_algorithm = True
    #: The handler of each request, by the first word of its path.
    gets: ClassVar[dict[str, Callable[[Handler, list[str]], None]]]
    posts: ClassVar[dict[str, Callable[[Handler, list[str]], None]]]

    @property
    def site(self) -> Server:
        """The server that this is a connection of."""
        found: Server = self.server.site  # type: ignore[attr-defined]
        return found

    # The standard library calls these

    def do_GET(self) -> None:
        self._answer(self.gets, changes=False)

    def do_HEAD(self) -> None:
        self._answer(self.gets, changes=False)

    def do_POST(self) -> None:
        self._answer(self.posts, changes=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: everything that matters is in the ledger."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers a request that the standard library rejects, in our format."""
        self.close_connection = True
        error = WebError(message or "this is not an HTTP request", hint="see docs/server.md")
        self._send(code, as_json({"error": error_data(error)}).encode())

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # gone, or too slow
            self.close_connection = True

    # Answering

    def _answer(
        self, routes: dict[str, Callable[[Handler, list[str]], None]], *, changes: bool
    ) -> None:
        self._begun = False
        self.connection.settimeout(self.timeout)
        if self.site.is_crowded:
            self.close_connection = True
        try:
            self._route(routes, changes=changes)
        except HoldfastError as error:
            status = _status(error)
            if self._begun:  # a stream: the browser asks again
                self.close_connection = True
                return
            if changes:
                self.close_connection = True  # its body may not have been read
            self._send(status, as_json({"error": error_data(error)}).encode())
        except OSError:
            raise
        except Exception:
            self.close_connection = True
            if not self._begun:
                mistake = {"code": "E_INTERNAL", "message": "internal server error",
                           "hint": "see the server's output"}  # fmt: skip
                self._send(500, as_json({"error": mistake}).encode())
            raise

    def _route(
        self, routes: dict[str, Callable[[Handler, list[str]], None]], *, changes: bool
    ) -> None:
        if not changes and self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # the body is not read
        target = urlsplit(self.path)
        words = [unquote(word) for word in target.path.split("/")[1:]]
        first = "/".join(words[:2]) if words[0] == "api" else words[0]
        if words == ["healthz"] and not changes:
            self._health()
            return
        if self.site.guard.came_with_token(self.path) and words == [""] and not changes:
            self._let_in()
            return
        self.site.guard.check(self.headers, changes=changes)  # type: ignore[arg-type]
        self.query = parse_qs(target.query)
        answer = routes.get(first)
        if answer is not None:
            answer(self, words[2:] if words[0] == "api" else words[1:])
        elif target.path in _ASSETS and not changes:
            self._asset(*_ASSETS[target.path])
        elif first in (self.gets if changes else self.posts) or target.path in _ASSETS:
            raise MethodError(
                f"{self.command} is not allowed for {target.path[:100]}", hint="see docs/server.md"
            )
        else:
            raise NotThereError(
                f"there is nothing at {target.path[:100]!r}", hint="GET / is the page"
            )

    def _send(
        self, status: int, body: bytes, kind: str = JSON, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)),
                   "Cache-Control": "no-store", **_HEADERS, **(more or {})}  # fmt: skip
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.connection.settimeout(min(KEPT_SECONDS, self.timeout))

    def _json(self, value: Any) -> None:
        self._send(200, as_json(value).encode())

    def _stream(self, source: event_stream.Source) -> None:
        """Answer with a stream: the headers here, the rest in the thread of all streams."""
        self.close_connection = True
        if self.command == "HEAD":
            source.close()
            self._send_stream_headers()
            return
        if not self.site.take_place():
            source.close()
            raise BusyError("too many streams are open", hint="close a page, or try again later")
        self._begun = True
        try:
            self._send_stream_headers()
            # For a slow reader little must be buffered: what it has not received yet stays in the
            # ledger, not in the system's buffers.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 << 10)
            own = self.connection.dup()
        except OSError:
            source.close()
            self.site.give_place_back()
            raise
        self.server.handed_over.add(self.connection.fileno())  # type: ignore[attr-defined]
        self.site.streams.add(own, source, self.timeout)

    def _send_stream_headers(self) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": STREAM, "Cache-Control": "no-store",
                            "Connection": "close", **_HEADERS}.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()

    # The page

    def _asset(self, name: str, kind: str) -> None:
        body = (files("holdfast.server") / "page" / name).read_bytes()
        mark = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        fresh = {"Cache-Control": "no-cache", "ETag": mark}
        if self.headers.get("If-None-Match") == mark:
            self._send(304, b"", kind, fresh)
        else:
            self._send(200, body, kind, fresh)

    def _let_in(self) -> None:
        """A browser opened the address with the token: set a cookie instead, so that the token is
        in no history and in no visible address."""
        self._send(303, b"", more={"Location": "/", "Set-Cookie": self.site.guard.cookie()})

    # Read

    def _health(self) -> None:
        trouble = self.site.feed.trouble
        if trouble is not None:
            self._send(503, as_json({"ok": False, "message": trouble.message}).encode())
        else:
            self._json({"ok": True})

    def _state(self, words: list[str]) -> None:
        _no_more(words)
        reasons = min(self._number("why", None), WAITING_MAX) if "why" in self.query else REASONS
        self._send(200, self.site.state(reasons))

    def _summary(self, words: list[str]) -> None:
        _no_more(words)
        self._send(200, self.site.summary())

    def _task(self, words: list[str]) -> None:
        _no_more(words)
        found = self.site.board.task(self._one("list"), self._one("name"))
        if found is None:
            raise NotThereError("there is no such task", hint="GET /api/summary lists them")
        item = found["item"]
        kept = {"logs": agent_files.logs(self.site.root, item), "diff": agent_files.size_of_patch(
            self.site.root, item)} if item else {"logs": [], "diff": None}  # fmt: skip
        self._json({**found, **kept})

    def _diff(self, words: list[str]) -> None:
        if len(words) != 1 or self.site.board.item(words[0]) is None:
            raise NotThereError("there is no such diff", hint="GET /api/task has its item")
        with closing(Patch(self.site.root, words[0])) as patch:
            text, after = patch.read(self._number("offset", None))
            more = {"Holdfast-Offset": str(after), "Holdfast-Size": str(patch.size)}
        self._send(200, text.encode(), "text/plain; charset=utf-8", more)

    def _history(self, words: list[str]) -> None:
        _no_more(words)
        since = self._number("since", None)
        self._json(self.site.feed.seen(spans=self._one("spans") != "0", since=since))

    def _agents(self, words: list[str]) -> None:
        _no_more(words)
        self._json(self.site.board.agents())

    def _why(self, words: list[str]) -> None:
        _no_more(words)
        self._json(self.site.board.why(self.query.get("item", [])[:WHY_MAX]))

    def _items(self, words: list[str]) -> None:
        if not words:
            self._json({"items": self.site.board.items(self._one("workflow"))})
            return
        found = self.site.board.item(words[0]) if len(words) == 1 else None
        if found is None:
            raise NotThereError("there is no such item", hint="GET /api/state lists them")
        self._json({**found, "logs": agent_files.logs(self.site.root, words[0])})

    def _output(self, words: list[str]) -> None:
        if len(words) != 2 or self.site.board.item(words[0]) is None:
            raise NotThereError("there is no such output", hint="GET /api/items/ITEM lists them")
        log = Log(self.site.root, *words)
        try:
            offset = self._number("offset", self.headers.get("Last-Event-ID"))
        except WebError:
            log.close()
            raise
        if "text/event-stream" in self.headers.get("Accept", ""):
            self._stream(event_stream.Output(log, offset, lambda: self.site.is_out(words[0])))
            return
        with closing(log):
            text, after = log.read(offset, is_whole=not self.site.is_out(words[0]))
            more = {"Holdfast-Offset": str(after), "Holdfast-Size": str(log.size)}
        self._send(200, text.encode(), "text/plain; charset=utf-8", more)

    def _events(self, words: list[str]) -> None:
        _no_more(words)
        last = self.headers.get("Last-Event-ID")
        known = last is not None or "after" in self.query
        # Read before the answer begins: a client that has read its first line misses nothing.
        after = self._number("after", last) if known else self.site.feed.head
        trouble = self.site.feed.trouble
        if trouble is not None:
            raise trouble.with_traceback(None)
        self._stream(event_stream.Events(self.site.feed, after))

    def _metrics(self, words: list[str]) -> None:
        _no_more(words)
        site = self.site
        told = metrics.text(
            site.board.figures(), gaps=site.feed.history.gap_count, watchers=site.watching
        )
        self._send(200, told.encode(), metrics.CONTENT_TYPE)

    # Change

    def _analyze(self, words: list[str]) -> None:
        self._body()
        self._json(self.site.orders.analyze(_group(words)))

    def _decide(self, words: list[str]) -> None:
        """Decide on the controller that the path names, or on the task that the body names."""
        if not words:
            self._json(self.site.orders.decide_task(self._body()))
            return
        group, body = _group(words), self._body()
        self._json(self.site.orders.decide(group, str(body.get("decision", ""))))

    def _stop(self, words: list[str]) -> None:
        _no_more(words)
        self._body()
        self._json(self.site.orders.stop())

    # Parse

    def _one(self, name: str) -> str:
        return self.query.get(name, [""])[0]

    def _number(self, name: str, first: str | None) -> int:
        text = first if first is not None else self._one(name) or "0"
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise WebError(f"{name} is not a whole number", hint="send a whole number")
        return int(text)

    def _body(self) -> dict[str, Any]:
        """The body of a request: JSON or nothing."""
        if "Transfer-Encoding" in self.headers:
            raise WebError("the length of the body is missing", hint="send a Content-Length")
        length = self._length()
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            raise WebError("the body is shorter than its Content-Length", hint="send all of it")
        if not body:
            return {}
        if self.headers.get_content_type() != "application/json":
            raise WebError("the body is not JSON", hint="send Content-Type: application/json")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise WebError("the body is not JSON", hint='send {"decision": "approve"}') from error
        if not isinstance(value, dict):
            raise WebError("the body is not a JSON object", hint='send {"decision": "approve"}')
        return value

    def _length(self) -> int:
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()):
            raise WebError("the Content-Length is not a number", hint="send a Content-Length")
        if len(text) > 9 or int(text) > BODY_BYTES_MAX:
            raise TooLargeError(
                "the body is too large", hint=f"send at most {BODY_BYTES_MAX} bytes"
            )
        return int(text)


Handler.gets = {
    "api/state": Handler._state,
    "api/summary": Handler._summary,
    "api/task": Handler._task,
    "api/diff": Handler._diff,
    "api/history": Handler._history,
    "api/agents": Handler._agents,
    "api/why": Handler._why,
    "api/items": Handler._items,
    "api/output": Handler._output,
    "api/events": Handler._events,
    "metrics": Handler._metrics,
}
Handler.posts = {"analyze": Handler._analyze, "decide": Handler._decide, "stop": Handler._stop}


def _no_more(words: list[str]) -> None:
    if words:
        raise NotThereError("there is nothing below this", hint="GET / is the page")


def _group(words: list[str]) -> str:
    """The controller that a path names, with its module."""
    if len(words) < 2 or not all(words):
        raise NotThereError(
            "the controller is missing", hint="name it with its module: /analyze/blog/posts"
        )
    return "/".join(words)


def _status(error: HoldfastError) -> int:
    if isinstance(error, WebError):
        return error.status
    if isinstance(error, Refused | Lost):
        return 409
    return 400 if isinstance(error, InvalidInput) else 503
