"""Whose name is put into a lock: the one that git would put into a commit, else the user's."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NOBODY = "unknown"
VARIABLES = ("USER", "LOGNAME", "USERNAME")
#: git is asked on this machine only; one that takes longer is stuck.
GIT_SECONDS = 5.0


def owner_name(workspace: str, environ: Mapping[str, str]) -> str:
    """The name of whoever works in a workspace, from git's settings or from the environment."""
    named = _from_git(workspace)
    for name in VARIABLES:
        named = named or environ.get(name, "").strip()
    return named or NOBODY


def _from_git(workspace: str) -> str:
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", workspace, "config", "--get", "user.name"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()
