"""The last steps of a snapshot: seals it under hidden names, then makes it visible."""

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
    """Write the descriptor and the mark, beside the payload, and flush both."""
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
    """Make the snapshot visible by two renames: the folder first, the descriptor last."""
    os.rename(building(repository, id), descriptors.folder(repository, id))
    tree_files.flush_folder(repository.path("snapshots"))
    path = descriptors.path(repository, id)
    os.rename(f"{path}{tree_files.UNFINISHED}", path)
    tree_files.flush_folder(repository.path("descriptors"))
