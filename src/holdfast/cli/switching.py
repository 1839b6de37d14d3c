"""off and on: the gate of a repository, switched by a person and for all to see."""

from __future__ import annotations

from time import gmtime, strftime

from holdfast.cli import DONE
from holdfast.cli.opening import Desk
from holdfast.cli.person import person
from holdfast.cli.printing import document, out, plain, talk
from holdfast.gate.switch import Off, switch_off, switch_on, switched_off
from holdfast.manager.manager import LockManager
from holdfast.manager.paths import home_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call


def off(call: Call) -> int:
    """Let everything pass, until it is switched on again."""
    root = home_root(Desk(call).folder)
    me = person("switch the gate off", "ask the person whom you work for")
    before = switched_off(root)
    if before is None:
        reason = " ".join(plain(call.text("reason") or "").split())
        with LockManager.open(root):  # which makes the folder, and keeps git out of it
            switch_off(root, Off(me.id, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()), reason))
    now = switched_off(root) or Off()
    if call.flag("json"):
        document({"root": root, "off": off_data(now), "changed": before is None})
        return DONE
    told = "already: " if before is not None else ""
    out(plain(f"{told}{now.sentence()}"))
    talk(f"  every hook in {plain(root)} lets everything pass now; switch it on: holdfast on")
    return DONE


def on(call: Call) -> int:
    """Guard again."""
    root = home_root(Desk(call).folder)
    person("switch the gate on or off", "ask the person whom you work for")
    changed = switch_on(root)
    if call.flag("json"):
        document({"root": root, "off": None, "changed": changed})
    else:
        out("the gate is on" if changed else "already: the gate is on")
    return DONE


def off_data(found: Off | None) -> dict[str, str] | None:
    """For `--json`."""
    return None if found is None else {"by": found.by, "at": found.at, "reason": found.reason}
