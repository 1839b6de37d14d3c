"""Fixtures that the tests of the real clients share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .crew import Claudes, Codexes, Crew
    from .drive import Recorder
    from .gated import Gated
    from .servers import AnthropicServer, OpenAIServer


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A real repository with two committed files, `a.txt` and `b.txt`."""
    root = tmp_path / "repo"
    root.mkdir()
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("old\n")
    identity = ["-c", "user.name=Tess", "-c", "user.email=tess@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return root


@pytest.fixture
def hook(tmp_path: Path) -> Recorder:
    """A hook that records its input, and lets everything pass until a test sets other answers."""
    from .drive import Recorder

    return Recorder(tmp_path / "hook")


@pytest.fixture
def anthropic(tmp_path: Path) -> Iterator[AnthropicServer]:
    """Claude Code's server; any process that a client leaves running is killed after the test."""
    from .drive import sweep
    from .servers import AnthropicServer

    need("claude")
    with AnthropicServer() as server:
        yield server
        sweep(tmp_path)


@pytest.fixture
def openai(tmp_path: Path) -> Iterator[OpenAIServer]:
    """Codex's server; any process that a client leaves running is killed after the test."""
    from .drive import sweep
    from .servers import OpenAIServer

    need("codex")
    with OpenAIServer() as server:
        yield server
        sweep(tmp_path)


@pytest.fixture
def gated(repo: Path) -> Gated:
    """A repository that is guarded as soon as a test has called its `init`."""
    from .gated import Gated

    return Gated(repo)


@pytest.fixture
def claudes(gated: Gated, anthropic: AnthropicServer) -> Claudes:
    """Claude Codes in that repository."""
    from .crew import Claudes

    return Claudes(gated, anthropic)


@pytest.fixture
def codexes(gated: Gated, openai: OpenAIServer) -> Codexes:
    """Codexes in that repository."""
    from .crew import Codexes

    return Codexes(gated, openai)


@pytest.fixture(params=["claudes", "codexes"])
def crew(request: pytest.FixtureRequest) -> Crew:
    """Agents of each client in turn, for behaviour that all of them share."""
    made: Crew = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def leaders(crew: Crew) -> Crew:
    """Agents of each client in turn that can have sub-agents."""
    crew.leads = True
    return crew


def need(client: str) -> None:
    """Skip the test where a client cannot be installed."""
    if os.name != "posix":
        pytest.skip("these tests drive the clients with POSIX signals and files")
    reason = _why_not(client)
    if reason:
        pytest.skip(f"the real client cannot be had here: {reason}")


@cache
def _why_not(client: str) -> str:
    """Why a client is unavailable, or ""; determined once, because npm is slow to give up."""
    from .install import NotInstallable, program

    try:
        program(client)
    except NotInstallable as error:
        return str(error)
    return ""
