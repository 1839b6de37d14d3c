"""The checks that need no attempt: settings, hooks, trust, leases and leftovers."""

from __future__ import annotations

import os
import shutil

import holdfast
from holdfast.core.conflicts import fate
from holdfast.core.draft import Draft
from holdfast.core.errors import HoldfastError
from holdfast.core.root_errors import SettingsError
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.config.settings import Settings
from holdfast.gate.doctor.codex_trust import codex_trust
from holdfast.gate.doctor.finding import FAILED, HELD, NOTE, SKIPPED, Finding
from holdfast.gate.doctor.forbidden_writes import PUT_RIGHT
from holdfast.gate.doctor.server_access import server_access
from holdfast.gate.git.git_files import GitError
from holdfast.gate.install import (
    client_files,
    client_hooks,
    exec_form_check,
    git_part,
    install_plan,
)
from holdfast.gate.install.client_hooks import Unusable
from holdfast.gate.install.hook_command import InstallError, own_command
from holdfast.gate.install.install_record import load
from holdfast.gate.install.installed_clients import (
    git_folder,
    has_git,
    in_use,
    obstacles,
)
from holdfast.manager import transactions
from holdfast.manager.files.settings_text import FILE
from holdfast.manager.files.unfinished_edits import left_running
from holdfast.manager.ledger_location import has_ledger
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.model import Grant
    from holdfast.core.view import View
    from holdfast.gate.doctor.trial_repository import Scene
    from holdfast.gate.install.hook_command import Command
    from holdfast.gate.install.installed_clients import Client

HOOKS = "hooks"
CLIENTS = "clients"
TRUST = "trust"
FAILING = "a hook that fails"
_BOM = "\ufeff"
#: How many items of a long list are named.
NAMED_MAX = 5


def installed(root: str) -> list[Client]:
    """The clients that have hooks of ours here, or should have."""
    return install_plan.installed(root)


def gate(root: str, environ: Mapping[str, str]) -> list[Finding]:
    """The switch and the settings."""
    found: list[Finding] = []
    off = switched_off(root)
    if off is not None:
        told = f"{off.sentence()}: edits are not checked"
        found.append(Finding("gate", "switch", FAILED, told, "holdfast on"))
    try:
        settings = Settings.load(root)
    except SettingsError as error:
        found.append(Finding("settings", FILE, FAILED, error.message, error.hint))
        return found
    return found + _notify(root, settings.notify[:1], environ)


def _notify(root: str, first: Sequence[str], environ: Mapping[str, str]) -> list[Finding]:
    """Whether the command for notices can be found."""
    for program in first:
        # as it is started: in the folder of the repository
        place = os.path.join(root, program) if os.path.dirname(program) else program
        if shutil.which(place, path=environ.get("PATH", os.defpath)) is None:
            told = f"there is no program {program!r}, so blocked agents are not reported"
            fix = f"install it, or correct notify in {FILE}"
            return [Finding("settings", "notify", NOTE, told, fix)]
    return []


# Clients


def hooks_of(
    root: str, one: Client, settings: Settings, environ: Mapping[str, str]
) -> list[Finding]:
    """Whether the hooks of a client are the ones that `init` would write."""
    told = _drift(root, one, settings, environ)
    known = load(root).version
    if known and known != holdfast.__version__:
        told.append(f"version {known} wrote them, and this is {holdfast.__version__}")
    if told:
        return [Finding(one.name, HOOKS, FAILED, _listed(told, "; "), PUT_RIGHT)]
    return [Finding(one.name, HOOKS, HELD, f"all hooks are in {one.file}")]


def _drift(root: str, one: Client, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    try:
        text = client_files.read(f"{root}/{one.file}", one.file)
        if text is None:
            return [f"there is no {one.file}: {one.title} has no hooks"]
        wanted = one.wanted(own_command(), settings)
        told = client_hooks.differences(text.removeprefix(_BOM), wanted)
    except Unusable as error:
        line = f", line {error.line}" if error.line else ""
        return [f"{one.file}{line}: {error}; {one.title} ignores the whole file"]
    except InstallError as error:
        return [error.message]
    return told + obstacles(one, root, environ)


def trust_of(root: str, one: Client, scene: Scene, environ: Mapping[str, str]) -> list[Finding]:
    """Whether a client that requires the user's trust has it for our hooks."""
    if one.name != "codex":
        return []
    said = codex_trust(root, one.home_folder(environ), scene, environ)
    if said.why:
        told = f"it is unknown whether Codex trusts the hooks: {said.why}"
        return [Finding(one.name, TRUST, NOTE, told, one.adapter.TO_DO)]
    if not said.skipped:
        return [Finding(one.name, TRUST, HELD, "Codex runs the hooks: they are trusted")]
    told = _listed([f"{event} ({state})" for event, state in said.skipped])
    return [Finding(one.name, TRUST, FAILED, f"Codex skips the hooks: {told}", one.adapter.TO_DO)]


def failing(one: Client, environ: Mapping[str, str]) -> list[Finding]:
    """Whether a client refuses an edit if its hook cannot be run."""
    if not one.adapter.EXEC_FORM:
        return []
    obeyed = exec_form_check.tried(environ)
    if obeyed is None:
        told = f"{exec_form_check.PROGRAM} is not on the path"
        return [Finding(one.name, FAILING, SKIPPED, told)]
    if obeyed.problem:
        return [Finding(one.name, FAILING, FAILED, obeyed.problem, obeyed.fix)]
    if obeyed.why:
        return [Finding(one.name, FAILING, NOTE, f"the outcome is unknown: {obeyed.why}")]
    return [Finding(one.name, FAILING, HELD, f"{obeyed.program} treats its failure as a refusal")]


def others(root: str, clients: Sequence[Client], environ: Mapping[str, str]) -> list[Finding]:
    """Clients that are in use without hooks; or the absence of all hooks."""
    if not clients and not load(root).git:
        return [Finding("gate", HOOKS, FAILED, "no hooks are installed here", "holdfast init")]
    names = {one.name for one in clients}
    found = []
    if not clients:
        told, fix = (
            "no client has hooks here, so edits are not checked",
            "holdfast init --client claude",
        )
        found.append(Finding("gate", HOOKS, FAILED, told, fix))
    elif not any(shutil.which(name, path=environ.get("PATH")) for name in names):
        programs = " or ".join(sorted(names))
        told = f"{programs} is not on the path, so no client was there to obey the hooks"
        found.append(Finding("gate", CLIENTS, NOTE, told))
    return found + [
        Finding(
            one.name, HOOKS, NOTE, f"{one.title} has no hooks here, and {why}",
            f"holdfast init --client {one.name}, if it is used here",
        )
        for one, why in in_use(root, environ) if one.name not in names
    ]  # fmt: skip


# git


def git(root: str) -> list[Finding]:
    """git's hooks, and hook managers that endanger the work of other agents at a commit."""
    if not has_git(root):
        return []
    found = [Finding("git", "commits", NOTE, told) for told in git_part.warnings(git_folder(root))]
    if not load(root).git:
        return found
    try:
        command: Command | None = own_command()
    except InstallError:
        command = None
    try:
        told = git_part.problems(git_folder(root), None if command is None else command.words())
    except GitError as error:
        told = [error.message]
    if told:
        return [Finding("git", HOOKS, FAILED, _listed(told, "; "), PUT_RIGHT), *found]
    return [Finding("git", HOOKS, HELD, "all hooks of git are in place"), *found]


# The ledger


def ledger(root: str, environ: Mapping[str, str]) -> list[Finding]:
    """Whether the ledger can be read, and which leases of dead owners are left in it."""
    if not has_ledger(root):
        return []
    try:
        with LockManager.open(root) as manager:
            stale, orphaned = transactions.look(manager, _sorted)
            server = server_access(root, manager, environ)
    except HoldfastError as error:
        return [Finding("ledger", "reading", FAILED, error.message, error.hint)]
    found = [Finding("ledger", "reading", HELD, "the ledger can be read"), *server]
    if stale:
        told = _listed([f"{_path(grant)} ({grant.holder.id}: {why})" for grant, why in stale])
        found.append(
            Finding(
                "ledger", "stale leases", NOTE, f"not removed yet, without effect: {told}",
                "holdfast doctor --fix",
            )
        )  # fmt: skip
    for holder in dict.fromkeys(grant.holder for grant in orphaned):
        left = [_path(grant) for grant in orphaned if grant.holder == holder]
        pids = left_running(root, holder.marks)
        told = f"{holder.id} is dead, but processes that it started keep {_listed(left)}"
        fix = "wait for them, or end them: kill " + " ".join(map(str, pids[:NAMED_MAX]))
        found.append(Finding("ledger", "orphan processes", NOTE, told, fix if pids else ""))
    return found


def _sorted(view: View) -> tuple[list[tuple[Grant, str]], list[Grant]]:
    """The ended grants with the reasons, and those that only their owner's orphans still hold."""
    draft = Draft(view)
    stale: list[tuple[Grant, str]] = []
    orphaned: list[Grant] = []
    for grant in view.grants():
        why = fate(draft, grant)
        if why:
            stale.append((grant, why))
        elif grant.holder.witness is not None and view.dead(grant.holder.witness, ()):
            orphaned.append(grant)
    return stale, orphaned


def _path(grant: Grant) -> str:
    return grant.paths[0] if grant.paths else grant.id


def _listed(texts: Sequence[str], between: str = ", ") -> str:
    if len(texts) > NAMED_MAX + 1:
        return f"{between.join(texts[:NAMED_MAX])} and {len(texts) - NAMED_MAX} more"
    return between.join(texts)
