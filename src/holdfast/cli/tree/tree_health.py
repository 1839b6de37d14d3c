"""tree doctor, verify."""

from __future__ import annotations

from holdfast.cli import DONE, FAILED
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import document, out, plain, talk
from holdfast.cli.tree.tree_context import TreeContext, counted, ending_well
from holdfast.trees import tree_damage as examining
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.verification import verify as verify_snapshot
from holdfast.trees.tree_damage import NOTICE, Finding


def doctor(call: Call) -> int:
    """Look for damage. The exit code is 1 if any remains."""
    context = TreeContext(call)
    repository = context.repository()
    with ending_well():
        found = examining.examine(
            repository, strict=call.flag("strict"), clean=call.flag("clean"),
            progress=context.progress(),
        )  # fmt: skip
    left = [one for one in found if not one.cleaned and one.severity != NOTICE]
    if context.as_json:
        document(
            {"findings": [one.to_dict() for one in found], "strict": call.flag("strict"),
             "healthy": not left}
        )  # fmt: skip
        return FAILED if left else DONE
    for finding in found:
        _tell(finding)
    if not found:
        thorough = "" if call.flag("strict") else " (--strict checks every byte)"
        out(f"nothing is wrong with {plain(repository.root)}{thorough}")
    elif left:
        talk(f"{counted(len(left), 'finding')} left")
    return FAILED if left else DONE


def _tell(finding: Finding) -> None:
    state = "cleaned" if finding.cleaned else finding.severity
    out(f"{state}: {finding.code} {plain(finding.path)}: {plain(finding.what)}")
    if not finding.cleaned:
        out(f"  -> {plain(finding.remedy)}")


def verify(call: Call) -> int:
    """Check snapshots byte by byte. The exit code is 1 if one of them is damaged."""
    context = TreeContext(call)
    repository = context.repository()
    if call.flag("all") and call.words:
        raise UsageError(
            "give one snapshot or --all, not both", hint="leave out --all, or the snapshot"
        )
    if call.flag("all"):
        ids = [*descriptors.visible_ids(repository)]
    elif call.words:
        ids = [context.snapshot_id(repository, context.word("snapshot"))]
    else:
        head = context.worktree().head()
        ids = [context.snapshot_id(repository, head)] if head else []
    progress = context.progress()
    results = {}
    for id in ids:
        results[id] = [*verify_snapshot(repository, id, progress)]
        if not context.as_json:
            out(f"{id}: {'whole' if not results[id] else 'damaged'}")
            for why in results[id][:20]:
                out(f"  {plain(why)}")
    damaged = [id for id, problems in results.items() if problems]
    if context.as_json:
        document(
            {"snapshots": [{"snapshot_id": id, "ok": not problems, "problems": problems}
                           for id, problems in results.items()], "ok": not damaged}
        )  # fmt: skip
    elif not ids:
        talk("there are no snapshots to check")
    return FAILED if damaged else DONE
