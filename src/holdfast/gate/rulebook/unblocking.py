"""Whether what an agent is blocked by is free, so that a person can let it go on.

Each time that it comes free is noted once, by the decision that frees it or else by whoever looks
out for people. That they were told is noted too, before they are, so nobody tells them twice.
"""

from __future__ import annotations

from holdfast.core.codec import paths_of
from holdfast.core.conflicts import in_the_way
from holdfast.core.draft import Draft
from holdfast.core.model import Holder, Request
from holdfast.core.wait_line import hand_over
from holdfast.gate.rulebook import agent_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Conflicts, Decision
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Block


def blockers(draft: Draft, block: Block) -> Conflicts:
    """Who has the file that an agent is blocked by, if anybody has. What the dead had is cleared
    away, and goes to those who wait for it."""
    request = Request(
        id="", holder=Holder(id=block.agent, key=block.key), keys=block.keys,
        modes="w" * len(block.keys), paths=paths_of(block.keys),
    )  # fmt: skip
    found = in_the_way(draft, request)
    while draft.freed:
        hand_over(draft)
        found = in_the_way(draft, request)
    return found


def note_what_is_free(draft: Draft) -> None:
    """In a decision that has ended leases: that an agent can go on now."""
    free = draft.came_free()
    found = [
        block
        for block in (agent_records.known_blocks(draft) if free else ())
        if block.file in free or draft.note(block.free.name) is None
    ]
    for block in _not_held(draft, found):
        block.free.write(draft, agent_records.FREE_AGAIN)


def look_out(view: View) -> Decision[tuple[list[Block], int]]:
    """For people who want to hear of it: who of the blocked can go on, of whom they were not told
    yet, and how many are blocked."""
    draft = Draft(view)
    found = agent_records.known_blocks(draft)
    free = _not_held(draft, found)
    to_tell = []
    for block in found:
        note, known = block.free, draft.note(block.free.name)
        if block not in free:
            if known is not None:
                note.end(draft, agent_records.FREE_OVER, **note.to_data(), why="taken")
            continue
        if known is None:
            note.write(draft, agent_records.FREE_AGAIN)
        if known is None or known.type == agent_records.FREE_AGAIN:
            note.write(draft, agent_records.FREE_TOLD)
            to_tell.append(block)
    return draft.done((to_tell, len(found)))


def _not_held(draft: Draft, blocks: Sequence[Block]) -> list[Block]:
    """Those of the blocked that nobody keeps from their file. All are looked at before one of them
    counts: what the dead had may go to somebody who waited for more than that."""
    for block in blocks:
        blockers(draft, block)
    return [block for block in blocks if not blockers(draft, block)]
