"""What all calls share: a lease is for the file that the name leads to when the lease is taken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from helpers_processes import LINUX_ONLY
from holdfast.gate.broker.calls.call_answers import CallContext, WouldBlock
from holdfast.gate.broker.calls.folder_rename import FolderRenames
from holdfast.gate.broker.places.path_lookup import Found
from holdfast.gate.broker.places.path_zones import LEASED

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

    def know_kinds(self, _kinds: object) -> None:
        pass

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


def _performing(meanwhile: Callable[[], None]) -> tuple[CallContext, _Leases]:
    leases = _Leases(meanwhile)
    made = cast(Any, CallContext)(_Kinds(), leases, None, _Ahead(), lambda *_: False, False)
    return cast(CallContext, made), leases


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
    with pytest.raises(WouldBlock):
        performing.lease(cast(Any, None), found)
    assert leases.mine[found.path].moved_at > 0  # so the first write to it is stale
    found.close()


def test_a_file_that_came_before_the_lease_is_looked_up_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = _found(path)
    performing, _leases = _performing(lambda: path.touch())
    with pytest.raises(WouldBlock):
        performing.lease(cast(Any, None), found)
    found.close()


def test_what_another_command_of_the_same_agent_changed_is_not_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = _found(path)
    performing, leases = _performing(lambda: path.touch())
    leases.are_new = False
    with pytest.raises(WouldBlock):
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


@pytest.mark.parametrize("is_there", [True, False])
def test_a_name_in_a_folder_that_moved_before_the_lease_is_looked_up_again(
    tmp_path: Path, is_there: bool
) -> None:
    """The lease is on the path, but the open folder has moved."""
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    if is_there:
        path.write_text("old")
    found = _found(path)

    def move() -> None:
        path.parent.rename(tmp_path / "moved")

    performing, _leases = _performing(move)
    with pytest.raises(WouldBlock):
        performing.lease(cast(Any, None), found)
    found.close()


class _FolderLeases:
    """Leases for the rename of a folder."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.held_at_the_rename: list[str] = []

    def demand_may_change(self, _found: Found) -> None:
        pass

    demand_free = demand_may_change

    def hold_folder(self, _caller: object, found: Found) -> str:
        self.held.append(found.path)
        return found.path

    def let_go(self, id: str) -> None:
        self.held.remove(id)

    def take_all(self, _caller: object, wanted: list[tuple[str, object]]) -> list[Any]:
        return [SimpleNamespace(path=path, grant="g", token=1) for path, _status in wanted]

    def drop_all(self, _paths: object) -> None:
        pass

    def refuse_closed(self, _path: str) -> None:
        pass

    def made_folder(self, _path: str) -> None:
        pass

    keeps_absent = True

    @contextmanager
    def fenced(self, _grant: str, _token: int) -> Iterator[None]:
        self.held_at_the_rename = [*self.held]
        yield


def test_while_a_folder_is_renamed_it_is_held_so_no_other_holder_is_granted_a_file_in_it(
    tmp_path: Path,
) -> None:
    """Otherwise that holder would create it in the open folder, wherever that is by then."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    leases = _FolderLeases()
    kinds = SimpleNamespace(rough=lambda _path: (LEASED, ""), of=lambda _path: LEASED)
    controlling = SimpleNamespace(moves=lambda _old, _new: None)
    folders = cast(Any, FolderRenames)(leases, kinds, leases, controlling)
    first, second = _found(tmp_path / "folder"), _found(tmp_path / "moved")
    folders.rename(cast(Any, None), first, second, 0)
    assert leases.held_at_the_rename == [str(tmp_path / "folder")]
    assert leases.held == []
    assert (tmp_path / "moved" / "file").exists()
    first.close()
    second.close()
