"""The guard's records in the ledger: versions, owners by key, and one transaction for each end of a
command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import Shop, Worker, made_repository, settled, sh, sneaky
from holdfast import RecordVersionError
from holdfast.core.model import Event, Holder, agent_key
from holdfast.gate import guard
from holdfast.gate.guard import edit_marks, guard_records
from holdfast.gate.guard.guard_records import (
    Damage,
    DamagedFile,
    Told,
    damage_name,
    told_name,
)
from holdfast.manager import transactions


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = made_repository(tmp_path / "work")
    made = Shop(root)
    settled(root / "app/x.py", root / "lib/y.py")
    yield made
    made.close()


ANN, BOB = agent_key("claude", "ann"), agent_key("claude", "bob")
#: The records from before there were versions.
FILE_1 = {
    "path": "app/x.py", "owner": "claude:ann", "owner_key": ANN, "before": "d1", "was": "file",
    "mode": 0o644, "after": "d2", "kept": True, "number": 0,
}  # fmt: skip
DAMAGE_1 = {"id": "9c41d07e", "by": "claude:bob", "by_key": BOB, "command": "make",
            "files": [FILE_1]}  # fmt: skip
TOLD_1 = {"id": "9c41d07e", "by": "claude:bob", "command": "make", "paths": ["app/x.py"]}


def event(type: str, data: dict[str, Any]) -> Event:
    return Event(seq=7, type=type, at=0, data=data)


# Versions


def test_records_of_version_1_are_read() -> None:
    damage = Damage.of(event("damage", {**DAMAGE_1, "note": "damaged:9c41d07e"}))
    file = DamagedFile(
        path="app/x.py", owner="claude:ann", owner_key=ANN, was="file", mode=0o644, before="d1",
        after="d2", kept=True, number=0,
    )  # fmt: skip
    assert damage == Damage(
        id="9c41d07e", by="claude:bob", by_key=BOB, command="make", files=[file]
    )
    told = Told.of(event("damage_to_be_told", {**TOLD_1, "note": "damage-for:x:9c41d07e"}))
    assert told == Told(
        id="9c41d07e", by="claude:bob", by_key="", command="make", paths=["app/x.py"]
    )


def test_new_records_are_of_version_2_and_can_be_read() -> None:
    damage = Damage.of(event("damage", DAMAGE_1))
    assert damage.to_data() == {**DAMAGE_1, "version": 2}
    assert Damage.of(event("damage", damage.to_data())) == damage
    told = Told(id="1", by="claude:bob", by_key=BOB, command="make", paths=["a", "b"])
    assert told.to_data() == {
        "version": 2, "id": "1", "by": "claude:bob", "by_key": BOB, "command": "make",
        "paths": ["a", "b"],
    }  # fmt: skip
    assert Told.of(event("damage_to_be_told", told.to_data())) == told


@pytest.mark.parametrize("version", [3, 99, "2", None])
@pytest.mark.parametrize("read", [Damage.of, Told.of])
def test_a_record_of_a_newer_version_is_not_guessed_at(
    read: Callable[[Event], object], version: object
) -> None:
    with pytest.raises(RecordVersionError, match="newer version of Holdfast") as caught:
        read(event("damage", {**DAMAGE_1, **TOLD_1, "version": version}))
    assert caught.value.code == "E_RECORD_VERSION"
    assert "upgrade" in caught.value.hint
    assert caught.value.fields == {"record": "damage", "seq": 7, "version": version}


def test_undo_of_a_newer_versions_record_says_so(shop: Shop) -> None:
    note = {**DAMAGE_1, "version": 3}
    transactions.note(shop.manager, "damage", note, name=damage_name("9c41d07e"))
    with pytest.raises(RecordVersionError):
        guard.undo(shop.manager, "9c41d07e")
    assert transactions.noted(shop.manager, damage_name("9c41d07e")) is not None


def test_a_message_that_only_a_newer_version_can_read_stops_no_agent(shop: Shop) -> None:
    ann = shop.worker("ann")
    for id, version in (("1", 3), ("2", 2)):
        data = {**TOLD_1, "id": id, "by_key": BOB, "version": version}
        transactions.note(shop.manager, "damage_to_be_told", data, name=told_name(ANN, id))
    edit_marks.call_agent(str(shop.root), ANN)
    told = ann.pending()
    assert "written by a newer version of Holdfast" in told
    assert "holdfast undo 2" in told
    assert [one.data["id"] for one in transactions.notes(shop.manager, told_name(ANN))] == ["1"]


# The agent of a record


class Namesake(Worker):
    """An agent that people see under the same name as others."""

    @property
    def holder(self) -> Holder:
        own = super().holder
        return Holder(
            id="claude:same", key=own.key, witness=own.witness, client=own.client,
            session=own.session, agent=own.agent, parent=own.parent,
        )  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_the_owner_is_not_taken_for_a_namesake_whose_command_ran(shop: Shop, version: int) -> None:
    shop.worker("ann"), shop.worker("bob")
    ann, bob = (Namesake(shop, name, "", ()) for name in ("ann", "bob"))
    ann.write("app/x.py", "ann\n")
    bob.run(sneaky("app/x.py"))
    if version == 1:
        (note,) = transactions.notes(shop.manager, told_name(ANN))
        data = {name: note.data[name] for name in TOLD_1}
        transactions.note(shop.manager, "damage_to_be_told", data, name=note.data["note"])
    told = ann.pending()
    assert "files that you hold were changed: app/x.py." in told
    assert "your command" not in told


@pytest.mark.parametrize("version", [1, 2])
def test_one_whose_command_ended_unheard_is_told_by_its_key(shop: Shop, version: int) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make all")
    sh(shop.root, "echo half > app/x.py")
    assert "claude:bob" in bob.settle()
    if version == 1:
        (note,) = transactions.notes(shop.manager, told_name(BOB))
        data = {name: note.data[name] for name in TOLD_1}
        transactions.note(shop.manager, "damage_to_be_told", data, name=note.data["note"])
    assert "While your command ran, files that others hold were changed: app/x.py (claude:ann)" in (
        bob.pending()
    )


def test_nobody_is_blamed_for_what_a_person_saved_meanwhile(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make test")
    (shop.root / "app/x.py").write_text("a person's\n")
    said = bob.ended("make test")
    assert said.context.startswith("While your command ran, files that others hold were changed: ")
    assert "If your command changed them, restore them" in said.context
    assert "If it did not change them, leave them" in said.context
    assert said.user.startswith("holdfast: while a command of claude:bob ran, files that ")
    assert "If the command changed them" in said.user
    told = ann.pending()
    assert told.startswith(
        "While claude:bob ran `make test`, files that you hold were changed: app/x.py."
    )
    assert "It is not known whether that command changed them." in told
    guard.undo(shop.manager, shop.events("damage")[0].data["id"])
    assert (shop.root / "app/x.py").read_text() == "ann\n"


# One transaction


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each transaction of a service."""
    made: list[str] = []
    decide = transactions.decide

    def counted(*words: Any, **more: Any) -> Any:
        made.append("decided")
        return decide(*words, **more)

    monkeypatch.setattr(transactions, "decide", counted)
    return made


def test_all_that_is_written_at_the_end_of_a_command_is_one_decision(
    shop: Shop, decisions: list[str]
) -> None:
    ann, bob, kid = shop.worker("ann"), shop.worker("bob"), shop.worker("ann", "kid")
    ann.write("app/x.py", "ann\n")
    kid.write("app/z.py", "kid\n")
    bob.run(sneaky("app/x.py"))
    old = shop.events("damage")[0].data["id"]
    for name in (
        edit_marks.guard_path(str(shop.root), *some) for some in (["swept"], ["undo", old])
    ):
        os.utime(name, (0, 0))
    line = f"sort lib/y.py > tmp.txt && mv tmp.txt lib/y.py; {sneaky('app/x.py app/z.py')}"
    line += f"; {sneaky('app/z.py')}; {sneaky('README.md')}"
    assert bob.ask(line).kind == "allow"
    assert bob.held() == ["lib/y.py", "tmp.txt"]
    sh(shop.root, line)
    head = len(list(shop.manager.events()))
    decisions.clear()
    said = bob.ended(line)
    assert decisions == ["decided"]
    assert "unleased file changed: README.md." in said.context
    written = [one.type for one in list(shop.manager.events())[head:]]
    assert sorted(written) == [
        "damage", "damage_forgotten", "damage_to_be_told", "damage_to_be_told", "lock_released",
    ]  # fmt: skip
    assert bob.held() == ["lib/y.py"]


def test_a_command_that_left_nothing_behind_decides_nothing(
    shop: Shop, decisions: list[str]
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make -v")
    decisions.clear()
    bob.ended("make -v")
    assert decisions == []


def test_several_commands_whose_ends_were_not_reported_are_one_decision(
    shop: Shop, decisions: list[str]
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make one")
    bob.ask("make two")
    sh(shop.root, "echo half > app/x.py")
    decisions.clear()
    bob.settle()
    assert decisions == ["decided"]
    assert [one.data["command"] for one in shop.events("damage")] == ["make one", "make two"]
    decisions.clear()
    assert bob.pending().count("While your command ran") == 2
    assert ann.pending().count("While claude:bob ran") == 2
    assert decisions == ["decided", "decided"]  # one for each agent that gets a report


def test_a_change_that_is_no_longer_damage_is_not_recorded(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.write("app/z.py", "ann\n")
    bob.ask("make test")
    sh(shop.root, "echo a > app/x.py; echo a > app/z.py")
    (mine,) = [grant.id for grant in ann.grants() if "app/x.py" in grant.paths]
    transactions.release_each(shop.manager, [mine])
    bob.ended("make test")
    (found,) = shop.events(guard_records.DAMAGE)
    assert [file.path for file in Damage.of(found).files] == ["app/z.py"]
