"""Four clients without any hook, each instructed to write in every way that it has.

A `Maker` is one client: how it is started, and the calls of its model. Two clients appear twice,
because their tools depend on the model.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from . import gemini, opencode
from .drive import CODEX_CODE_MODEL, CODEX_MODEL, Running, start_claude, start_codex
from .servers import (
    AnthropicServer,
    Call,
    ModelServer,
    OpenAIServer,
    Step,
    bash,
    code,
    code_patch,
    edit,
    edit_cell,
    patch,
    read,
    write,
)

#: The error that a model gets when its call is refused. Codex reports no reason.
REFUSED = re.compile(
    r"permission ?denied|EACCES|Failed to (write|delete) file|Failed to remove original",
    re.IGNORECASE,
)
#: The error when the file has changed since it was read; node and opencode cannot name it.
STALE = re.compile(
    r"stale|system error -116|Unknown: FileSystem.writeFile|Failed to write file", re.IGNORECASE
)

#: Ways in which a shell can change `a.txt`, whose content before is "mine".
SHELL_WAYS = {
    "sed": "sed -i s/mine/theirs/ a.txt",
    "echo": "echo theirs >a.txt",
    "append": "echo theirs >>a.txt",
    "mv": "mv -f c.txt a.txt",
    "away": "mv a.txt d.txt",
    "unlink": "unlink a.txt",
    "checkout": "git checkout -- a.txt",
    "chmod": "chmod 600 a.txt",
    "touch": "touch -d 2001-01-01 a.txt",
}


def all_ways() -> str:
    """A script that tries each of them, and prints how it ended. The files it needs are free:
    `c.txt`, and `a.txt` where the previous way has changed it."""
    ready = "echo theirs >c.txt; echo mine 2>/dev/null >a.txt"
    lines = [f"{ready}; {line}; echo '<{way}='$?'>'" for way, line in SHELL_WAYS.items()]
    return "\n".join(lines)


def ended(said: str) -> dict[str, int]:
    """The exit code of each way, from the script's output."""
    return {way: int(code) for way, code in re.findall(r"<(\w+)=(\d+)>", said)}


def lease(holder: str, *options: str) -> list[str]:
    """The command line that starts a client with a lease for each file that it writes."""
    return [sys.executable, "-m", "holdfast", "run", "--lease", "--holder", holder, *options, "--"]


def wait_for(flag: Path) -> str:
    """A line that ends when a file outside of the repository exists."""
    return f"until [ -e {shlex.quote(str(flag))} ]; do sleep 0.05; done"


class Way(NamedTuple):
    """A file, its content, and the calls that change it; the last one writes."""

    file: str
    text: str
    calls: tuple[Call, ...]


NOTEBOOK: dict[str, Any] = {
    "cells": [{"cell_type": "markdown", "id": "one", "metadata": {}, "source": ["mine"]}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


class Maker:
    """One client in a repository; its model follows the steps of each start."""

    client: ClassVar[str]
    """Its name in these tests."""
    program: ClassVar[str]
    """Its name in `install.CLIENTS`."""

    def __init__(self, repo: Path, server: ModelServer) -> None:
        self.repo, self.server = repo, server
        self._homes = count(1)

    def start(self, script: str, *steps: Step, before: Sequence[str] = (), **more: Any) -> Running:
        """Start the client in a home of its own, with these steps."""
        self.server.scripts[script] = [*steps, "Done."]
        home = self.repo.parent / f"{self.client}-home-{next(self._homes)}"
        return self._start(f"[[{script}]]", home=home, before=before, **more)

    def run(self, script: str, *steps: Step, **more: Any) -> tuple[str, ...]:
        """Run the client to its end, which must be a success; the results of its tools."""
        result = self.start(script, *steps, **more).wait()
        assert result.code == 0, result
        said = self.server.results(script)
        assert len(said) == len(steps), said
        return said

    def _start(self, prompt: str, **more: Any) -> Running:
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str) -> Call:
        """Replace one line of a file with the client's own tool."""
        raise NotImplementedError

    def create(self, path: str, text: str) -> Call:
        """Write a whole file of one line with the client's own tool."""
        raise NotImplementedError

    def shell(self, command: str) -> Call:
        """Run a command, and wait for it."""
        raise NotImplementedError

    def ways(self) -> list[Way]:
        """Every way in which its own tools can change a file, each on a file of its own."""
        return [
            Way("edit.txt", "mine\n", (self.edit("edit.txt", "mine", "theirs"),)),
            Way("write.txt", "mine\n", (self.create("write.txt", "theirs"),)),
        ]


class Claude(Maker):
    client = program = "claude"
    server: AnthropicServer

    def _start(self, prompt: str, **more: Any) -> Running:
        return start_claude(self.repo, prompt, self.server, **more)

    def edit(self, path: str, old: str, new: str) -> Call:
        return edit(self.repo / path, old, new)

    def create(self, path: str, text: str) -> Call:
        return write(self.repo / path, f"{text}\n")

    def shell(self, command: str) -> Call:
        return bash(command)

    def ways(self) -> list[Way]:
        book = self.repo / "cell.ipynb"
        calls = read(book), edit_cell(book, "one", "theirs")
        return [*super().ways(), Way(book.name, json.dumps(NOTEBOOK), calls)]


class Patching(Maker):
    """A client whose model edits with patches."""

    def patch(self, part: str) -> Call:
        """A call that patches one file."""
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str) -> Call:
        return self.patch(f"*** Update File: {path}\n@@\n-{old}\n+{new}")

    def create(self, path: str, text: str) -> Call:
        return self.patch(f"*** Add File: {path}\n+{text}")

    def ways(self) -> list[Way]:
        delete = self.patch("*** Delete File: delete.txt")
        away = "*** Update File: away.txt\n*** Move to: moved.txt\n@@\n-mine\n+theirs"
        onto = "*** Update File: free.txt\n*** Move to: onto.txt\n@@\n-free\n+theirs"
        return [
            *super().ways(),
            Way("delete.txt", "mine\n", (delete,)),
            Way("away.txt", "mine\n", (self.patch(away),)),
            Way("onto.txt", "mine\n", (self.create("free.txt", "free"), self.patch(onto))),
        ]


class Codex(Patching):
    client = program = "codex"
    server: OpenAIServer
    model = CODEX_MODEL

    def _start(self, prompt: str, **more: Any) -> Running:
        open = ["--dangerously-bypass-approvals-and-sandbox"]
        return start_codex(self.repo, prompt, self.server, options=open, model=self.model, **more)

    def patch(self, part: str) -> Call:
        return patch(part)

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command, "yield_time_ms": 30_000})


class CodexWithCode(Codex):
    """A Codex whose model can only run JavaScript, from which it calls the tools."""

    client = "codex-code"
    model = CODEX_CODE_MODEL

    def patch(self, part: str) -> Call:
        return code_patch(part)

    def shell(self, command: str) -> Call:
        words = json.dumps({"cmd": command, "yield_time_ms": 30_000})
        return code(f"text(await tools.exec_command({words}))")


class Gemini(Maker):
    client = program = "gemini"
    server: gemini.GeminiServer

    def _start(self, prompt: str, **more: Any) -> Running:
        return gemini.start_gemini(self.repo, prompt, self.server, **more)

    def edit(self, path: str, old: str, new: str) -> Call:
        return gemini.replace(self.repo / path, old, new)

    def create(self, path: str, text: str) -> Call:
        return gemini.write_file(self.repo / path, f"{text}\n")

    def shell(self, command: str) -> Call:
        return gemini.run_shell(command)


class Opencode(Maker):
    client = program = "opencode"
    server: AnthropicServer

    def _start(self, prompt: str, **more: Any) -> Running:
        return opencode.start_opencode(self.repo, prompt, self.server, **more)

    def edit(self, path: str, old: str, new: str) -> Call:
        return opencode.edit(self.repo / path, old, new)

    def create(self, path: str, text: str) -> Call:
        return opencode.write(self.repo / path, f"{text}\n")

    def shell(self, command: str) -> Call:
        return opencode.bash(command)


class OpencodeWithPatches(Patching, Opencode):
    """An opencode whose model patches files."""

    client = "opencode-patch"

    def _start(self, prompt: str, **more: Any) -> Running:
        return super()._start(prompt, model=opencode.PATCH_MODEL, **more)

    def patch(self, part: str) -> Call:
        return opencode.patch(part)


#: Each client with the server of its model.
MAKERS: dict[str, tuple[type[Maker], type[ModelServer]]] = {
    "claude": (Claude, AnthropicServer),
    "codex": (Codex, OpenAIServer),
    "codex-code": (CodexWithCode, OpenAIServer),
    "gemini": (Gemini, gemini.GeminiServer),
    "opencode": (Opencode, AnthropicServer),
    "opencode-patch": (OpencodeWithPatches, AnthropicServer),
}
