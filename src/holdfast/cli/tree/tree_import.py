"""tree import: the snapshots of a jvs repository."""

from __future__ import annotations

import os

from holdfast.cli import DONE, FAILED
from holdfast.cli.parser import Call
from holdfast.cli.printing import out, plain, talk
from holdfast.cli.tree.tree_context import TreeContext, counted, ending_well
from holdfast.trees.foreign import jvs_import


def import_(call: Call) -> int:
    """Import snapshots. The exit code is 1 if one of them failed."""
    context = TreeContext(call)
    where = os.path.join(context.folder, context.word("path"))
    repository = context.repository()
    with ending_well():
        done = jvs_import.bring(
            repository, where, engine=call.text("engine") or "", progress=context.progress()
        )
    code = FAILED if done.failed else DONE
    if context.as_json:
        context.answer({"imported": done.to_dict()})
        return code
    already = f"; {len(done.already):,} already here" if done.already else ""
    out(
        f"imported and verified {counted(len(done.brought), 'snapshot')} of "
        f"{plain(done.root)}{already}"
    )
    for name, id in done.tags.items():
        talk(f"  {plain(name)} is {id}")
    for why in done.failed.values():
        talk(f"  failed: {plain(why)}")
    if done.tags:
        talk("  -> holdfast tree create NAME --from TAG creates a worktree from one")
    return code
