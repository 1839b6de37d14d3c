"""Whether a person runs the command, at a terminal and in their own name."""

from __future__ import annotations

import os

from holdfast.cli.parser import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Holder
    from holdfast.manager.manager import LockManager


def person(
    may: str, hint: str, *, at_a_terminal: bool = True, manager: LockManager | None = None
) -> Holder:
    """The person who runs the command. Raises UsageError for an agent or a program.

    An agent that could remove an obstacle would do so. `may` is what only a person may do. With the
    `manager` of a ledger, no process below a runner that holds a grant there counts as a person,
    whatever its environment says: a process that an agent starts cannot choose its ancestors.
    """
    from holdfast.manager.owners.identity import whoami

    def refuse(why: str) -> UsageError:
        who = "a person at a terminal" if at_a_terminal else "a person"
        return UsageError(f"only {who} may {may}: {why}", hint=hint)

    me = whoami(os.environ).holder
    for name in ("HOLDFAST_GRANT", "HOLDFAST_HOLDER"):
        if os.environ.get(name):
            raise refuse(f"this runs for another holder ({name} is set)")
    if me.client:
        raise refuse(f"this runs under an agent, {_name(me, manager)}")
    runner = _runner_above(manager) if manager is not None else ""
    if runner:
        raise refuse(f"this was started by the agent of {runner}")
    if at_a_terminal and not os.isatty(0):
        raise refuse("the standard input is not a terminal")
    return me


def person_in(root: str, may: str, hint: str, *, at_a_terminal: bool = True) -> Holder:
    """The same in a repository whose ledger may be missing or broken; then only the environment
    shows that a process runs for an agent."""
    from holdfast.core.root_errors import BadKeyError, SettingsError, StoreError
    from holdfast.manager.files.paths import LEDGER_FOLDER
    from holdfast.manager.manager import LockManager

    me = person(may, hint, at_a_terminal=at_a_terminal)
    if os.path.exists(f"{root}/{LEDGER_FOLDER}"):
        try:
            with LockManager.open(root) as manager:
                me = person(may, hint, at_a_terminal=at_a_terminal, manager=manager)
        except (
            StoreError,
            SettingsError,
            BadKeyError,
        ):  # broken, away, or its server is not named rightly
            pass
    return me


def _name(agent: Holder, manager: LockManager | None) -> str:
    if manager is None:
        return agent.id
    from holdfast.gate.people.agent_lookup import known_as

    return known_as(manager, agent).id


def _runner_above(manager: LockManager) -> str:
    """The name of a runner or a dispatched item that holds a grant and is our ancestor."""
    from holdfast.manager.owners.identity import OWNER_VARIABLE
    from holdfast.manager.owners.processes import ancestors

    above = {(process.pid, process.start) for process in ancestors()}
    for grant in manager.active_grants():
        witness, marks = grant.owner.witness, grant.owner.marks
        is_runner = any(mark.startswith(f"{OWNER_VARIABLE}=") for mark in marks)
        if is_runner and witness is not None and (witness.pid, witness.start) in above:
            return grant.owner.id
    return ""
