"""What is kept of an item on disk: what its agents printed, and its files as they were before.

.holdfast/runs/<item>/<phase>.log    what the agent of a phase printed
.holdfast/runs/<item>/before/        the files that a merge may write, as they were
.holdfast/runs/<item>/before.json    which of them were there; its being there says that the
                                     copy is whole
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable

FOLDER = ".holdfast/runs"


class Run:
    """The folder of one item."""

    def __init__(self, root: str, item: str) -> None:
        self._root = root
        self.folder = f"{root}/{FOLDER}/{item}"

    def log(self, phase: str, round: int = 0) -> str:
        """The file for what the agent of a phase prints."""
        return f"{self.folder}/{phase}-{round}.log" if round else f"{self.folder}/{phase}.log"

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now, unless that was done before."""
        if os.path.exists(self._list):
            return
        shutil.rmtree(self._before, ignore_errors=True)
        os.makedirs(self._before)
        kept: dict[str, str | None] = {}
        for number, path in enumerate(paths):
            source = f"{self._root}/{path}"
            kept[path] = str(number) if os.path.lexists(source) else None
            if kept[path] is not None:
                shutil.copy2(source, f"{self._before}/{number}", follow_symlinks=False)
        whole = f"{self._list}.new"
        with open(whole, "w", encoding="utf-8") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, self._list)

    def put_back(self) -> list[str]:
        """Put the files back as they were, and forget how that was. Which of them had changed."""
        try:
            with open(self._list, encoding="utf-8") as file:
                kept: dict[str, str | None] = json.load(file)
        except FileNotFoundError:
            return []  # nothing had begun
        changed = [path for path, name in kept.items() if self._put_back(path, name)]
        self.forget()
        return changed

    def forget(self) -> None:
        """The files as they were are not needed any more."""
        _unlink(self._list)
        shutil.rmtree(self._before, ignore_errors=True)

    def remove(self) -> None:
        """Nothing is kept any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _before(self) -> str:
        return f"{self.folder}/before"

    @property
    def _list(self) -> str:
        return f"{self.folder}/before.json"

    def _put_back(self, path: str, name: str | None) -> bool:
        target = f"{self._root}/{path}"
        if name is None:
            if not os.path.lexists(target):
                return False
            os.unlink(target)
            return True
        kept = f"{self._before}/{name}"
        if os.path.lexists(target) and _same(kept, target):
            return False
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # Always the same name: what a killed one left there is overwritten, and not left for ever.
        new = f"{target}.holdfast-before"
        _unlink(new)
        shutil.copy2(kept, new, follow_symlinks=False)
        os.replace(new, target)
        return True


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _same(one: str, other: str) -> bool:
    if os.path.islink(one) or os.path.islink(other):
        return (
            os.path.islink(one) and os.path.islink(other) and os.readlink(one) == os.readlink(other)
        )
    if os.stat(one).st_mode != os.stat(other).st_mode:
        return False
    with open(one, "rb") as a, open(other, "rb") as b:
        while True:
            left, right = a.read(1 << 20), b.read(1 << 20)
            if left != right:
                return False
            if not left:
                return True
