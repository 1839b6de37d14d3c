"""Assembles the broker of one command: the parts that are not needed before the command starts."""

from __future__ import annotations

import os

from holdfast.core.codec import grant_to_dict
from holdfast.gate.broker.broker_loop import Broker
from holdfast.gate.broker.calls.attribute_calls import AttributeCalls
from holdfast.gate.broker.calls.call_answers import CallContext
from holdfast.gate.broker.calls.folder_rename import FolderRenames
from holdfast.gate.broker.calls.name_calls import NameCalls
from holdfast.gate.broker.calls.open_calls import OpenCalls
from holdfast.gate.broker.control.control_writes import ControlWrites
from holdfast.gate.broker.leasing.git_lookahead import GitLookahead
from holdfast.gate.broker.places.path_kinds import PathKinds
from holdfast.gate.git.git_control_files import controls_of
from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.gate.broker.calling_thread import Trust
    from holdfast.gate.broker.heard_calls import Listener
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.leasing.committed_files import CommittedFiles
    from holdfast.gate.broker.places.path_zones import PathZones
    from holdfast.gate.sandbox.runner.ledger_socket import Question
    from holdfast.manager.manager import LockManager


def assembled(
    manager: LockManager,
    leases: Leases,
    zones: PathZones,
    listener: Listener,
    trust: Trust,
    is_left_to_kernel: Callable[[str, bool], bool],
    *,
    is_open: Callable[[str, bool], bool] | None,
    wait: float | None,
    committed: CommittedFiles | None,
) -> Broker:
    """The broker that serves a command. If the outside is closed, `is_open` says what is open
    there."""
    assert manager.tree is not None
    kinds = PathKinds(zones)
    control_writes = ControlWrites(kinds, controls_of(manager.tree.root), leases.say)
    folders = FolderRenames(manager, kinds, leases, control_writes)
    context = CallContext(
        kinds,
        leases,
        control_writes,
        GitLookahead(kinds, leases),
        is_left_to_kernel,
        wait is not None,
    )
    acts = OpenCalls(context), NameCalls(context, folders)
    attribute_calls = AttributeCalls(context, is_open=is_open)
    return Broker(
        manager, context, acts, attribute_calls, trust, listener,
        wait=wait or 0.0, committed=committed,
    )  # fmt: skip


def questions(leases: Leases, wait: float | None) -> dict[str, Question]:
    """The requests that processes inside can send besides the usual ones."""

    def refusals(_manager: LockManager, _wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {"refusals": list(leases.refusals)}

    def held_by_others(manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        root, names = wanted["root"], wanted["names"]
        if not isinstance(root, str) or not all(isinstance(name, str) for name in names):
            raise TypeError("root must be a string, names a list of strings")
        reader = wanted.get("reader")
        if isinstance(reader, int) and not isinstance(reader, bool) and reader > 0:
            for name in names:
                leases.note_read(reader, os.path.realpath(f"{root}/{name}"))
        if wanted.get("edit") is True and wait is not None:
            return {"held": []}  # an edit will wait in line
        from holdfast.gate.git.commit_check import held

        found = [one for one in held(manager, root, names) if not leases.is_own(one.grant.holder)]
        return {
            "held": [
                {"name": one.name, "grant": grant_to_dict(one.grant), "age": one.age}
                for one in found
            ]
        }

    announced: dict[str, list[str]] = {}

    def announce(_manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        announced.setdefault(str(wanted["digest"]), []).append(str(wanted["agent"]))
        return {}

    def introduce(_manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
        agents = announced.get(str(wanted["digest"]))
        if agents:
            leases.agents[int(wanted["process"])] = plain(agents.pop(0))
        return {}

    return {
        "refusals": refusals, "held": held_by_others, "announce": announce, "introduce": introduce,
    }  # fmt: skip
