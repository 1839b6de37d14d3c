"""What the calls share: a lease is for the file that the name leads to when it was taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from helpers_processes import LINUX_ONLY
from holdfast.gate.broker.finding import Found
from holdfast.gate.broker.performing import Blocks, Performing
from holdfast.gate.broker.where import LEASED

pytestmark = LINUX_ONLY


class _Lease:
    def __init__(self) -> None:
        self.moved_at = self.taken_at = 0
        self.is_ahead = False


class _Leases:
    """Leases that are taken while something else happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.mine: dict[str, _Lease] = {}
        self._meanwhile = meanwhile
        self.are_new = True

    def held(self, path: str) -> _Lease | None:
        return self.mine.get(path)

    def refuse_closed(self, _path: str) -> None:
        pass

    def was_another_s(self, _lease: _Lease) -> bool:
        return self.are_new

    def take(self, _caller: object, found: Found, *, waits: bool = False) -> _Lease:
        self._meanwhile()
        lease = self.mine[found.path] = _Lease()
        return lease


class _Ahead:
    def follow(self, _caller: object, _path: str) -> None:
        pass


class _Kinds:
    def of(self, _path: str) -> str:
        return LEASED


def _performing(meanwhile: Callable[[], None]) -> tuple[Performing, _Leases]:
    leases = _Leases(meanwhile)
    made = cast(Any, Performing)(_Kinds(), leases, None, _Ahead(), lambda *_: False, False)
    return cast(Performing, made), leases


def _found(path: Path) -> Found:
    folder = os.open(path.parent, os.O_PATH)
    fd = os.open(path, os.O_PATH) if path.exists() else -1
    return Found(folder, os.fsencode(path.name), fd)


def _replace(path: Path) -> None:
    (path.parent / "new").write_text("theirs")
    (path.parent / "new").rename(path)


@pytest.mark.parametrize(
    "change", [_replace, Path.unlink, lambda path: path.write_text("theirs and more")]
)
def test_a_file_that_its_last_holder_changed_before_the_lease_is_looked_up_again(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.utime(path, ns=(1, 1))
    found = _found(path)
    performing, leases = _performing(lambda: change(path))
    with pytest.raises(Blocks):
        performing.lease(cast(Any, None), found)
    assert leases.mine[found.path].moved_at > 0  # so its first write is an old one
    found.close()


def test_a_file_that_came_before_the_lease_is_looked_up_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = _found(path)
    performing, _leases = _performing(lambda: path.touch())
    with pytest.raises(Blocks):
        performing.lease(cast(Any, None), found)
    found.close()


def test_what_another_command_of_the_same_agent_changed_is_not_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = _found(path)
    performing, leases = _performing(lambda: path.touch())
    leases.are_new = False
    with pytest.raises(Blocks):
        performing.lease(cast(Any, None), found)
    assert leases.mine[found.path].moved_at == 0
    found.close()


def test_a_file_that_stayed_as_it_was_is_leased(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    found = _found(path)
    performing, leases = _performing(lambda: None)
    assert cast(Any, performing.lease(cast(Any, None), found)) is leases.mine[found.path]
    found.close()
