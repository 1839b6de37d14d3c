"""What those inside wanted to write and may not: recorded for them, who cannot write the ledger.

Whoever asks is not believed. It must be about the grant of this sandbox, the grant must really not
cover it, the reason is our own, and after some hundred nothing more is written down: the record is
for people, and a loop inside must not fill the ledger.
"""

from __future__ import annotations

from holdfast.gate import clients
from holdfast.gate.door import GAP
from holdfast.manager import services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager

RECORDED_MAX = 500


class Gaps:
    """Answers `gap`, for one grant."""

    __slots__ = ("_grant", "_left", "_token")

    def __init__(self, grant: LockGrant) -> None:
        self._grant = grant.id
        self._token = grant.token
        self._left = RECORDED_MAX

    def __call__(self, manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        grant, token, path = wanted["grant"], wanted["token"], wanted["path"]
        client = wanted["client"]
        if grant != self._grant or token != self._token or type(token) is not int:
            raise ValueError("only the grant of this sandbox can have gaps here")
        if not isinstance(path, str) or not clients.is_path(path):
            raise TypeError("path is a text that can be a path")
        if client not in clients.NAMES:
            raise ValueError(f"client is one of {', '.join(clients.NAMES)}")
        verdict = manager.verify(grant, path, token=token)
        if verdict:
            raise ValueError("the grant covers this")
        if self._left <= 0:
            return {"recorded": False}
        self._left -= 1
        gap = {"grant": grant, "path": path, "why": verdict.reason, "client": client}
        services.note(manager, GAP, gap)
        return {"recorded": True}
