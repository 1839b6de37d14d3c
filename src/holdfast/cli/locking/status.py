"""status: what is locked, by which holder, how long, until when and why, and who waits."""

from __future__ import annotations

import os
import time

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.dispatch.task_left import left_behind, sentence
from holdfast.cli.printing import colours, document, is_terminal, local, out, plain, talk
from holdfast.cli.terminal.tables import (
    BOLD,
    DIM,
    MORE,
    RED,
    YELLOW,
    Cell,
    Column,
    cut,
    render,
    terminal_height,
    terminal_width,
)
from holdfast.core.errors import BadKeyError, StoreError, StoreReadonlyError
from holdfast.core.keys import INODE, kind
from holdfast.core.model import READ, SECOND
from holdfast.core.sentences import duration
from holdfast.gate.people.ledger_picture import Picture
from holdfast.gate.people.notices import look_out_if_wanted
from holdfast.gate.rulebook.file_states import BLOCKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.core.model import Grant, Holder, Request
    from holdfast.gate.people.file_standing import Standing

    Left = list[dict[str, Any]]

#: How many paths of one grant are shown; the others are counted.
PATHS_MAX = 8
#: How long a picture is shown before it is read again: a death is not an event.
LOOK_SECONDS = 2.0
#: The shortest time between two drawings.
DRAW_SECONDS = 0.1


def status(call: Call) -> int:
    """Show it once, or again whenever it changes."""
    context = CommandContext(call)
    me = caller(context)
    if call.flag("watch"):
        return _watch(context, me)
    picture, left = look(context)
    if picture.root and picture.of(BLOCKED):
        look_out_if_wanted(picture.root)
    if call.flag("json"):
        document(_data(picture, left))
    else:
        if not picture.store:
            talk("there is no ledger here yet")
        out("\n".join(_drawn(picture, left, me, call.flag("all"))))
    return DONE


def look(context: CommandContext) -> tuple[Picture, Left]:
    """What the ledger says, and the lists of tasks whose dispatcher is gone."""
    everything = context.call.flag("all")
    try:
        manager = context.find([])
        return Picture(manager, everything, context.folder), left_behind(manager)
    except StoreReadonlyError as closed:
        from holdfast.cli.locking.inside_sandbox import picture

        return picture(context, everything, closed), []


def caller(context: CommandContext) -> Holder | None:
    """The holder that the caller's locks would have, if any."""
    try:
        return context.me().holder
    except BadKeyError:  # a name that cannot hold a lock may still read
        return None


def _watch(context: CommandContext, me: Holder | None) -> int:
    """Draw it again on each change, until it is interrupted or its reader is gone."""
    as_json, everything = context.call.flag("json"), context.call.flag("all")
    from holdfast.cli.watching.outage import Outage

    manager = context.find([])
    shown: object = None
    outage = Outage()
    while True:
        try:
            picture, left = Picture(manager, everything, context.folder), left_behind(manager)
            if outage.is_on:
                outage.end()
                shown = None  # the old picture is above what was said
            lines = [] if as_json else _drawn(picture, left, me, everything)
            essence: object = lines
            if as_json or not is_terminal():
                essence = (picture.essence(), left)
            if essence != shown:
                if as_json:
                    document(_data(picture, left))
                else:
                    _draw(lines, again=shown is not None)
                shown = essence
            time.sleep(DRAW_SECONDS)
            if manager is None:
                time.sleep(LOOK_SECONDS - DRAW_SECONDS)
                manager = context.find([])
            else:
                manager.store.wait(picture.head, LOOK_SECONDS)
        except StoreError as error:
            outage.begin(error)
            time.sleep(DRAW_SECONDS)
        if reader_is_gone():
            return DONE


def reader_is_gone() -> bool:
    """Whether the reader of our output is gone, as far as the system can tell before a write."""
    try:
        from select import POLLERR, poll

        pipe = poll()
        pipe.register(1, 0)
        return any(event & POLLERR for _descriptor, event in pipe.poll(0))
    except (ImportError, OSError):
        return False


def _draw(lines: list[str], *, again: bool) -> None:
    if not is_terminal():
        out("\n".join([""] * again + lines))
        return
    height = terminal_height()
    if height is not None and len(lines) > height - 1:
        hidden = len(lines) - (height - 2)
        lines = [*lines[: max(0, height - 2)], f"{MORE} and {hidden} more lines"]
    out("\x1b[H\x1b[2J" + "\n".join(lines))


def _drawn(picture: Picture, left: Left, me: Holder | None, everything: bool) -> list[str]:
    width, coloured = terminal_width(), colours()
    lines = [headline(picture, width, coloured)]
    for line in map(sentence, left):  # never cut: it contains a command to type
        lines.append(f"\x1b[{YELLOW}m{line}\x1b[0m" if coloured else line)
    if picture.off is not None:
        line = plain(f"{picture.off.sentence()} (holdfast on)")
        line = line if width is None else cut(line, width)
        lines.append(f"\x1b[{YELLOW}m{line}\x1b[0m" if coloured else line)
    if picture.grants:
        lines += ["", *_grants_drawn(picture, me, everything, width, coloured)]
    if picture.waiting or picture.strays:
        lines += ["", *_waiting_drawn(picture, me, width, coloured)]
    if picture.of(BLOCKED):
        lines += ["", *_blocked_drawn(picture, me, width, coloured)]
    if picture.specs:
        from holdfast.cli.spec_commands import drawn

        lines += ["", *drawn(picture.specs)]
    return lines


def headline(picture: Picture, width: int | None, coloured: bool, *, always_in: str = "") -> str:
    """How much is locked, waits and is blocked, as one line.

    Without any of it the repository is not named, unless `always_in` names it.
    """
    count, specs, blocked = len(picture.grants), len(picture.specs), len(picture.of(BLOCKED))
    waits = len(picture.waiting) + len(picture.strays)
    parts = [f"{count} lock{'s' * (count > 1)}"] if count else []
    parts += [f"{specs} spec{'s' * (specs > 1)} locked"] if specs else []
    parts = parts or ["nothing is locked"]
    parts += [f"{waits} waiting"] if waits else []
    parts += [f"{blocked} blocked"] if blocked else []
    line = ", ".join(parts)
    if picture.root and (count or specs or waits or blocked):
        line += f" in {plain(picture.root)}"
    elif always_in:
        line += f" in {plain(always_in)}"
    line = line if width is None else cut(line, width)
    return f"\x1b[{BOLD}m{line}\x1b[0m" if coloured and (count or specs) else line


def _grants_drawn(
    picture: Picture, me: Holder | None, everything: bool, width: int | None, coloured: bool
) -> list[str]:
    columns = [
        Column("WHAT", 16), Column("HOW"), Column("WHO", 10), Column("FOR"), Column("UNTIL"),
        Column("STATE"), Column("WHY", 4, prose=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    details: dict[int, list[str]] = {}
    standing = picture.standing()
    for grant, why, until in picture.grants:
        one = standing.get((grant.holder.key, grant.paths[0])) if not why else None
        state = one.words(picture.now) if one else why or ("live" if everything else "")
        if grant.id in picture.orphaned:
            state = "its runner was killed; its processes still run"
        facts = [
            _who(grant.holder, me),
            Cell(duration(picture.now - grant.acquired_at)),
            _until(grant, until, picture.now),
            Cell(state, RED if why else YELLOW if one and one.how else ""),
            Cell(grant.reason),
        ]
        rows += _rows(_covered(grant), facts, everything)
        if everything:
            details[len(rows)] = _details(grant)
    lines = render(columns, rows, width=width, colours=coloured)
    for at in sorted(details, reverse=True):
        lines[at + 1 : at + 1] = [
            f"    {line}" if width is None else cut(f"    {line}", width) for line in details[at]
        ]
    return lines


def _waiting_drawn(
    picture: Picture, me: Holder | None, width: int | None, coloured: bool
) -> list[str]:
    columns = [
        Column("WAITS FOR", 16), Column("HOW"), Column("WHO", 10), Column("FOR"), Column("PLACE"),
        Column("BEHIND", 8), Column("STATE"), Column("WHY", 4, prose=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    standing = picture.standing()
    for place, (ticket, is_dead, behind) in enumerate(picture.waiting, 1):
        request = ticket.request
        mark = " dead" if is_dead else " reserved" if ticket.reserved else ""
        one = standing.get((request.holder.key, request.paths[0]))
        facts = [
            _who(request.holder, me),
            Cell(duration(picture.now - ticket.added_at)),
            Cell(f"{place}{mark}", RED if is_dead else YELLOW if mark else ""),
            Cell(", ".join(dict.fromkeys(conflict.holder for conflict in behind))),
            _state(one, picture.now),
            Cell(request.reason),
        ]
        rows += _rows(_covered(request), facts, True)
    for stray in picture.strays:
        waits = Cell(duration(picture.now - stray.since))
        state = _state(stray, picture.now)
        facts = [_agent(stray, me), waits, Cell(""), Cell(stray.owner), state, Cell("")]
        rows.append([Cell(stray.file), Cell("write"), *facts])
    return render(columns, rows, width=width, colours=coloured)


def _blocked_drawn(
    picture: Picture, me: Holder | None, width: int | None, coloured: bool
) -> list[str]:
    columns = [
        Column("BLOCKED AT", 16), Column("WHO", 10), Column("FOR"), Column("OWNER", 10),
        Column("STATE"),
    ]  # fmt: skip
    rows = [
        [
            Cell(one.file), _agent(one, me), Cell(duration(picture.now - one.since)),
            Cell(one.owner), _state(one, picture.now),
        ]
        for one in picture.of(BLOCKED)
    ]  # fmt: skip
    return render(columns, rows, width=width, colours=coloured)


def _state(one: Standing | None, now: int) -> Cell:
    if one is None:
        return Cell("")
    return Cell(one.words(now), RED if one.state == BLOCKED or one.is_overdue(now) else "")


def _agent(one: Standing, me: Holder | None) -> Cell:
    is_me = me is not None and one.key == me.key
    return Cell(f"{one.agent} (you)" if is_me else one.agent, BOLD if is_me else "")


def _rows(covered: list[tuple[str, str]], facts: list[Cell], everything: bool) -> list[list[Cell]]:
    """A row for each path; the facts that they share are in the first."""
    if not everything and len(covered) > PATHS_MAX + 1:
        covered = [*covered[:PATHS_MAX], (f"and {len(covered) - PATHS_MAX} more", "")]
    empty = [Cell("")] * len(facts)
    return [
        [Cell(path), Cell(mode), *(facts if at == 0 else empty)]
        for at, (path, mode) in enumerate(covered)
    ]


def _covered(what: Grant | Request) -> list[tuple[str, str]]:
    return [
        (path, "read" if mode == READ else "write")
        for key, mode, path in zip(what.keys, what.modes, what.paths, strict=True)
        if kind(key) != INODE
    ]


def _who(holder: Holder, me: Holder | None) -> Cell:
    is_me = me is not None and holder.key == me.key
    return Cell(f"{holder.id} (you)" if is_me else holder.id, BOLD if is_me else "")


def _until(grant: Grant, until: int | None, now: int) -> Cell:
    if until is not None:
        # By the wall clock, which may have been set since the ledger was made.
        return Cell(local(time.time() + (until - now) / SECOND))
    return Cell("owner exits" if grant.holder.witness is not None else "unlocked", DIM)


def _details(grant: Grant) -> list[str]:
    holder = grant.holder
    facts = [f"user {holder.user}" if holder.user else ""]
    facts.append(f"pid {holder.witness.pid}" if holder.witness else "no process")
    for name in ("client", "session", "agent", "parent"):
        value = getattr(holder, name)
        facts.append(f"{name} {value}" if value else "")
    line = ", ".join(filter(None, facts))
    return [plain(f"grant {grant.id}, token {grant.token}"), plain(line)]


def _data(picture: Picture, left: Left) -> dict[str, Any]:
    from holdfast.cli.guarding.off_and_on import off_data
    from holdfast.manager.plain_data import grant_data, moment, ticket_data

    return {
        "root": picture.root or os.getcwd(),
        "store": picture.store or None,
        "head": picture.head,
        "now": moment(picture.now or None),
        "off": off_data(picture.off),
        "grants": [
            {
                **grant_data(grant),
                "expires_at": moment(until),
                "state": why or "live",
                **({"orphaned": True} if grant.id in picture.orphaned else {}),
            }
            for grant, why, until in picture.grants
        ],
        "waiting": [
            {"place": place, **ticket_data(ticket, behind), "state": "dead" if dead else "live"}
            for place, (ticket, dead, behind) in enumerate(picture.waiting, 1)
        ],
        "agents": [one.to_data(picture.now) for one in picture.agents],
        "specs": [one.to_dict() for one in picture.specs],
        "unfinished": left,
    }
