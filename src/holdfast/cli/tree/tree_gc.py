"""tree gc plan, run, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, out, plain, talk
from holdfast.cli.terminal.tables import Cell, Column, render, terminal_width
from holdfast.cli.tree.tree_context import TreeContext, counted, size, when
from holdfast.trees.snapshots import garbage_collection, retention
from holdfast.trees.snapshots.descriptors import SHORT_CHARACTERS

_SHOWN_MAX = 50
_COLUMNS = (
    Column("SNAPSHOT"), Column("WHEN"), Column("WORKTREE"), Column("SIZE"),
    Column("NOTE", 10, prose=True),
)  # fmt: skip


def gc_plan(call: Call) -> int:
    """Show what a gc would remove, and store that as a plan. Removes nothing."""
    context = TreeContext(call)
    repository = context.repository()
    made = garbage_collection.plan(repository, retention.settings(repository).but(**_given(call)))
    if context.as_json:
        context.answer({"plan": made.to_dict()})
        return DONE
    if not made.remove:
        out("nothing to remove")
    else:
        rows = [_row(one) for one in made.remove[:_SHOWN_MAX]]
        for line in render(_COLUMNS, rows, width=terminal_width(), colours=colours()):
            out(line)
        if len(made.remove) > _SHOWN_MAX:
            out(f"and {len(made.remove) - _SHOWN_MAX:,} more")
        out(f"{counted(len(made.remove), 'snapshot')} to remove, up to {size(made.bytes)}")
    kept = Counter(_reason(why) for why in made.kept.values())
    for why, count in sorted(kept.items(), key=lambda one: (-one[1], one[0])):
        talk(f"  kept: {count:,} by {plain(why)}")
    if made.remove:
        talk(f"  -> holdfast tree gc run {made.id}")
    return DONE


def _given(call: Call) -> dict[str, Any]:
    """The settings on the command line, for this plan only."""
    found: dict[str, Any] = {}
    for option, key in (("keep-last", "keep_last"), ("keep-days", "keep_days")):
        number = call.number(option)
        if number is not None:
            found[key] = number
    if call.flag("no-ancestors"):
        found["keep_ancestors"] = False
    return found


def _reason(why: str) -> str:
    return "being an ancestor of a needed snapshot" if why.startswith("an ancestor of") else why


def _row(one: dict[str, Any]) -> Sequence[Cell]:
    return [
        Cell(one["snapshot_id"][:SHORT_CHARACTERS]), Cell(when(one["created_at"])),
        Cell(one["worktree"]), Cell(size(one["bytes"])), Cell(" ".join(one["note"].split())),
    ]  # fmt: skip


def gc_run(call: Call) -> int:
    """Remove the snapshots of a plan that are still not needed."""
    context = TreeContext(call)
    plan_id = context.word("plan")
    done = garbage_collection.run(context.repository(), plan_id, context.progress())
    context.answer(
        {"plan_id": plan_id, "removed": done.removed, "spared": done.spared, "bytes": done.bytes},
        f"removed {counted(len(done.removed), 'snapshot')}, up to {size(done.bytes)}",
    )
    if not context.as_json:
        for id, why in [*done.spared.items()][:_SHOWN_MAX]:
            talk(f"  kept: {id}, needed meanwhile by {plain(why)}")
    return DONE


def gc_settings(call: Call) -> int:
    """Show what gc keeps, or change it."""
    context = TreeContext(call)
    repository = context.repository()
    changes = dict(_setting(word) for word in call.words)
    if changes:
        chosen = retention.change_settings(repository, **changes)
    else:
        chosen = retention.settings(repository)
    words = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else f'{value:g}'}"
        for name, value in chosen.to_dict().items()
    ]
    context.answer({"settings": chosen.to_dict()}, *words)
    return DONE


def _setting(word: str) -> tuple[str, Any]:
    key, sign, text = word.partition("=")
    if not sign:
        raise UsageError(
            f"{word!r} is not a setting", hint="holdfast tree gc settings keep_last=20 keep_days=7"
        )
    if text in ("true", "false"):
        return key, text == "true"
    try:
        return key, int(text) if text.isdigit() else float(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a value for {key}", hint="give a number, true or false"
        ) from None
