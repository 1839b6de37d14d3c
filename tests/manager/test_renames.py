"""One module replaces files, and no other module does it by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent

#: Modules that rename by themselves, with the reason. A rename that only moves a whole file or
#: folder to another name, and writes nothing, is not a replacement of content.
RENAMES_ITSELF = {
    "manager/files/replace_file.py": "the one module that replaces files",
    "gate/replacement.py": "in two steps, around a check inside the ledger's transaction, and by "
    "open folders from the root down, because an agent may plant links in its own repository",
    "manager/files/file_restore.py": "puts files back by open folders, for the same reason, with "
    "their inode where that is possible",
    "manager/files/keepsakes.py": "moves a list of kept files: accepted, then landed",
    "gate/commands/slips.py": "moves a slip: of several claims of one slip exactly one succeeds",
    "gate/guard/edit_marks.py": "moves a mark away to examine it, and back",
    "gate/git/git_hooks.py": "moves hooks of others out of the way and back",
    "gate/git/hook_folder.py": "git's own lock file, config.lock, is the temporary file",
    "gate/sandbox/runner/scratch_folder.py": "moves a deep folder up, to remove it",
    "gate/install/ledger_takeover.py": "moves a whole ledger to where it is kept",
    "specs/spec_files.py": "moves a file that is no lock out of the way, for its user",
    "proof/health/proof_repair.py": "moves a damaged event aside",
    "trees/kernel_calls.py": "gives a folder a name that must be free; exchanges two folders",
    "trees/repository.py": "publishes a folder that was built under another name",
    "trees/worktree_removal.py": "moves a folder away, to remove it",
    "trees/tree_damage.py": "moves a damaged folder away, to remove it",
    "trees/snapshots/garbage_collection.py": "moves folders and descriptors to the tombstones",
    "trees/snapshots/publishing.py": "publishes a folder and its descriptor, each built before",
    "trees/locking/intent_recovery.py": "moves an unfinished folder away, to remove it",
}
RENAMES = {"os": {"rename", "renames", "replace"}, "shutil": {"move"}}


def renames(code: str) -> list[str]:
    """The functions that rename files which a module uses."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in RENAMES.get(node.value.id, ()):
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in RENAMES:
            of_module = RENAMES[node.module]
            found += [f"{node.module}.{one.name}" for one in node.names if one.name in of_module]
    return found


def test_no_other_module_replaces_files_by_itself() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if renames(file.read_text(encoding="utf-8"))
    }
    assert sorted(found - RENAMES_ITSELF.keys()) == [], "use replace_file, or give the reason here"
    assert sorted(RENAMES_ITSELF.keys() - found) == [], "no longer true"


@pytest.mark.parametrize(
    "code",
    ["import os\nos.replace(a, b)", "from os import rename as other", "import shutil\nshutil.move"],
)
def test_each_way_to_rename_is_noticed(code: str) -> None:
    assert renames(code)
