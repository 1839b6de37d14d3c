"""tree init, info, create, remove."""

from __future__ import annotations

import os
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call
from holdfast.cli.printing import document, listed, out, plain, talk
from holdfast.cli.tree.tree_context import TreeContext, counted, ending_well, when
from holdfast.cli.tree.tree_locks import lock_data, lock_words
from holdfast.trees import engines, worktree_removal, worktrees
from holdfast.trees.locking import worktree_locks
from holdfast.trees.repository import CONTROL, LEASE_SECONDS_DEFAULT, MAIN, Repository
from holdfast.trees.snapshots import descriptors, restoring
from holdfast.trees.snapshots.taking import warning
from holdfast.trees.worktrees import EXCLUSIVE, Worktree


def init(call: Call) -> int:
    """Create a repository."""
    context = TreeContext(call)
    where = context.word("path") if call.words else "."
    repository = Repository.init(os.path.join(context.folder, where))
    main = worktrees.find(repository, "main")
    beside = _beside(repository)
    context.answer(
        {"repository": _repository_data(repository), "worktree": worktree_data(main),
         "beside": beside},
        f"created the repository {plain(repository.root)} with the worktree main",
    )  # fmt: skip
    if not context.as_json:
        if beside:
            talk(f"  left outside of every worktree: {listed(beside)}; move them into main/")
        talk(f"  go there: cd {plain(main.path)}")
    return DONE


def _beside(repository: Repository) -> list[str]:
    """The entries that were in the folder before, and belong to no worktree."""
    names = {*os.listdir(repository.root)} - {CONTROL, MAIN, "worktrees"}
    return sorted(plain(name) for name in names)


def info(call: Call) -> int:
    """Show the repository, and the worktree that the caller is in."""
    context = TreeContext(call)
    repository = context.repository()
    worktree = context.worktree() if call.flag("worktree") else context.around(repository)
    data: dict[str, Any] = {"repository": _repository_data(repository), "worktree": None}
    warnings: list[str] = []
    if worktree is not None:
        engine = engines.choose(worktree.path, repository.path("snapshots")).name
        data["worktree"] = {**worktree_data(worktree), "engine": engine}
        warnings = _warnings(worktree)
    data |= {"warning": bool(warnings), "warnings": warnings}
    if context.as_json:
        document(data)
        return DONE
    _tell_info(data, worktree, warnings)
    return DONE


def _tell_info(data: dict[str, Any], worktree: Worktree | None, warnings: list[str]) -> None:
    about = data["repository"]
    out(f"repository  {plain(about['name'])} in {plain(about['root'])}, format {about['format']}")
    out(f"leases      {LEASE_SECONDS_DEFAULT:g} s by default")
    if worktree is None:
        out("worktree    not in one; holdfast tree list shows all")
        return
    head = data["worktree"]["head"]
    out(f"worktree    {worktree.name}, {isolation_words(worktree)}")
    out(f"engine      {data['worktree']['engine']} (available: {', '.join(engines.names())})")
    shown = f"{head['snapshot_id']} of {when(head['created_at'])}" if head else "none yet"
    out(f"snapshot    {shown}{_note(head)}")
    if not worktree.is_shared:
        out(f"lock        {lock_words(worktree_locks.status(worktree))}")
    for text in warnings:
        talk(f"  warning: {plain(text)}")


def _note(head: dict[str, Any] | None) -> str:
    return f": {plain(' '.join(head['note'].split()))}" if head and head.get("note") else ""


def _warnings(worktree: Worktree) -> list[str]:
    found = []
    if worktree.is_shared:
        found.append("it is shared: nothing prevents two writers at once (high risk)")
    lost = lost_head(worktree)
    if lost:
        found.append(lost)
    head = _head(worktree)
    if head is not None and head["warning"]:
        level, state = head.get("consistency_level"), head.get("integrity_state")
        found.append(f"its latest snapshot is {level}, {state}")
    return found


def lost_head(worktree: Worktree) -> str:
    """A warning if the latest snapshot is not whole; empty if it is, or if there is none."""
    id = worktree.head()
    if not id or descriptors.is_visible(worktree.repository, id):
        return ""
    older = descriptors.nearest(worktree.repository, id)
    instead = f"the latest whole one is {older}" if older else "there is no older one"
    return f"its latest snapshot {id} is not whole; {instead}; see holdfast tree doctor"


def create(call: Call) -> int:
    """Create a worktree."""
    context = TreeContext(call)
    name = context.word("name")
    repository = context.repository()
    wanted = call.text("from")
    snapshot_id = context.snapshot_id(repository, wanted) if wanted else ""
    with ending_well():
        made = restoring.create(
            repository, name, snapshot_id=snapshot_id,
            isolation=call.text("isolation") or EXCLUSIVE, engine=call.text("engine") or "",
            progress=context.progress(),
        )  # fmt: skip
    tell_created(context, made)
    return DONE


def tell_created(context: TreeContext, made: restoring.Restored) -> None:
    """Report a new worktree, and what of its snapshot could not be restored."""
    origin = f" from {made.snapshot['snapshot_id']}" if made.snapshot else ""
    degraded = made.degraded.some if made.degraded else []
    context.answer(
        {"worktree": worktree_data(made.worktree), "degraded": degraded},
        f"created the worktree {made.worktree.name}{origin}",
    )
    if not context.as_json:
        talk(f"  go there: cd {plain(made.worktree.path)}")
        tell_degraded(degraded, made.degraded.count if made.degraded else 0)


def tell_degraded(entries: list[dict[str, str]], count: int) -> None:
    """List some entries that could not be restored fully, and count the others."""
    for entry in entries[:5]:
        talk(f"  degraded: {plain(entry['path'])}: {plain(entry['what'])}")
    if count > 5:
        talk(f"  and {counted(count - 5, 'more')}")


def isolation_words(worktree: Worktree) -> str:
    """The isolation of a worktree, for people."""
    return "shared (high risk)" if worktree.is_shared else worktree.isolation


def remove(call: Call) -> int:
    """Remove a worktree: the one that is named, or the one that the caller is in."""
    context = TreeContext(call)
    worktree = context.named()
    around = context.around(worktree.repository)
    with ending_well():
        worktree_removal.remove(
            worktree,
            context.caller().id,
            token=context.token(worktree),
            force=call.flag("force"),
            progress=context.progress(),
        )
    name = worktree.name
    context.answer({"removed": name}, f"removed the worktree {name}; its snapshots remain")
    if around is not None and around.name == name and not context.as_json:
        talk(f"  this shell is in a deleted folder: cd {plain(worktree.repository.root)}")
    return DONE


def _repository_data(repository: Repository) -> dict[str, Any]:
    about = repository.about()
    return {
        **about,
        "root": repository.root,
        "format": repository.format,
        "lease_seconds_default": LEASE_SECONDS_DEFAULT,
        "engines": engines.names(),
    }


def worktree_data(worktree: Worktree) -> dict[str, Any]:
    """A worktree as data for other programs."""
    return {
        "name": worktree.name,
        "path": worktree.path,
        "worktree_id": worktree.id,
        "isolation": worktree.isolation,
        "high_risk": worktree.is_shared,
        "base_snapshot": worktree.base() or None,
        "head_snapshot": worktree.head() or None,
        "head": _head(worktree),
        "lock": None if worktree.is_shared else lock_data(worktree_locks.status(worktree)),
    }


def _head(worktree: Worktree) -> dict[str, Any] | None:
    id = descriptors.nearest(worktree.repository, worktree.head())
    if not id:
        return None
    fields = descriptors.listed(worktree.repository, id)
    return {**fields, "warning": warning(fields)}
