"""A server as other programs and browsers see it: requests, streams, and the real command."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

from helpers_cli import COMMAND, as_a_person, environment
from holdfast.server.server import Server

PATIENCE_SECONDS = 30.0


class Answer:
    """The answer of a server."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of the error in it."""
        error = self.json["error"]
        assert error["message"], error
        assert error["hint"], error
        return str(error["code"])


def ask(
    site: Server,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Make one request, as another program would."""
    line = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_SECONDS)
    try:
        line.request(method, path, body, headers or {})
        answer = line.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        line.close()


def post(site: Server, path: str, value: Any = None, **headers: str) -> Answer:
    """Make a POST as the page does, with its secret."""
    body = json.dumps({} if value is None else value).encode()
    return ask(site, path, "POST", body, {**own_headers(site), **headers})


def own_headers(site: Server) -> dict[str, str]:
    secret = site.url.partition("#secret=")[2]
    return {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}


class Stream:
    """A stream of events, as a browser reads it."""

    def __init__(self, site: Server, path: str, **headers: str) -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_SECONDS)
        self.line.request("GET", path, headers={"Accept": "text/event-stream", **headers})
        self.answer = self.line.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.getheader("Content-Type", "").startswith("text/event-stream")

    def next(self) -> dict[str, str]:
        """The next event with content, with its id and its name."""
        found: dict[str, str] = {}
        end = monotonic() + PATIENCE_SECONDS  # signs of life are skipped
        while True:
            assert monotonic() < end, "the stream says nothing"
            line = self.answer.readline().decode()
            assert line, "the stream has ended"
            if line == "\n":
                if "data" in found:
                    return found
                found = {}
            elif not line.startswith(":"):
                name, _, value = line.rstrip("\n").partition(": ")
                found[name] = value

    def events(self, count: int) -> list[dict[str, Any]]:
        """The next `count` events of the ledger; their ids are their numbers."""
        told = [self.next() for _ in range(count)]
        events = [json.loads(one["data"]) for one in told]
        assert [int(one["id"]) for one in told] == [event["seq"] for event in events]
        return events

    def close(self) -> None:
        self.answer.close()
        self.line.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Serving:
    """The real command, which serves until the test ends it."""

    def __init__(self, root: Path, *words: str, **env: str) -> None:
        self.process = subprocess.Popen(
            as_a_person(*COMMAND, *words), cwd=root, env=environment(**env), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, said


class Far:
    """A server in another process, by its address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.split(":")[2].split("/")[0])
