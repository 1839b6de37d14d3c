"""The owner's name in a lock: the name that git puts into commits, or else the user's."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_OWNER = "unknown"
VARIABLES = ("USER", "LOGNAME", "USERNAME")
#: A git command here needs no network; one that takes longer hangs.
GIT_SECONDS = 5.0


def owner_name(workspace: str, environ: Mapping[str, str]) -> str:
    """The user's name in a workspace, from git's settings or from the environment."""
    named = _from_git(workspace)
    for name in VARIABLES:
        named = named or environ.get(name, "").strip()
    return named or UNKNOWN_OWNER


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
