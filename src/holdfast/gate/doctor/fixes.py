"""The repairs that need no question: none touches a user's own files, or a user's choice.

Hooks are written as `init` writes them, with a backup. A person's decision, such as a gate that is
switched off or a line in the settings, is left alone. No process is ended.
"""

from __future__ import annotations

import os

import holdfast
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value
from holdfast.gate.config import seals
from holdfast.gate.config.settings import Settings
from holdfast.gate.install import git_part, install_plan
from holdfast.gate.install.hook_command import own_command, probe
from holdfast.gate.install.install_record import load
from holdfast.gate.install.installed_clients import git_folder
from holdfast.manager.ledger_location import has_ledger
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final


class Repair(Value):
    """One repair, or why it was not possible and what to do instead."""

    __slots__ = ("done", "hint", "told")

    def __init__(self, told: str, *, done: bool = True, hint: str = "") -> None:
        self.told: Final = told
        self.done: Final = done
        self.hint: Final = hint


def repair(root: str) -> list[Repair]:
    """Repair what is safe to repair; which repairs were made, and which were not possible."""
    return [
        *_tried("the hooks were left as they are", lambda: _hooks(root)),
        *_tried("no ended lease was removed", lambda: _reap(root)),
        *_tried("leftovers of sandboxes were not removed", _sweep),
    ]


def _tried(otherwise: str, work: Callable[[], list[Repair]]) -> list[Repair]:
    try:
        return work()
    except HoldfastError as error:
        return [Repair(f"{otherwise}: {error.message}", done=False, hint=error.hint)]
    except OSError as error:
        said = error.strerror or type(error).__name__
        return [Repair(f"{otherwise}: {said} ({error.filename})", done=False)]


def _hooks(root: str) -> list[Repair]:
    """Rewrite hooks that differ from those that `init` writes, for clients that have hooks."""
    clients, known = install_plan.installed(root), load(root)
    if not clients and not known.git:
        return []
    settings, command = Settings.load(root), own_command()
    made = install_plan.install(root, clients, command, settings)
    touched = git_part.to_install(git_folder(root), command.words()) if known.git else []
    is_old = bool(known.version) and known.version != holdfast.__version__
    if not (made.to_do or touched or is_old):
        return []
    for one in clients:
        probe(command.hook(one.name), root, settings.deadline_seconds)
    with LockManager.open(root):
        if touched:
            git_part.install(git_folder(root), command.words())
        install_plan.carry_out(made)
        seals.seal_all(root)
    done = []
    for change in made.to_do:
        kept = made.backups.get(change.name, "").removeprefix(f"{root}/")
        done.append(Repair(f"wrote {change.name}" + (f" (backup: {kept})" if kept else "")))
    return done + [Repair(f"wrote {one.name}") for one in touched]


def _reap(root: str) -> list[Repair]:
    if not has_ledger(root):
        return []
    with LockManager.open(root) as manager:
        endings = manager.reap()
    if not endings:
        return []
    who = ", ".join(sorted({one.holder for one in endings})[:5])
    leases = "1 lease" if len(endings) == 1 else f"{len(endings)} leases"
    return [Repair(f"removed {leases} that had ended, of {who}")]


def _sweep() -> list[Repair]:
    if os.name != "posix":
        return []
    from holdfast.gate.sandbox.runner.scratch_folder import sweep

    return [Repair(f"removed the leftovers of a killed sandbox: {path}") for path in sweep()]
