"""off and on: a person switches the gate of a repository, visibly for everyone.

This also works if the ledger is broken: that is when a person needs it most.
"""

from __future__ import annotations

from time import gmtime, strftime

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.guarding.person import person_in
from holdfast.cli.printing import document, out, plain, talk
from holdfast.core.root_errors import BadKeyError, SettingsError, StoreError
from holdfast.gate.config.off_switch import (
    Off,
    switch_off,
    switch_on,
    switched_off,
)
from holdfast.manager.files.paths import LEDGER_FOLDER, home_root
from holdfast.store.sqlite.schema import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call

#: The events of the switch.
GATE_OFF = "gate_off"
GATE_ON = "gate_on"


def off(call: Call) -> int:
    """Let everything pass until the gate is switched on again."""
    root = home_root(CommandContext(call).folder)
    me = person_in(root, "switch the gate off", "ask the person whom you work for")
    before = switched_off(root)
    not_logged = ""
    if before is None:
        reason = " ".join(plain(call.text("reason") or "").split())
        make_folder(f"{root}/{LEDGER_FOLDER}")
        switch_off(root, Off(me.id, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()), reason))
        not_logged = _recorded(root, GATE_OFF, {"by": me.id, "reason": reason})
    now = switched_off(root) or Off()
    if call.flag("json"):
        document({"root": root, "off": off_data(now), "changed": before is None})
        return DONE
    already = "already: " if before is not None else ""
    out(plain(f"{already}{now.sentence()}"))
    talk(f"  every hook in {plain(root)} lets everything pass now; switch it on: holdfast on")
    if not_logged:
        talk(not_logged)
    return DONE


def on(call: Call) -> int:
    """Guard again."""
    root = home_root(CommandContext(call).folder)
    me = person_in(root, "switch the gate on or off", "ask the person whom you work for")
    changed = switch_on(root)
    not_logged = _recorded(root, GATE_ON, {"by": me.id}) if changed else ""
    if call.flag("json"):
        document({"root": root, "off": None, "changed": changed})
    else:
        out("the gate is on" if changed else "already: the gate is on")
        if not_logged:
            talk(not_logged)
    return DONE


def _recorded(root: str, type: str, data: dict[str, str]) -> str:
    """Write it to the ledger, for `holdfast log`. Returns what to print if that is impossible."""
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    try:
        with LockManager.open(root) as manager:
            transactions.note(manager, type, data)
    except (StoreError, SettingsError, BadKeyError) as error:
        return f"  it could not be logged: {plain(error.message)}"
    return ""


def off_data(found: Off | None) -> dict[str, str] | None:
    """The state of the switch for `--json`."""
    return None if found is None else {"by": found.by, "at": found.at, "reason": found.reason}
