"""The last steps of a snapshot: sealed under names that nobody looks at, then made visible."""

from __future__ import annotations

import os

from holdfast.trees import descriptors, files
from holdfast.trees.descriptors import READY, Descriptor
from holdfast.trees.repository import Repository


def building(repository: Repository, id: str) -> str:
    """Where a snapshot is built."""
    return f"{descriptors.folder(repository, id)}{files.UNFINISHED}"


def seal(repository: Repository, id: str, facts: Descriptor) -> Descriptor:
    """The descriptor and the mark, on the disk, beside what was built."""
    fields = descriptors.seal(facts)
    unfinished = f"{descriptors.path(repository, id)}{files.UNFINISHED}"
    files.remove(unfinished)
    files.write_new(unfinished, files.pretty(fields))
    mark = f"{building(repository, id)}/{READY}"
    files.remove(mark)
    files.write_new(mark, descriptors.mark(fields, repository.now))
    files.flush_folder(building(repository, id))
    files.flush_folder(repository.path("descriptors"))
    return fields


def reveal(repository: Repository, id: str) -> None:
    """The renames that make it visible: the folder first, the descriptor last."""
    os.rename(building(repository, id), descriptors.folder(repository, id))
    files.flush_folder(repository.path("snapshots"))
    path = descriptors.path(repository, id)
    os.rename(f"{path}{files.UNFINISHED}", path)
    files.flush_folder(repository.path("descriptors"))
