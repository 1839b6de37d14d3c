"""The requests of git's hooks and other clients below an agent's broker.

The ledger is closed to them. The broker reads and writes it for them, in the agent's name:

    {"ask": "held", "root": FOLDER, "names": [NAME...]}
        -> those of the files in a checkout that other holders have
    {"ask": "at work", "root": FOLDER}
        -> whether an agent other than this one may be writing in that checkout
    {"ask": "committed", "root": FOLDER}
        -> the leases on the files of its last commit were released, if the files are clean
    {"ask": "furnish", "root": FOLDER}
        -> the hooks were installed in a new worktree of this repository; lines for the user

Read-only commands of Holdfast send requests too (`holdfast.gate.people.ledger_picture`).
"""

from __future__ import annotations

from holdfast.gate.broker.assembly import questions as of_any_broker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.core.model import Grant, Holder
    from holdfast.gate.broker.leasing.agent_leases import AgentLeases
    from holdfast.gate.sandbox.runner.ledger_socket import Question
    from holdfast.manager.manager import LockManager


class _Agent:
    """The agent in its role as committer."""

    def __init__(self, leases: AgentLeases) -> None:
        self._leases = leases

    def is_holder(self, holder: Holder) -> bool:
        return holder.key == self._leases.holder.key

    def owns(self, _manager: LockManager, grant: Grant) -> bool:
        return self._leases.is_own(grant.holder)


def questions(leases: AgentLeases) -> dict[str, Question]:
    """All requests that can be sent below a command of an agent."""
    me = _Agent(leases)

    def at_work(_manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        from holdfast.gate.git.commit_check import are_others_at_work

        return {"others": are_others_at_work(_folder(wanted), me)}

    def committed(manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        from holdfast.gate.git import hook_repair
        from holdfast.gate.git.commit_check import free
        from holdfast.gate.git.git_files import committed as names_of_last

        root = _folder(wanted)
        freed = free(manager, root, names_of_last(root), me)
        hook_repair.commit_was_seen(root)
        return {"freed": len(freed)}

    def furnish(_manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        from holdfast.gate.install.worktree_hooks import furnish as furnished

        return {"told": furnished(_folder(wanted))}

    from holdfast.gate.people.ledger_picture import QUESTIONS

    return {
        **QUESTIONS, **of_any_broker(leases, None), "at work": at_work, "committed": committed,
        "furnish": furnish,
    }  # fmt: skip


def _folder(wanted: Mapping[str, Any]) -> str:
    root = wanted["root"]
    if not isinstance(root, str) or not root.startswith("/"):
        raise TypeError("root must be an absolute path")
    return root
