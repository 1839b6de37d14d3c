"""Runs the real clients in an empty home, against a scripted server, and reports how they ended.

Nothing of the user's own is read or written: the environment is made from scratch, and HOME and
the clients' folders are inside `home` (beside the repository if it is not given). A caller that
passes the same `home` again can resume a session. `sweep` finds the processes that a client leaves
running by a mark in their environment, and kills them.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from .install import program
from .servers import AnthropicServer, OpenAIServer

#: A working client takes a second or two; the machine may be busy.
RUN_SECONDS = 120.0

#: In the environment of every process that is started here; its value is the home.
MARK = "HOLDFAST_CLIENT_TEST"

HOOK = Path(__file__).with_name("recording_hook.py")

CODEX_EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionStart",
    "SessionEnd",
)
CLAUDE_EVENTS = (*CODEX_EVENTS, "PostToolUseFailure", "StopFailure")

#: Offers apply_patch and a shell as tools of their own.
CODEX_MODEL = "gpt-5.5"
#: Offers one tool that runs JavaScript, from which the others are called.
CODEX_CODE_MODEL = "gpt-6-astra"
#: The same, with the earlier tools for sub-agents.
CODEX_EARLY_MODEL = "gpt-5.6-luna"

#: Codex's names for its sandbox modes.
NO_SANDBOX, OWN_SANDBOX = "danger-full-access", "workspace-write"


class Result(NamedTuple):
    """How a client ended."""

    code: int
    stdout: str
    stderr: str
    events: list[dict[str, Any]]
    """The lines of stdout that are JSON: both clients report their actions there."""
    session: str
    """The session's id, to resume it."""


#: The clients that were started and not yet swept.
_started: list[Running] = []


class Running:
    """A client that was started; only `wait` waits for it."""

    _numbers = count(1)

    def __init__(
        self,
        words: Sequence[str],
        repo: Path,
        home: Path,
        env: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        stem = f"run-{next(self._numbers)}"
        self.home = home
        # Files, not pipes: a killed client's children keep a pipe open, and its reader waiting.
        self._out, self._err = home / f"{stem}.out", home / f"{stem}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                words,
                cwd=repo,
                env=dict(env),
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self.process.pid
        _started.append(self)

    def say(self, prompt: str) -> None:
        """Send another prompt to a Claude that was started with `stays`."""
        assert self.process.stdin is not None
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hang_up(self) -> None:
        """Send no more prompts to it, so that it ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """Kill the client alone, as `kill -9` does, and not the processes it has started."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = RUN_SECONDS) -> Result:
        """Wait for the end; a client that takes too long is killed and has failed."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            said = self.said()
            raise TimeoutError(f"no end in {seconds:g} s:\n{said.stdout}\n{said.stderr}") from None
        return self.said()._replace(code=code)

    def said(self) -> Result:
        """Its output up to now."""
        stdout = self._out.read_text(encoding="utf-8", errors="replace")
        stderr = self._err.read_text(encoding="utf-8", errors="replace")
        events = list(_events(stdout))
        # The last one: a client that resumes a session learns its id only after the first events.
        found = (event.get("session_id") or event.get("thread_id") for event in events[::-1])
        session = next((id for id in found if id), "")
        code = self.process.poll()
        return Result(-1 if code is None else code, stdout, stderr, events, session)


def _events(text: str) -> Iterable[dict[str, Any]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def start_claude(
    repo: Path,
    prompt: str,
    server: AnthropicServer,
    *,
    home: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    resume: str | bool = False,
    options: Sequence[str] = (),
    stays: bool = False,
    before: Sequence[str] = (),
) -> Running:
    """Start `claude -p`; `settings` goes to the project's settings file, `before` is the command
    line of another program that starts it.

    `resume` is a session's id, or True for the latest one in this folder. A client that `stays`
    runs on after its answer, and takes more prompts by `say` until `hang_up`.
    """
    home = home_for(repo, home, "claude-home")
    if settings is not None:
        write_json(repo / ".claude" / "settings.json", settings)
    words = [str(program("claude")), "-p", "--output-format", "stream-json", "--verbose"]
    words += ["--input-format", "stream-json"] if stays else [prompt]
    # No person can answer; and Claude refuses root the mode that never asks.
    words += ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
    if resume:
        words += ["--continue"] if resume is True else ["--resume", resume]
    stdin = subprocess.PIPE if stays else subprocess.DEVNULL
    made = claude_environment(home, server, env)
    running = Running([*before, *words, *options], repo, home, made, stdin=stdin)
    if stays:
        running.say(prompt)
    return running


def run_claude(
    repo: Path, prompt: str, server: AnthropicServer, seconds: float = RUN_SECONDS, **more: Any
) -> Result:
    """Run `claude -p` to its end; see `start_claude`."""
    return start_claude(repo, prompt, server, **more).wait(seconds)


def start_codex(
    repo: Path,
    prompt: str,
    server: OpenAIServer,
    *,
    home: Path | None = None,
    hooks: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    resume: str | bool = False,
    options: Sequence[str] = (),
    model: str = CODEX_MODEL,
    vetted: bool = True,
    as_json: bool = True,
    before: Sequence[str] = (),
    sandbox: str = NO_SANDBOX,
) -> Running:
    """Start `codex exec`; `hooks` goes to the project's hooks file, `before` is the command line of
    another program that starts it.

    Hooks run without the user's trust, unless `vetted` is False: then `trust_codex_hooks` gives it.
    `resume` is a session's id, or True for the latest one in this folder.
    """
    home = home_for(repo, home, "codex-home")
    if hooks is not None:
        write_json(repo / ".codex" / "hooks.json", hooks)
    write_codex_config(home, repo)
    words = [
        str(program("codex")),
        "exec",
        *codex_options(server, model, vetted=vetted, sandbox=sandbox),
    ]
    words += options
    if as_json:
        words += ["--json"]
    if resume:
        words += ["resume", "--last" if resume is True else resume]
    return Running([*before, *words, prompt], repo, home, codex_environment(home, env))


def codex_options(
    server: OpenAIServer, model: str, *, vetted: bool = True, sandbox: str = NO_SANDBOX
) -> list[str]:
    """The options of Codex's command line."""
    # Not in config.toml: that belongs to the home, and another run there may use another server.
    url = f"model_providers.scripted.base_url={json.dumps(server.url + '/v1')}"
    trust = ["--dangerously-bypass-hook-trust"] if vetted else []
    # Both request hosts on the internet at every start.
    alone = ["-c", "features.plugins=false", "-c", "features.apps=false"]
    return ["--sandbox", sandbox, *trust, *alone, "-c", url, "--model", model]


def run_codex(
    repo: Path, prompt: str, server: OpenAIServer, seconds: float = RUN_SECONDS, **more: Any
) -> Result:
    """Run `codex exec` to its end; see `start_codex`."""
    return start_codex(repo, prompt, server, **more).wait(seconds)


def codex_warnings(repo: Path, home: Path) -> list[str]:
    """Codex's warnings about the project's hooks at the start of each session."""
    with _AppServer(repo, home) as server:
        known = server.ask("hooks/list", {"cwds": [str(repo)]})
        return [text for folder in known["data"] for text in folder["warnings"] + folder["errors"]]


def codex_hooks(repo: Path, home: Path) -> list[dict[str, Any]]:
    """Codex's list of the project's hooks: key, command, hash, and whether they are trusted."""
    with _AppServer(repo, home) as server:
        return server.hooks()


def trust_codex_hooks(repo: Path, home: Path) -> None:
    """Store, in the test's home, the trust that Codex stores when the user accepts in `/hooks`."""
    with _AppServer(repo, home) as server:
        state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in server.hooks()}
        edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
        server.ask("config/batchWrite", {"edits": [edit]})


class _AppServer:
    """Codex as its own windows talk to it: a line of JSON for each request and each response."""

    def __init__(self, repo: Path, home: Path) -> None:
        home_for(repo, home, "")
        write_codex_config(home, repo)
        self._repo = repo
        self._ids = count(1)
        self._process = subprocess.Popen(
            [str(program("codex")), "app-server"],
            cwd=repo,
            env=codex_environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        self.ask("initialize", {"clientInfo": {"name": "holdfast-tests", "version": "1"}})
        self._send({"method": "initialized"})
        return self

    def __exit__(self, *trouble: object) -> None:
        self._process.communicate(timeout=RUN_SECONDS)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        id = next(self._ids)
        self._send({"id": id, "method": method, "params": params})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == id:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
        raise EOFError(f"codex app-server ended before it answered {method}")

    def hooks(self) -> list[dict[str, Any]]:
        known = self.ask("hooks/list", {"cwds": [str(self._repo)]})
        return [hook for folder in known["data"] for hook in folder["hooks"]]


def write_codex_config(home: Path, repo: Path) -> None:
    """Write config.toml, unless the home has one: Codex records the user's trust in it."""
    file = home / "codex" / "config.toml"
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"""\
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[projects.{json.dumps(str(repo))}]
trust_level = "trusted"
""",
        encoding="utf-8",
    )


def claude_environment(
    home: Path, server: AnthropicServer, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of Claude Code."""
    made = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    return client_environment(home, made, more)


def codex_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of Codex."""
    return client_environment(home, {"CODEX_HOME": str(home / "codex")}, more)


def home_for(repo: Path, home: Path | None, name: str) -> Path:
    made = home if home is not None else repo.parent / name
    made.mkdir(parents=True, exist_ok=True)
    return made


def client_environment(
    home: Path, made: Mapping[str, str], more: Mapping[str, str] | None
) -> dict[str, str]:
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    plain = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "NO_PROXY": "127.0.0.1",
        MARK: str(home),
    }
    return {**plain, **made, **(more or {})}


def write_json(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def hooks_for(
    command: str, events: Iterable[str], *, matcher: str | None = None, timeout: int = 60
) -> dict[str, Any]:
    """The `hooks` of both clients' files: one command for all these events."""
    entry: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}
    if matcher is not None:
        entry["matcher"] = matcher
    return {"hooks": {event: [entry] for event in events}}


class Recorder:
    """A hook command that records all its input and its own answers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log, self._answers = folder / "told.jsonl", folder / "answers.json"
        self.answers: dict[str, dict[str, Any]] = {}
        self.set()
        words = [sys.executable, "-I", "-S", HOOK, self._log, self._answers]
        self.command = shlex.join(map(str, words))

    def set(self, **answers: dict[str, Any]) -> None:
        """Set the answers to these events; answers set earlier stay."""
        self.answers |= answers
        write_json(self._answers, self.answers)

    def deny(self, reason: str, **more: Any) -> None:
        """Refuse every tool call."""
        self.set(PreToolUse={"stdout": json.dumps(denial(reason, **more))})

    def told(self, event: str = "", tool: str = "") -> list[dict[str, Any]]:
        """The records of an event, in order; of all events if none is named."""
        if not self._log.exists():
            return []
        # The last line may be incomplete: a hook may be writing it.
        lines = self._log.read_text().rpartition("\n")[0].splitlines()
        records = [json.loads(line) for line in lines]
        return [
            record
            for record in records
            if event in ("", record["data"].get("hook_event_name"))
            and tool in ("", record["data"].get("tool_name"))
        ]


def denial(reason: str, **more: Any) -> dict[str, Any]:
    """The output of a hook that refuses a tool call; both clients obey it."""
    said = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return {"hookSpecificOutput": said, **more}


def sweep(folder: Path) -> list[int]:
    """Kill the running processes that have a home below this folder; their pids."""
    mark = f"{MARK}={folder}".encode()
    killed = []
    end = time.monotonic() + 10
    while time.monotonic() < end:
        left = list(marked(mark))
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.append(pid)
        time.sleep(0.01)
    for running in [one for one in _started if one.home.is_relative_to(folder)]:
        running.kill()  # a failed test has not waited for it
        _started.remove(running)
    return killed


def marked(mark: bytes) -> Iterable[int]:
    """The processes with an environment entry that begins with `mark`; none without /proc."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        if any(entry.startswith(mark) for entry in entries):
            yield int(name)
