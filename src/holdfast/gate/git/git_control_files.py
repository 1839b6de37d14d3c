"""The control files of a tree, among them the hooks that git itself names."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError
from holdfast.manager.files.control_files import Controls


def controls_of(root: str) -> Controls:
    """The control files of a tree, as they are from now on."""
    return Controls(root, _hooks)


def _hooks(root: str) -> str:
    from holdfast.gate.git.hook_folder import folders

    try:
        return folders(root).theirs  # ours is in git's folder, which the table has
    except HoldfastError:  # no git, or no repository: then nothing is a hook
        return ""
