"""log, reap, trim: the history, and its housekeeping."""

from __future__ import annotations

import time

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext, view_of
from holdfast.cli.dispatch import task_words
from holdfast.cli.guarding import agent_words
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, listed, local, out, plain, talk
from holdfast.core import codec, events
from holdfast.core.keys import INODE, kind
from holdfast.core.model import READ, SECOND, ids_of
from holdfast.core.root_errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.core.model import Event
    from holdfast.manager.manager import LockManager

LOOK_SECONDS = 2.0

#: The code with which a task is refused a file of another task; it waits in line then. And the
#: event of a task, which `work.tasks.task_records` writes.
_CONFLICT = "E_LOCK_CONFLICT"
TASK_CHANGED = "task_changed"

_REASONS = {
    "E_LOCK_CYCLE": "waiting would have deadlocked",
    "E_LOCK_EXPIRED": "the lease in its way had expired, but was not stolen",
    "E_LOCK_NOT_HELD": "there was nothing to steal",
}


#: Sentences for events that no agent caused.
_WORK = {
    "damage_forgotten": "damage {id} is too old to be undone",
    "switch_changed": "{path}, which switches the gate, was changed without Holdfast",
    "gate_off": "{by} switched the gate off",
    "gate_on": "{by} switched the gate on",
    "work_assigned": "work began, by {source}",
    "work_taken_up": "a dispatcher continues the work",
    "work_queued": "{workflow} waits for {phase}",
    "work_dispatched": "{workflow} was dispatched for {phase}",
    "work_waits": "{workflow} waits for {phase}",
    "work_retried": "{workflow} returns to its place in the queue",
    "work_ended": "{workflow} ended {phase}: {status}",
    "work_state": "{workflow} is {state} now",
    "work_merged": "the findings for {workflow} were merged",
    "work_forgotten": "recorded work was forgotten",
    "edits_not_restored": "half-done edits of {holder} were not undone, because another holder had "
    "these files since: {paths}; the copies are in {copies}",
    "work_broken": "the scheduler failed: {error}",
    "work_mended": "the scheduler recovered",
    "work_stopped": "a dispatcher stopped",
    "work_stop_asked": "{by} asked all dispatchers to stop",
}


#: Stands for a name that an event does not have.
UNKNOWN = "(unknown)"


class _Blanks(dict):  # type: ignore[type-arg]
    def __missing__(self, key: str) -> str:
        return UNKNOWN


def log(call: Call) -> int:
    """Show the events, oldest first, and with --follow continue with new ones."""
    context = CommandContext(call)
    after, follow = call.number("since") or 0, call.flag("follow")
    if follow and call.flag("reverse"):
        raise UsageError(
            "--reverse shows the newest event first, and --follow has no last one",
            hint="leave out one of them",
        )
    manager = context.find([])
    sentences = EventSentences()
    while manager is None:
        talk("there is no ledger here yet")
        if not follow:
            return DONE
        manager = _appeared(context)
    if call.flag("number") or call.flag("reverse"):
        after = _print_some(call, manager, sentences, after)
    else:
        after = _print(call, manager.events(after), sentences, after)
    return _follow(call, manager, sentences, after) if follow else DONE


def _follow(call: Call, manager: LockManager, sentences: EventSentences, after: int) -> int:
    from holdfast.cli.locking.status import reader_is_gone
    from holdfast.cli.watching.outage import Outage

    outage = Outage()
    while True:
        try:
            manager.store.wait(after, LOOK_SECONDS)
            new = list(manager.events(after))  # all or none: none is printed twice
            outage.end()
        except StoreError as error:
            outage.begin(error)
            new = []
        if reader_is_gone():
            return DONE
        after = _print(call, new, sentences, after)


def _appeared(context: CommandContext) -> LockManager:
    while (manager := context.find([])) is None:
        time.sleep(LOOK_SECONDS)
    return manager


def _print(call: Call, found: Iterable[Event], sentences: EventSentences, after: int) -> int:
    """Print the events after a number, in batches. Returns the number of the last one."""
    lines: list[str] = []
    for event in found:
        after = event.seq
        if call.flag("json"):
            document(_event_data(event))
            continue
        line = sentences.line(event)
        if line:
            lines.append(line)
        if len(lines) >= 500:
            out("\n".join(lines))
            lines.clear()
    if lines:
        out("\n".join(lines))
    return after


def _print_some(call: Call, manager: LockManager, sentences: EventSentences, after: int) -> int:
    """Print the last events, or all, perhaps the newest first. Returns the number of the newest.

    All events are read, since an event that names a grant does not say what it covers.
    """
    from collections import deque

    kept: deque[Event] = deque(maxlen=call.number("number"))
    lines: deque[str] = deque(maxlen=call.number("number"))
    as_json = call.flag("json")
    for event in manager.events(after):
        after = event.seq
        if as_json:
            kept.append(event)
        elif line := sentences.line(event):
            lines.append(line)
    if call.flag("reverse"):
        kept.reverse()
        lines.reverse()
    for event in kept:
        document(_event_data(event))
    if lines:
        out("\n".join(lines))
    return after


def _event_data(event: Event) -> dict[str, Any]:
    """One event as JSON data, with the key of its agent and the whole id of the session."""
    from holdfast.gate.rulebook.agent_records import agent_of
    from holdfast.manager.plain_data import event_data

    found = event_data(event)
    key = agent_of(event)
    if key:
        found["data"] = {**found["data"], "key": key, "session": ids_of(key)[0]}
    return found


class EventSentences:
    """Turns events into sentences. It keeps what a grant covers, for events that only name it."""

    def __init__(self) -> None:
        self._covers: dict[str, str] = {}
        #: The state and the reason of each task as last printed.
        self._printed: dict[tuple[str, str], tuple[str, str]] = {}
        #: The work items of tasks.
        self._items: set[str] = set()

    def line(self, event: Event) -> str:
        """One event as one line; empty if it repeats the printed state of a task."""
        moment = event.at / SECOND
        at = time.localtime(moment)
        if event.type == TASK_CHANGED and self._is_repeated(event.data):
            return ""
        if event.type == events.LEASES_KEPT:  # says only that its holders still live
            return ""
        sentence = self._sentence(event.type, event.data, event.at)
        if event.repeats:
            sentence += f" (×{event.repeats + 1})"
        day = f"{at.tm_year}-{at.tm_mon:02d}-{at.tm_mday:02d}"
        clock = f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}"
        return f"{event.seq:>6}  {day} {clock}  {plain(sentence)}"

    def _is_repeated(self, data: Mapping[str, Any]) -> bool:
        task = (str(data.get("list", "")), str(data.get("name", "")))
        state = (str(data.get("state", "")), str(data.get("reason", "")))
        is_repeated = self._printed.get(task) == state
        self._printed[task] = state
        return is_repeated

    def _sentence(self, type: str, data: Mapping[str, Any], at: int) -> str:
        if type == events.LOCK_ACQUIRED:
            return self._acquired(data, at)
        if type in events.ENDINGS:
            return self._ended(type, data)
        who = _name(data.get("holder"))
        if type == events.LOCK_RENEWED:
            what = self._covers.get(data.get("grant", ""), f"grant {data.get('grant')}")
            return f"{who} renewed {what}{_until(data.get('expires_at'))}"
        if type == events.LOCK_REFUSED:
            why = _REASONS.get(data.get("code", ""), "another holder was in the way")
            more = f" and {data['more_paths']:,} more" if data.get("more_paths") else ""
            if who in self._items and data.get("code") == _CONFLICT:
                return f"{who} must wait for {_covered(data)}{more}"
            return f"{who} was refused {_covered(data)}{more}: {why}"
        if type == events.TICKET_ADDED:
            self._covers[data.get("id", "")] = _covered(data)
            return f"{who} waits for {_covered(data)}{_reason(data)}"
        what = self._covers.get(data.get("ticket", ""), f"ticket {data.get('ticket')}")
        if type == events.TICKET_RESERVED:
            return f"{who} has waited long enough: {what} is reserved"
        if type == events.TICKET_DROPPED:
            self._covers.pop(data.get("ticket", ""), None)
            return f"{who} no longer waits for {what}: {data.get('why')}"
        if type.startswith("damage"):
            damage = _damage(type, data)
            if damage:
                return damage
        if task_words.is_of_task(type, data):
            self._items.add(str(data.get("id", "")))
        sentence = agent_words.sentence(type, data) or task_words.sentence(type, data)
        if sentence:
            return sentence
        pattern = _WORK.get(type)
        if pattern is not None:
            return f"{pattern.format_map(_Blanks(data))}{_decision(data)}{_reason(data)}"
        return f"{type}: this version does not know this event"

    def _acquired(self, data: Mapping[str, Any], at: int) -> str:
        what = self._covers[data.get("id", "")] = _covered(data)
        waited = " after a wait" if data.get("ticket") else ""
        ttl = data.get("ttl")
        until = _until(at + ttl if isinstance(ttl, int) else None)
        return f"{_name(data.get('holder'))} locked {what}{waited}{until}{_reason(data)}"

    def _ended(self, type: str, data: Mapping[str, Any]) -> str:
        self._covers.pop(data.get("grant", ""), None)
        who, what = _name(data.get("holder")), listed(dict.fromkeys(data.get("paths", ())))
        by = _name(data.get("by"))
        if type == events.LOCK_RELEASED:
            return f"{who} released {what}"
        if type == events.LOCK_STOLEN:
            return f"{by} stole {what} from {who}, whose lease had expired"
        if type == events.LOCK_FORCED:
            return f"{by} took {what} away from {who}{_reason(data)}"
        if type == events.LOCK_MOVED:
            to = list(dict.fromkeys(map(_name, data.get("to") or ()))) or [UNKNOWN]
            return (
                f"{who} keeps {what}" if to == [who] else f"{who} passed {what} on to {listed(to)}"
            )
        why = {
            "owner dead": "its owner is dead",
            "idle": "it was idle",
            "expired": "its lease expired",
        }
        cause = data.get("why", "")
        return f"{who} lost {what}: {why.get(cause, cause) or 'no reason was recorded'}"


def _damage(type: str, data: Mapping[str, Any]) -> str:
    """An event about damage as a sentence; empty for an unknown one."""
    id, by, command = (str(data.get(name, "")) for name in ("id", "by", "command"))
    files = [one for one in data.get("files") or () if isinstance(one, dict)]
    if type == "damage":
        names = [f"{one.get('path')} ({one.get('owner')})" for one in files]
        what = listed(names) or "what others hold"
        return f"while {by or UNKNOWN} ran `{command}`, {what} was changed: damage {id}"
    if type == "damage_to_be_told":
        return f"an agent must be told of damage {id}: {listed(data.get('paths') or ['a file'])}"
    if type == "damage_undone":
        left = f"; not restored: {listed(str(one.get('path')) for one in files)}" if files else ""
        back = listed(data.get("restored") or ["nothing"])
        return f"damage {id}: restored {back}{left}"
    return ""


def _name(holder: object) -> str:
    if isinstance(holder, dict):
        holder = holder.get("id") or holder.get("holder")
    return str(holder or UNKNOWN)


def _covered(data: Mapping[str, Any]) -> str:
    """The paths of a request or a grant, with those to read last."""
    paths = list(data.get("paths") or codec.paths_of(tuple(data.get("keys") or ())))
    keys, modes = list(data.get("keys") or paths), data.get("modes", "")
    writes: dict[str, None] = {}
    reads: dict[str, None] = {}
    for key, mode, path in zip(keys, modes, paths, strict=False):
        if kind(key) != INODE:
            (reads if mode == READ else writes)[path] = None
    parts = [listed(writes)] if writes else []
    if reads:
        parts.append(f"{listed(reads)} (to read)")
    return " and ".join(parts) or "something"


def _until(end: int | None) -> str:
    return f" until {local(end / SECOND)}" if isinstance(end, int) else ""


def _decision(data: Mapping[str, Any]) -> str:
    """The decision that queued a merge: approved, or repeated with other files."""
    inner = data.get("data")
    decision = inner.get("decision") if isinstance(inner, dict) else None
    return f", {decision}" if decision and data.get("state") == "queued" else ""


def _reason(data: Mapping[str, Any]) -> str:
    return f": {data['reason']}" if data.get("reason") else ""


def reap(call: Call) -> int:
    """Remove grants that have ended."""
    manager = CommandContext(call).find([])
    endings = [] if manager is None else manager.reap()
    if manager is not None:
        sweep = getattr(manager.store, "sweep", None)
        if sweep is not None:
            sweep()  # the addresses of waiters whose processes died
    if call.flag("json"):
        from holdfast.manager.plain_data import ending_data

        document({"reaped": list(map(ending_data, endings))})
        return DONE
    for ending in endings:
        out(f"reaped {plain(ending.holder)}'s grant {ending.id}: {plain(ending.why)}")
    if not endings:
        talk("there was nothing to reap")
    return DONE


def trim(call: Call) -> int:
    """Forget old events."""
    before, keep = call.number("before"), call.number("keep")
    if (before is None) == (keep is None):
        raise UsageError("trim needs either --before or --keep", hint="holdfast trim --keep 10000")
    manager = CommandContext(call).find([])
    gone = 0
    if manager is not None:
        if before is None:
            with view_of(manager) as view:
                before = max(0, view.head + 1 - (keep or 0))
        gone = manager.store.trim(before)
    if call.flag("json"):
        document({"trimmed": gone})
    else:
        out(f"forgot {gone} events")
    return DONE
