"""The control files of a tree, with git asked for its hooks: see `holdfast.manager.controls`."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError
from holdfast.manager.controls import Controls


def controls_of(root: str) -> Controls:
    """The control files of a tree, as they are from now on."""
    return Controls(root, _hooks)


def _hooks(root: str) -> str:
    from holdfast.gate.gitfiles import hooks_folder

    try:
        return hooks_folder(root)
    except HoldfastError:  # no git, or no repository: then nothing is a hook
        return ""
