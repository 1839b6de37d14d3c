"""Records of gaps: writes that a process inside wanted and may not do. The runner writes them,
because the ledger is closed inside.

Either a process inside reports a gap, or the runner detected it. A report is not trusted: it must
be about the grant of this sandbox, the grant must really not cover the path, the recorded reason is
our own, and after a few hundred no more are recorded: people read these records, and a loop inside
must not fill the ledger.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.errors import BadKeyError
from holdfast.gate import clients
from holdfast.gate.door.delegated_calls import GAP
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.guard.git_queries import GIT_SECONDS, Git, ignored
from holdfast.manager import transactions
from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.manager.files.control_files import Controls
    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager

RECORDED_MAX = 500


class GapRecorder:
    """Answers the request `gap`, for one grant."""

    __slots__ = ("_grant", "_left", "_token")

    def __init__(self, grant: LockGrant) -> None:
        self._grant = grant.id
        self._token = grant.token
        self._left = RECORDED_MAX

    def __call__(self, manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        grant, token, path = wanted["grant"], wanted["token"], wanted["path"]
        client = wanted["client"]
        if grant != self._grant or token != self._token or type(token) is not int:
            raise ValueError("gaps are recorded only for the grant of this sandbox")
        if not isinstance(path, str) or not clients.is_path(path):
            raise TypeError("path must be a string that can be a path")
        if client not in clients.NAMES:
            raise ValueError(f"client must be one of {', '.join(clients.NAMES)}")
        verdict = manager.verify(grant, path, token=token)
        if verdict:
            raise ValueError("the grant covers this path")
        if self._left <= 0:
            return {"recorded": False}
        self._left -= 1
        assert manager.tree is not None
        _note(manager, grant, path, verdict.reason, controls_of(manager.tree.root), client)
        return {"recorded": True}


def record(manager: LockManager, grant: str, token: int, paths: Sequence[str]) -> None:
    """Record the gaps that a runner detected: paths below the root, a folder with a slash at its
    end. Folders, paths that cannot be locked, and control files are recorded as not `possible`, to
    distinguish them from what a grant could have covered.

    Paths that git ignores are not recorded: no analysis could have named them, and a user who wants
    them written lists them in the settings.
    """
    if not paths:
        return
    assert manager.tree is not None
    passing = ignored(Git(manager.tree.root, monotonic() + GIT_SECONDS), paths)
    controls = controls_of(manager.tree.root)
    for path in paths:
        if path in passing:
            continue
        try:
            verdict = manager.verify(grant, path, token=token)
        except BadKeyError as error:
            _note(manager, grant, plain(path), error.message, controls, possible=False)
            continue
        if not verdict:
            possible = not path.endswith("/")
            _note(manager, grant, path, verdict.reason, controls, possible=possible)


def _note(
    manager: LockManager,
    grant: str,
    path: str,
    why: str,
    controls: Controls,
    client: str = "",
    possible: bool = True,
) -> None:
    control = controls.of(os.path.join(controls.root, path))
    if control is not None:
        why, possible = control.sentence(path), False
    gap = {"grant": grant, "path": path, "why": why, "client": client}
    if control is not None:
        gap["controls"] = control.of
    transactions.note(manager, GAP, gap if possible else {**gap, "possible": False})
