"""Which client does the tasks, and how it is called without a person.

The first of these: `[work.agent]` of `holdfast.toml`; Claude Code; Codex. The program itself is not
run to find out, so one that is installed but not logged in is chosen all the same.

Both calls were tried with Claude Code 2.1.325 and Codex 0.166.0, below a sandbox:

- Both read the prompt from standard input. It may have any length and any first character, and it
  appears in no list of processes.
- Claude Code refuses `--dangerously-skip-permissions` to root. Accepting edits and allowing Bash is
  enough for Edit, Write and Bash, for root and for others.
- Codex needs one writable file in its home, which holds an id and nothing that is executed. With
  `--ephemeral` it keeps no transcript; opening `sessions/` as well was not enough for one.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.errors import InvalidInput
from holdfast.manager.files.settings_text import FILE, WORK
from holdfast.work.screens.layout import AgentSettings, Layout
from holdfast.work.screens.phases import WORD_BYTES_MAX
from holdfast.work.screens.templates import filled

CLAUDE, CODEX = "Claude Code", "Codex"

#: Each client's program, its name, and its call; the prompt is its standard input.
KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "claude": (CLAUDE, ("claude", "-p", "--permission-mode", "acceptEdits",
                        "--allowedTools", "Bash")),
    "codex": (CODEX, ("codex", "exec", "--dangerously-bypass-approvals-and-sandbox",
                      "--skip-git-repo-check", "--ephemeral", "-")),
}  # fmt: skip


class AgentMissingError(InvalidInput):
    """No client is installed that could do the tasks. The field `looked_for` has the programs."""

    code = "E_NO_AGENT"


class PromptTooLongError(InvalidInput):
    """A prompt does not fit into the command line of its agent."""

    code = "E_PROMPT"


@dataclass(frozen=True, slots=True)
class Agent:
    """An installed client.

    `program` is the absolute path of the program; `command` is the call, as a list of words with
    the placeholders `{prompt}` and `{name}`. With `stdin` the prompt is its standard input.
    `environment` are variables that it gets in addition. `writes` are files outside the repository
    without which it does not start; one that is missing must be created first, empty.
    `timeout_seconds` is None if the settings do not set it.
    """

    name: str
    program: str
    command: tuple[str, ...]
    stdin: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    timeout_seconds: float | None = None

    def words(self, name: str, prompt: str) -> list[str]:
        """The command for one task, ready to run. Raises PromptTooLongError."""
        values = {"name": name, "prompt": prompt}
        found = [self.program, *(filled(word, values) for word in self.command[1:])]
        if any(len(word.encode("utf-8", "surrogateescape")) > WORD_BYTES_MAX for word in found):
            raise PromptTooLongError(
                f"the prompt of {name!r} is longer than {WORD_BYTES_MAX} bytes, which no command "
                "line accepts",
                hint=f"set stdin = true in [{WORK}.agent] of {FILE}, and leave {{prompt}} out of "
                "its command",
                task=name,
            )
        return found

    def shown(self, name: str) -> str:
        """The call for a task as one line for people, who know the prompt."""
        values = {"name": name, "prompt": f"prompt of {name}"}
        line = shlex.join(filled(word, values) for word in self.command)
        return f"{line} <{shlex.quote(values['prompt'])}" if self.stdin else line


def find_agent(root: str, environ: Mapping[str, str]) -> Agent:
    """The client for the repository with this root. Raises AgentMissingError, or SettingsError if
    the settings are wrong."""
    settings = Layout.load(root, environ).agent
    if settings is not None:
        return _set(settings, root, environ)
    for program, (name, command) in KNOWN.items():
        found = _which(program, root, environ)
        if found:
            return Agent(name, found, command, stdin=True, writes=_writes(name, environ))
    raise AgentMissingError(
        f"no agent is installed: neither {' nor '.join(KNOWN)} is on the PATH",
        hint=f"install one of them, or name another with command in [{WORK}.agent] of {FILE}",
        looked_for=list(KNOWN),
    )


def agent_of(command: Sequence[str], root: str, environ: Mapping[str, str]) -> Agent:
    """The agent that a task names itself. Raises AgentMissingError."""
    return _set(AgentSettings(tuple(command)), root, environ)


def _set(settings: AgentSettings, root: str, environ: Mapping[str, str]) -> Agent:
    program = settings.command[0]
    # Its own variables are those that it runs with, including the PATH.
    found = _which(program, root, {**environ, **settings.environment})
    if not found:
        raise AgentMissingError(
            f"there is no program {program!r}, which the agent's command begins with"
            + (f", in {root}" if os.sep in program and not os.path.isabs(program) else ""),
            hint="install it, or correct the command",
            looked_for=[program],
        )
    stem = os.path.basename(program)
    name = KNOWN[stem][0] if stem in KNOWN else stem
    return Agent(
        name, found, settings.command, settings.stdin, dict(settings.environment),
        _writes(name, {**environ, **settings.environment}), settings.timeout_seconds,
    )  # fmt: skip


def _which(program: str, root: str, environ: Mapping[str, str]) -> str:
    """The absolute path of a program; empty if there is none. A name with a slash is relative to
    the root, and so are relative entries of the PATH."""
    if os.sep in program:
        named = os.path.expanduser(program.removeprefix("./"))
        return shutil.which(os.path.join(root, named)) or ""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(os.path.join(root, folder) for folder in folders if folder)
    return shutil.which(program, path=path) or "" if path else ""


def _writes(name: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    if name != CODEX:
        return ()
    home = environ.get("HOME") or os.path.expanduser("~")
    folder = environ.get("CODEX_HOME") or f"{home}/.codex"
    return (f"{folder}/installation_id",)
