"""Forbidden operations, attempted in the trial repository with the commands that are installed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys

import holdfast
from holdfast.gate.config.settings import OFF
from holdfast.gate.doctor import client_rules
from holdfast.gate.doctor.finding import FAILED, HELD, NOTE, SKIPPED, Finding
from holdfast.gate.doctor.trial_repository import BOXED, FREE, MINE, THEIRS
from holdfast.gate.doctor.trial_repository import HELD as HELD_FILE
from holdfast.gate.git import git_hooks
from holdfast.gate.git.git_files import GitError
from holdfast.gate.install.install_record import load
from holdfast.gate.install.installed_clients import git_folder, has_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gate.doctor.client_rules import Ran, Shot
    from holdfast.gate.doctor.trial_repository import Scene
    from holdfast.gate.git.git_hooks import Hook
    from holdfast.gate.install.installed_clients import Client
    from holdfast.gate.sandbox.kernel.landlock import Support

EDIT = "a forbidden edit"
SHELL = "a forbidden shell write"
WORK = "free work"
STORE = "a broken ledger"
WAY_OUT = "the way out of a broken ledger"
COMMIT = "a forbidden commit"
FREE_COMMIT = "a free commit"
SANDBOX = "a sandboxed write"
SIGNAL = "a sandboxed signal"
LEASE = "a write below a broker"

PUT_RIGHT = "holdfast doctor --fix, or holdfast init"
BASH = "Bash"

#: The tools with which each client edits.
_EDITORS = {"claude": ("Write", "Edit", "NotebookEdit"), "codex": ("apply_patch",)}


# Clients


def client(scene: Scene, root: str, one: Client, environ: Mapping[str, str]) -> list[Finding]:
    """Pass to the hooks of a client the calls that they must stop, and those that they must not."""
    if one.name not in _EDITORS:
        return [Finding(one.name, EDIT, SKIPPED, f"the doctor does not know {one.title}'s tools")]
    volley = _Volley(scene, root, one, environ)
    return [*volley.edits(), *volley.shell(), *volley.work(), *volley.store()]


class _Volley:
    """The calls of one client. Each comes from an agent of its own: the gate remembers refusals."""

    def __init__(self, scene: Scene, root: str, one: Client, environ: Mapping[str, str]) -> None:
        self.scene, self.root, self.one, self.environ = scene, root, one, environ
        self._count = 0
        self._late: dict[tuple[str, ...], Ran] = {}

    def edits(self) -> list[Finding]:
        for tool in _EDITORS[self.one.name]:
            found = self._must_block(EDIT, tool, self._edit(tool, self.scene.root, HELD_FILE))
            if found.state != HELD:
                return [found]
        return [Finding(self.one.name, EDIT, HELD, "a file that another process holds")]

    def shell(self) -> list[Finding]:
        if self.scene.settings.shell == OFF:
            told = 'not guarded: gate.shell = "off" in holdfast.toml'
            return [Finding(self.one.name, SHELL, SKIPPED, told)]
        return [self._must_block(SHELL, BASH, {"command": f"echo x > {HELD_FILE}"})]

    def work(self) -> list[Finding]:
        """A free file must pass: a hook that refuses everything protects nothing."""
        tool, file = _EDITORS[self.one.name][0], f"{self.one.name}.txt"  # its agent keeps it
        self.scene.put(f"{self.scene.root}/{file}", MINE)
        calls = [(tool, self._edit(tool, self.scene.root, file)), (BASH, {"command": "ls"})]
        for tool, fields in calls:
            armed = client_rules.armed(self.root, self.one, tool, self.environ)
            if not armed.shots:
                return [Finding(self.one.name, WORK, SKIPPED, armed.why)]
            for shot in armed.shots:
                ran = self._fire(shot, tool, fields, self.scene.root)
                blocks = client_rules.blocks(self.one.name, ran, closed=shot.closed)
                if (ran.late or ran.code) and not blocks:
                    told = f"it passes only because the hook does not work: {ran.told()}"
                    return [Finding(self.one.name, WORK, SKIPPED, told)]
                if blocks:
                    told = f"{tool} was refused although the file is free: {_why(ran)}"
                    return [Finding(self.one.name, WORK, FAILED, told, PUT_RIGHT)]
        return [Finding(self.one.name, WORK, HELD, "work on free files passes")]

    def store(self) -> list[Finding]:
        tool, folder = _EDITORS[self.one.name][0], self.scene.broken
        found = [self._must_block(STORE, tool, self._edit(tool, folder, FREE), folder)]
        for shot in client_rules.armed(self.root, self.one, BASH, self.environ).shots:
            ran = self._fire(shot, BASH, {"command": "holdfast status"}, folder)
            if client_rules.blocks(self.one.name, ran, closed=shot.closed):
                told = "an agent cannot run holdfast itself while its ledger is broken"
                fix = "in that case run holdfast at a terminal of your own"
                found.append(Finding(self.one.name, WAY_OUT, NOTE, told, fix))
        return found

    def _must_block(
        self, check: str, tool: str, fields: Mapping[str, str], folder: str = ""
    ) -> Finding:
        """One call that no client may carry out. One refusal by any of several hooks is enough."""
        name = self.one.name
        armed = client_rules.armed(self.root, self.one, tool, self.environ)
        if not armed.shots:
            return Finding(name, check, FAILED, f"{tool} is not stopped: {armed.why}", PUT_RIGHT)
        told = ""
        for shot in armed.shots:
            ran = self._fire(shot, tool, fields, folder or self.scene.root)
            if client_rules.blocks(name, ran, closed=shot.closed):
                return Finding(name, check, HELD, f"{tool} was refused")
            told = ran.told() if ran.late or ran.code else "its answer does not block"
        return Finding(name, check, FAILED, f"{tool} is not stopped by its hook: {told}", PUT_RIGHT)

    def _fire(self, shot: Shot, tool: str, fields: Mapping[str, str], folder: str) -> Ran:
        """Run a hook as its client would, before a tool."""
        if shot.words in self._late:  # once is enough to wait for
            return self._late[shot.words]
        self._count += 1
        session = f"doctor-{self.one.name}-{self._count}"
        told = {
            "session_id": session,
            "transcript_path": f"{self.scene.folder}/transcript.jsonl",
            "cwd": folder,
            "hook_event_name": "PreToolUse",
            "permission_mode": "default",
            "tool_name": tool,
            "tool_input": fields,
            "tool_use_id": f"call-{self._count}",
        }
        more = {}
        if self.one.name == "claude":
            more = {
                "CLAUDE_PID": str(os.getpid()),
                "CLAUDE_CODE_SESSION_ID": session,
                "CLAUDE_PROJECT_DIR": folder,
            }
        env = self.scene.environment(**more)
        ran = self.scene.run(
            shot.words, told=json.dumps(told), cwd=folder, seconds=shot.seconds, env=env
        )
        if ran.late:
            self._late[shot.words] = ran
        return ran

    def _edit(self, tool: str, folder: str, name: str) -> dict[str, str]:
        path = f"{folder}/{name}"
        if tool == "Write":
            return {"file_path": path, "content": THEIRS}
        if tool == "Edit":
            return {"file_path": path, "old_string": MINE, "new_string": THEIRS}
        if tool == "NotebookEdit":
            return {"notebook_path": path, "cell_id": "1", "new_source": THEIRS}
        lines = ("*** Begin Patch", f"*** Update File: {name}", "@@", f"-{MINE.strip()}",
                 f"+{THEIRS.strip()}", "*** End Patch", "")  # fmt: skip
        return {"command": "\n".join(lines)}


def _why(ran: Ran) -> str:
    """The beginning of a refusal's text."""
    try:
        output = json.loads(ran.out)["hookSpecificOutput"]
        return str(output["permissionDecisionReason"])[:160]
    except (ValueError, LookupError, TypeError):
        return ran.told()


# git


def git(scene: Scene, root: str) -> list[Finding]:
    """Commit a held file and a free one, with copies of the hooks that are installed."""
    if not has_git(root):
        return []
    try:
        found = git_hooks.status(git_folder(root))
    except GitError as error:
        return [Finding("git", COMMIT, FAILED, error.message, error.hint)]
    ours = {hook.name: hook for hook in found if _is_ours(hook)}
    if "pre-commit" not in ours:
        if not load(root).git:
            told = "Holdfast's git hooks are not installed here: commits are not checked"
            return [Finding("git", COMMIT, SKIPPED, told, "holdfast init --git")]
        told = "Holdfast's pre-commit hook is not where git looks for it"
        return [Finding("git", COMMIT, FAILED, told, PUT_RIGHT)]
    trouble = _prepare(scene, ours)
    if trouble:
        return [Finding("git", COMMIT, FAILED, f"it could not be tried: {trouble}")]
    forbidden = _forbidden(scene)
    return [forbidden, _free(scene)] if forbidden.state == HELD else [forbidden]


def _is_ours(hook: Hook) -> bool:
    return hook.state in (git_hooks.INSTALLED, git_hooks.OUTDATED, git_hooks.EDITED)


def _prepare(scene: Scene, ours: Mapping[str, Hook]) -> str:
    """Make the scene a git repository with these hooks; the error, if there is one.

    Without the user's own hooks that ours run too: those are not to be started here.
    """
    folder = f"{scene.folder}/hooks"
    os.mkdir(folder)
    for name, hook in ours.items():
        shutil.copyfile(hook.path, f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", stat.S_IMODE(os.stat(hook.path).st_mode) | stat.S_IRUSR)
    for words in (
        ("init", "--quiet", "--template="),
        ("config", "core.hooksPath", f"{folder}-none"),
        ("add", "--", HELD_FILE, FREE),
        ("commit", "--quiet", "-m", "before"),
        ("config", "core.hooksPath", folder),
    ):
        ran = scene.git(*words)
        if ran.late or ran.code != 0:
            return f"git {words[0]}: {ran.told()}"
    return ""


def _commit(scene: Scene, name: str) -> tuple[bool, Ran]:
    """Whether a commit of one changed file was made."""
    before = scene.git("rev-parse", "HEAD").out
    scene.put(f"{scene.root}/{name}", THEIRS)
    scene.git("add", "--", name)
    ran = scene.git("commit", "--quiet", "-m", "doctor")
    return scene.git("rev-parse", "HEAD").out != before, ran


def _forbidden(scene: Scene) -> Finding:
    made, ran = _commit(scene, HELD_FILE)
    scene.git("reset", "--quiet", "--hard")
    if made:
        told = "a file that another process holds was committed"
        return Finding("git", COMMIT, FAILED, told, PUT_RIGHT)
    if ran.late:
        return Finding("git", COMMIT, FAILED, f"the hook is too slow: {ran.told()}", PUT_RIGHT)
    return Finding("git", COMMIT, HELD, "a file that another process holds was refused")


def _free(scene: Scene) -> Finding:
    made, ran = _commit(scene, FREE)
    if made:
        return Finding("git", FREE_COMMIT, HELD, "a free file was committed")
    return Finding("git", FREE_COMMIT, FAILED, f"it was refused: {ran.told()}", PUT_RIGHT)


# The sandbox

_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from holdfast.cli import main; main()"


def sandbox(scene: Scene) -> list[Finding]:
    """Write a file that was not locked, and signal this process, from inside a sandbox."""
    from holdfast.gate.sandbox.kernel.landlock import support

    able = support()
    if not able.is_enough:
        told = f"this kernel cannot enforce it: {able.lacks}"
        return [Finding("sandbox", SANDBOX, SKIPPED, told)]
    scene.put(f"{scene.root}/{HELD_FILE}", MINE)
    script = (
        f"echo in > {BOXED}; echo x > {HELD_FILE}; echo x > new.txt; "
        f"kill -0 {os.getpid()} && echo out >> {BOXED}; true"
    )
    ran = _run(scene, script, "--sandbox", "--write", BOXED)
    if scene.text(HELD_FILE) != MINE or os.path.lexists(f"{scene.root}/new.txt"):
        told = "a command wrote a file that it had not locked, in spite of its sandbox"
        return [Finding("sandbox", SANDBOX, FAILED, told, "do not rely on holdfast run --sandbox")]
    found, _, signalled = scene.text(BOXED).partition("\n")
    if found != "in":
        told = f"the command could not write the file that it had locked: {ran.told()}"
        return [Finding("sandbox", SANDBOX, FAILED, told, "holdfast run --sandbox prints more")]
    told = "only locked files could be written"
    return [Finding("sandbox", SANDBOX, HELD, told), _signal(able, bool(signalled))]


def leases(scene: Scene) -> list[Finding]:
    """Write a held file in several ways below a broker, and a free one."""
    from holdfast.gate.broker.command_start import demand
    from holdfast.gate.sandbox import SandboxError

    try:
        demand()
    except SandboxError as error:
        return [Finding("sandbox", LEASE, SKIPPED, error.message)]
    scene.put(f"{scene.root}/{HELD_FILE}", MINE)
    scene.put(f"{scene.root}/{BOXED}", "")
    tries = "; ".join(
        (
            f"echo x > {HELD_FILE}", f"echo x > over && mv -f over {HELD_FILE}",
            f"chmod 0 {HELD_FILE}", f"rm -f {HELD_FILE}", f"ln -f {BOXED} {HELD_FILE}",
        )
    )  # fmt: skip
    ran = _run(scene, f"echo in > {BOXED}; {tries}; rm -f over; true", "--lease")
    if scene.text(HELD_FILE) != MINE:
        told = "a command wrote a file that another process holds, although it ran below a broker"
        return [Finding("sandbox", LEASE, FAILED, told, "do not rely on holdfast run --lease")]
    if scene.text(BOXED) != "in\n":
        told = f"the command could not write a free file: {ran.told()}"
        return [Finding("sandbox", LEASE, FAILED, told, "holdfast run --lease prints more")]
    return [Finding("sandbox", LEASE, HELD, "only free files could be written")]


def _run(scene: Scene, script: str, *options: str) -> Ran:
    """A shell line in the scene, by `holdfast run`."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(holdfast.__file__)))
    command = [sys.executable, "-I", "-S", "-c", _RUN, package, "run", *options]
    return scene.run([*command, "--", "/bin/sh", "-c", script])


def _signal(able: Support, left: bool) -> Finding:
    """Whether a signal left the sandbox."""
    if not left:
        return Finding("sandbox", SIGNAL, HELD, "the kernel kept it inside")
    if not able.scopes_signals:
        told = f"a command can signal processes outside: {able.unscoped}"
        return Finding("sandbox", SIGNAL, NOTE, told, "use a newer kernel if that matters to you")
    told = "a command could signal this process, in spite of its sandbox"
    return Finding("sandbox", SIGNAL, FAILED, told, "do not rely on holdfast run --sandbox")
