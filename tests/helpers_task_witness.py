"""What must be true of twenty tasks at the end, judged without the ledger: the files, git's history
and the processes; and that the ledger and its folder hold nothing any more."""

from __future__ import annotations

import os
import stat
import subprocess
from graphlib import TopologicalSorter
from itertools import pairwise

from helpers_task_fights import Arena, until_no_process_is_left
from helpers_task_scripts import CHECKLIST, CIRCLE, JOURNAL, SHARED, names_in
from helpers_tasks import picture
from holdfast.gate.sandbox.runner.scratch_folder import sweep
from holdfast.manager import transactions
from holdfast.work.engine.item_store import YIELD_NOTES
from holdfast.work.tasks import task_states


def demand_all_done_once(made: Arena) -> None:
    """Every task is done exactly once, and nothing else is there."""
    found = {one.name: one.state for one in made.states().values()}
    assert found == dict.fromkeys(made.names, task_states.DONE), made.told()
    demand_marks_of(made, set(made.names))
    demand_nothing_left(made)


def demand_marks_of(made: Arena, done: set[str]) -> None:
    """The files are those that exactly these tasks leave, each having run once, in one order."""
    trouble = sorted(made.evidence.glob("trouble-*"))
    assert not trouble, [one.read_text() for one in trouble]
    orders: dict[str, set[str]] = {}
    for path in (*SHARED, *CIRCLE):
        marks = names_in(made.read(path))
        assert marks is not None, f"{path} is half written"
        wanted = {name for name in done if path in made.files_of(name)}
        assert sorted(marks) == sorted(["start", *wanted]), (path, made.told())
        for before, after in pairwise(marks):
            orders.setdefault(after, set()).add(before)
    # A task that keeps all its files until it ends comes before or after another in all of them.
    list(TopologicalSorter(orders).static_order())
    _demand_journal(made, done)
    _demand_own_files(made, done)


def _demand_journal(made: Arena, done: set[str]) -> None:
    """Of each task the lines of one attempt, one after the other, and no line of an undone one."""
    lines = made.read(JOURNAL).splitlines()
    runs = [line for line, after in pairwise([*lines, ""]) if line != after]
    wanted = {name for name in done if JOURNAL in made.files_of(name)}
    assert sorted(line.split()[0] for line in runs) == sorted(wanted), (runs, made.told())


def _demand_own_files(made: Arena, done: set[str]) -> None:
    there = {path for path, (_mode, what) in picture(made.root).items() if what != "folder"}
    fixed = {*SHARED, *CIRCLE, JOURNAL, "shop/__init__.py", "shop/marks.py", "tests/test_marks.py",
             ".gitignore", "holdfast.toml", made.list}  # fmt: skip
    parts = {f"shop/parts/{name}/part.py" for name in done}
    todo = {f"todo/{name}.txt" for name in made.names if name not in done}
    found, wanted = {path for path in there if "__pycache__" not in path}, fixed | parts | todo
    assert found == wanted, (found - wanted, wanted - found, made.told())
    for name in done:
        part = made.root / f"shop/parts/{name}/part.py"
        assert part.read_text() == f"NAME = {name!r}\n"
        assert stat.S_IMODE(part.stat().st_mode) == 0o755
    for name in set(made.names) - done:
        assert made.read(f"todo/{name}.txt") == f"{name} is to be done\n"
        assert not (made.root / f"shop/parts/{name}").exists()


def demand_nothing_left(made: Arena) -> None:
    """No process, no lease, no ticket, no kept file, no lock of git."""
    until_no_process_is_left(made)
    assert made.manager.active_grants() == []
    assert made.manager.queue() == []
    assert transactions.notes(made.manager, YIELD_NOTES) == []
    runs = made.root / ".holdfast/runs"
    # The files that an undone attempt left are kept, whatever its agent called them.
    ours = [one for one in runs.rglob("*") if "left" not in one.relative_to(runs).parts]
    kept = [str(one) for one in ours if one.name in LEFT_OVER or one.suffix == ".new"]
    assert kept == [], kept
    assert list((made.root / ".git").rglob("*.lock")) == []
    sweep(str(made.temporary))
    left = list(made.temporary.glob("holdfast-run-*"))
    # a process killed right after it created its folder could not even sign it
    assert [list(folder.iterdir()) for folder in left] == [[] for _ in left]


#: Files that exist only while an attempt, or its end, is in progress.
LEFT_OVER = ("before.json", "before", "compared", "plan.index", "land.index", "landing")


def demand_one_commit_each(made: Arena, done: set[str]) -> None:
    """Exactly one commit for each of these tasks, with exactly its files; and a sound history."""
    subjects = made.git("log", "--format=%s").splitlines()
    assert sorted(subjects) == sorted(["first", *done]), made.told()
    for line in made.git("log", "--format=%H %s").splitlines()[:-1]:
        id, _, name = line.partition(" ")
        changed = made.git("show", "--format=", "--name-only", "--no-renames", id).split()
        assert set(changed) == made.files_of(name), (name, changed)
        for path in {*SHARED, *CIRCLE} & set(changed):
            marks = names_in(made.git("show", f"{id}:{path}"))
            older = names_in(made.git("show", f"{id}~:{path}"))
            assert marks == [*(older or ["half written"]), name], (name, path)
    assert {name: one.commit for name, one in made.states().items() if name in done} == {
        line.partition(" ")[2]: line.partition(" ")[0]
        for line in made.git("log", "--format=%H %s").splitlines()[:-1]
    }
    made.git("fsck", "--strict", "--no-dangling")
    assert made.git("status", "--porcelain", "--untracked-files=all") == ""
    assert made.git("diff", "--cached", "--name-only", "HEAD") == ""


def demand_ticks(made: Arena, done: set[str]) -> None:
    """The checklist has exactly these ticks, and every other byte as it was."""
    text = made.read(CHECKLIST)
    ticked = {line[6:] for line in text.splitlines() if line.startswith("- [x] ")}
    assert ticked == done
    assert text.replace("- [x] ", "- [ ] ") == made.git("show", f"HEAD:{CHECKLIST}")


def mounted(folder: str, size: str) -> str:
    """Mount a small disk in memory; the reason if that is impossible."""
    if os.geteuid() != 0:
        return "needs root, to mount a small disk"
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"this machine does not let us mount: {done.stderr.strip()}" if done.returncode else ""
