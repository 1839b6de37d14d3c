"""Hooks for a linked worktree that was just added, as the main checkout has them.

git runs its hook post-checkout there. Clients that read the hooks of the main checkout in all
others need none; for the rest hooks are written and hidden from git. Only in the worktrees of a
bare repository that is not called `.git` must a person trust them anew.
"""

from __future__ import annotations

import os

from holdfast.gate.config import seals
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.config.settings import Settings
from holdfast.gate.install import install_plan, install_record
from holdfast.gate.install.hook_command import own_command
from holdfast.gate.install.installed_clients import CLIENTS, client_checkouts
from holdfast.manager.files import checkouts
from holdfast.manager.files.paths import find_root


def furnish(checkout: str) -> list[str]:
    """Write the hooks of the repository's guarded clients in one of its worktrees. Returns
    sentences for the person. Raises InstallError."""
    root = find_root(checkout)
    if root is None or root == checkout or switched_off(root) is not None:
        return []
    guarded = {written.client for written in install_record.load(root).files.values()}
    clients = [
        one for one in CLIENTS if one.name in guarded and checkout in client_checkouts(root, one)
    ]
    if not clients:
        return []
    made = install_plan.install(
        root, clients, own_command(), Settings.load(root, lenient=True), only=checkout
    )
    install_plan.carry_out(made)
    seals.seal_all(root)
    written = {change.client for change in made.to_do}
    has_own = os.path.basename(root) != checkouts.GIT and checkouts.is_bare(root)
    return [
        f"{one.title} has its hooks here{f'; {one.adapter.TO_DO}' if has_own else ''}"
        for one in clients
        if one.name in written
    ]
