"""Whether the file that blocks an agent is free, so that a person can let the agent continue.

Each time that it comes free is recorded once, by the decision that frees it or else by the lookout.
The notification of people is recorded too, before it is sent, so that it is never sent twice.
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
    """The conflicts over the file that blocks an agent. Leases of dead owners are removed, and
    their files go to the agents that wait for them."""
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
    """Record, in a decision that has ended leases, which blocked agents can continue now."""
    free = draft.came_free()
    found = [
        block
        for block in (agent_records.known_blocks(draft) if free else ())
        if block.file in free or draft.note(block.free.name) is None
    ]
    for block in _not_held(draft, found):
        block.free.write(draft, agent_records.FREE_AGAIN)


def look_out(view: View) -> Decision[tuple[list[Block], int]]:
    """For notifications: the blocked agents that can continue and were not reported yet, and the
    number of all blocked agents."""
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
    """The blocked agents whose file no other holds. All are examined before one counts: a dead
    owner's file may go to an agent that waited for more than that file."""
    for block in blocks:
        blockers(draft, block)
    return [block for block in blocks if not blockers(draft, block)]
