"""The parts of top: a title, the lists of tasks, grants, waiting requests, and failures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.terminal.tables import BOLD, DIM, RED, YELLOW, Cell, Column
from holdfast.cli.watching import top_tasks
from holdfast.core.model import SECOND
from holdfast.core.sentences import duration
from holdfast.gate.rulebook.file_states import BLOCKED
from holdfast.server.state.queue_order import AGENT

_NOTHING = "nothing is held, and nothing is waiting; to run tasks: holdfast dispatch tasks.toml"


def title(state: dict[str, Any], sheet: Sheet) -> str:
    """The first line."""
    return sheet.line(_headline(state), BOLD)


def body(state: dict[str, Any], sheet: Sheet) -> list[str]:
    """All the other lines."""
    lines = [*_banners(state, sheet), *top_tasks.lines_of(state, sheet)]
    for columns, rows in (_at_work(state), _waiting(state), _contended(state), _troubles(state)):
        if rows:
            lines += ["", *sheet.table(columns, rows)]
    return lines or ["", *sheet.lines(_NOTHING, DIM)]


Part = tuple[list[Column], list[list[Cell]]]


def _headline(state: dict[str, Any]) -> str:
    """The repository, how much is held, and how many wait. The progress of tasks is in the lines of
    their lists. A task at work that waits inside a write is counted too, since its row says so."""
    counts, own = state["counts"], top_tasks.items_of(state)
    of_tasks = sum(one["id"] in own for one in state["waiting"])
    of_tasks += sum(one["holder"] in own for one in state["tickets"])
    waiting = counts["waiting"] - of_tasks + top_tasks.waiting_in(state)
    is_tasks = state["lists"] and not state["controllers"]
    parts = [state["name"], *([] if is_tasks else [state["phase_words"]]),
             f"{counts['held']} held", f"{waiting} waiting"]  # fmt: skip
    parts += [f"{counts[one]} {one}" for one in ("done", "failed") if counts[one] and not is_tasks]
    return " · ".join(parts)


def _grants(state: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = state["locks"]["active_grants"]
    return found


def _paths(grant: dict[str, Any]) -> list[str]:
    return [*grant["write_paths"], *(f"{path} (read)" for path in grant["read_paths"])]


def _banners(state: dict[str, Any], sheet: Sheet) -> list[str]:
    told = []
    if state["trouble"]:
        told.append((f"the scheduler failed: {state['trouble']}", RED))
    if state["off"]:
        told.append((state["off"], YELLOW))
    counts = Counter(one["state"] for one in state["controllers"])
    if counts:
        words = (f"{number} {name.replace('_', ' ')}" for name, number in counts.most_common())
        told.append((f"controllers: {', '.join(words)}", DIM))
    undecided = [one["name"] for one in state["controllers"] if one["state"] == _UNDECIDED]
    if undecided:
        told.append((f"to decide: holdfast decide {undecided[0]} approve|reject", YELLOW))
    return [line for text, colour in told for line in sheet.lines(text, colour)]


_UNDECIDED = "awaiting_decisions"


def _at_work(state: dict[str, Any]) -> Part:
    now = _moment(state["now"])
    columns = [
        Column("AT WORK", 14), Column("PHASE"), Column("FOR"), Column("HAS", 16),
        Column("STATE", 12, prose=True),
    ]  # fmt: skip
    own = top_tasks.items_of(state)
    rows = [
        [
            Cell(one["name"]), Cell(one["phase"]),
            Cell(duration(now - _moment(one["acquired_at"]))), Cell(_covers(one)),
            Cell(_words(one)),
        ]
        for one in _grants(state)
        if one["holder"] not in own
    ]  # fmt: skip
    return columns, rows


def _words(one: dict[str, Any]) -> str:
    """The state of the owner of a grant or a ticket; empty if the owner is not an agent."""
    standing = one.get("standing")
    return "" if standing is None else str(standing["words"])


def _strays(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Agents that wait for a file without a ticket."""
    ids = {(row["id"], row["file"]) for row in state["queue"]["waiting"] if row["kind"] == AGENT}
    return [one for one in state["agents"] if (one["key"], one["file"]) in ids]


def _waiting(state: dict[str, Any]) -> Part:
    now = _moment(state["now"])
    columns = [
        Column("WAITING", 14), Column("PHASE"), Column("FOR"), Column("BEHIND", 10),
        Column("STATE", 12, prose=True), Column("WHY", 16, prose=True),
    ]  # fmt: skip
    rows = []
    own = top_tasks.items_of(state)
    for one in (*state["tickets"], *state["waiting"]):
        if (one["holder"] if "behind" in one else one["id"]) in own:
            continue
        since = _moment(one["since"]) if "since" in one else one["queued"]
        name = one.get("workflow") or one["holder"]
        behind = ", ".join(one.get("for", ()))
        why = one.get("why") or []
        reason = (
            _why(why[0]) if why else f"waits for {one['sentence']}" if one.get("sentence") else ""
        )
        rows.append(
            [Cell(name), Cell(one.get("phase", "")), Cell(duration(now - since)),
             Cell(behind, YELLOW), Cell(_words(one)), Cell(reason)]
        )  # fmt: skip
    rows += [
        [Cell(one["agent"]), Cell(""), Cell(duration(now - _moment(one["since"]))),
         Cell(one["owner"], YELLOW), Cell(one["words"]), Cell(f"wants {one['file']}")]
        for one in _strays(state)
    ]  # fmt: skip
    return columns, rows


def _why(conflict: dict[str, Any]) -> str:
    if conflict["kind"] == "reservation":
        return f"{conflict['path']} is reserved"
    mode = "writing" if conflict["held_mode"] == "write" else "reading"
    return f"{conflict['path']} is locked for {mode}"


def _contended(state: dict[str, Any]) -> Part:
    columns = [Column("CONTENDED", 20), Column("WAITING"), Column("WAITED"), Column("HELD")]
    rows = [
        [
            Cell(one["path"]), Cell(str(one["waiting"] or "")),
            Cell(duration(round(one["waited_seconds"] * SECOND))),
            Cell(duration(round(one["held_seconds"] * SECOND))),
        ]
        for one in state["contention"]
    ]  # fmt: skip
    return columns, rows


def _troubles(state: dict[str, Any]) -> Part:
    columns = [
        Column("TROUBLE"),
        Column("WHO", 12),
        Column("WHAT", 16),
        Column("WHY", 16, prose=True),
    ]
    rows = [
        [Cell("error", RED), Cell(one["name"]), Cell(""), Cell(one["reason"])]
        for one in state["controllers"]
        if one["state"] == "error"
    ]
    rows += [
        [Cell(one["words"], YELLOW), Cell(one["agent"]), Cell(one["file"]),
         Cell(f"{one['owner']} has it" if one["owner"] else "")]
        for one in state["agents"]
        if one["state"] == BLOCKED
    ]  # fmt: skip
    rows += [
        [Cell("gap", YELLOW), Cell(gap["workflow"]), Cell(gap["path"]), Cell(gap["why"])]
        for gap in reversed(state["gaps"])
    ]
    return columns, rows


def _covers(grant: dict[str, Any]) -> str:
    paths = _paths(grant)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}" if paths else ""


def _moment(text: str) -> int:
    """A moment of ledger time in microseconds, from its text."""
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * SECOND)
