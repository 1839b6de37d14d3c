"""The last steps of a snapshot: sealed under names that nobody looks at, then made visible."""

from __future__ import annotations

import os

from holdfast.trees import tree_files
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.descriptors import READY, Descriptor


def building(repository: Repository, id: str) -> str:
    """Where a snapshot is built."""
    return f"{descriptors.folder(repository, id)}{tree_files.UNFINISHED}"


def seal(repository: Repository, id: str, facts: Descriptor) -> Descriptor:
    """The descriptor and the mark, on the disk, beside what was built."""
    fields = descriptors.seal(facts)
    unfinished = f"{descriptors.path(repository, id)}{tree_files.UNFINISHED}"
    tree_files.remove(unfinished)
    tree_files.write_new(unfinished, tree_files.pretty(fields))
    mark = f"{building(repository, id)}/{READY}"
    tree_files.remove(mark)
    tree_files.write_new(mark, descriptors.mark(fields, repository.now))
    tree_files.flush_folder(building(repository, id))
    tree_files.flush_folder(repository.path("descriptors"))
    return fields


def reveal(repository: Repository, id: str) -> None:
    """The renames that make it visible: the folder first, the descriptor last."""
    os.rename(building(repository, id), descriptors.folder(repository, id))
    tree_files.flush_folder(repository.path("snapshots"))
    path = descriptors.path(repository, id)
    os.rename(f"{path}{tree_files.UNFINISHED}", path)
    tree_files.flush_folder(repository.path("descriptors"))
