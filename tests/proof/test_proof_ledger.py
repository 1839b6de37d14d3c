"""The ledger: numbers without gaps for any appenders, and readers that see only whole events."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import StoreCorruptError
from holdfast.proof import ProofEvent, ProofLedger, SequenceMismatch, make_proof
from holdfast.proof.proof_folder import Draft


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


@pytest.fixture
def ledger(root: Path) -> ProofLedger:
    return ProofLedger(root, sync=False, wait_seconds=1)


def foreign(root: Path, **fields: object) -> int:
    """Append as the protocol describes, without any code of ours."""
    folder = root / "ledger"
    lock = folder / "ledger.lock"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    number = sum(1 for _ in folder.glob("event-*.json")) + 1
    (folder / ".event-x.tmp").write_text(
        json.dumps({"type": "theirs", "timestamp": "2024-01-15T10:30:00Z", **fields})
    )
    (folder / ".event-x.tmp").rename(folder / f"event-{number:06d}.json")
    lock.unlink()
    return number


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["append", "right", "wrong", "batch", "foreign"])),
    max_size=30,
)


@settings(max_examples=100)
@given(steps=STEPS)
def test_any_interleaving_of_appenders_gives_all_numbers_without_gap(
    steps: list[tuple[int, str]],
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        make_proof(root)
        appenders = [ProofLedger(root, sync=False) for _ in range(4)]
        said: list[int] = []
        meant: list[int] = []
        for at, (who, what) in enumerate(steps):
            event, ours = {"type": "x", "at": at}, appenders[who]
            meant += [at] * {"wrong": 0, "batch": 3}.get(what, 1)
            if what == "append":
                said.append(ours.append(event))
            elif what == "right":
                said.append(ours.append_if_sequence(event, len(said)))
            elif what == "wrong":
                with pytest.raises(SequenceMismatch):
                    ours.append_if_sequence(event, len(said) + 1)
            elif what == "batch":
                said += ours.append_batch([event] * 3)
            else:
                said.append(foreign(root, at=at))
        assert said == list(range(1, len(said) + 1))
        for one in appenders:
            assert one.head == len(said)
            found = list(one.read())
            assert [event.sequence for event in found] == said
            assert [event.data["at"] for event in found] == meant
        assert sorted(path.name for path in root.glob("ledger/*")) == [
            f"event-{number:06d}.json" for number in said
        ]


@settings(max_examples=10)
@given(counts=st.lists(st.integers(1, 12), min_size=2, max_size=6))
def test_appenders_at_the_same_time_lose_and_double_nothing(counts: list[int]) -> None:
    with TemporaryDirectory() as folder:
        make_proof(folder)
        said: list[tuple[int, str]] = []

        def work(who: int, count: int) -> None:
            mine = ProofLedger(folder, sync=False)
            for at in range(count):
                said.append((mine.append({"type": "x", "id": f"{who}-{at}"}), f"{who}-{at}"))

        threads = [Thread(target=work, args=pair) for pair in enumerate(counts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        events = [(one.sequence, one.data["id"]) for one in ProofLedger(folder).read()]
        assert events == sorted(said)
        assert [number for number, _ in events] == list(range(1, sum(counts) + 1))


def test_the_timestamp_is_filled_in_and_a_given_one_is_kept(ledger: ProofLedger) -> None:
    ledger.append({"n": 1, "type": "x"})
    ledger.append({"type": "y", "timestamp": "2024-01-15T11:30:00.5+01:00"})
    first, second = ledger.read()
    assert list(first.data) == ["type", "timestamp", "n"]
    assert first.timestamp.endswith("Z")
    assert second == ProofEvent(2, {"type": "y", "timestamp": "2024-01-15T11:30:00.5+01:00"})


def test_a_batch_stands_in_a_row_or_not_at_all(ledger: ProofLedger) -> None:
    assert ledger.append_batch([{"type": "a"}, {"type": "b"}, {"type": "c"}]) == [1, 2, 3]
    with pytest.raises(SequenceMismatch):
        ledger.append_batch([{"type": "d"}, {"type": "e"}], if_sequence=2)
    assert ledger.append_batch([{"type": "d"}], if_sequence=3) == [4]
    assert ledger.append_batch([]) == []
    assert [one.type for one in ledger.read()] == list("abcd")


def test_a_reader_reads_only_what_is_new(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append_batch([{"type": "x"}] * 50)
    reader = ProofLedger(root)
    assert len(list(reader.read())) == 50
    assert reader.head == 50
    ledger.append({"type": "new"})
    looked: list[str] = []
    real = os.open

    def open_noted(path: str, *more: int) -> int:
        looked.append(path)
        return real(path, *more)

    monkeypatch.setattr(os, "open", open_noted)
    monkeypatch.setattr(os, "listdir", lambda path: pytest.fail("it listed the folder"))
    assert [one.type for one in reader.read(after=50)] == ["new"]
    assert reader.head == 51
    assert [Path(path).name for path in looked if "event-" in path] == [
        "event-000051.json", "event-000052.json",
    ]  # fmt: skip


def test_an_append_lists_nothing_and_looks_at_no_old_event(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append_batch([{"type": "x"}] * 20)
    fresh = ProofLedger(root, sync=False)  # like a command that has just started
    (root / ".holdfast-proof/seats").mkdir(exist_ok=True)
    seen: list[str] = []
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(
        os, "listdir", lambda path: [] if "seats" in str(path) else pytest.fail("listed")
    )
    monkeypatch.setattr(os, "lstat", lstat)
    assert fresh.append({"type": "x"}) == 21
    old = [path for path in seen if "event-" in path and path < str(root / "ledger/event-000020")]
    assert old == []


def test_a_number_taken_without_the_lock_is_left_alone(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, intruders = Draft.publish, iter([1, 2])

    def publish(self: Draft, sequence: int) -> bool:
        if next(intruders, None):
            (root / f"ledger/event-{sequence:06d}.json").write_text('{"type":"theirs"}')
        return real(self, sequence)

    monkeypatch.setattr(Draft, "publish", publish)
    assert ledger.append({"type": "ours"}) == 3
    assert [one.type for one in ledger.read()] == ["theirs", "theirs", "ours"]


def test_and_then_the_expected_number_is_no_longer_the_expected_one(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Draft.publish

    def publish(self: Draft, sequence: int) -> bool:
        (root / f"ledger/event-{sequence:06d}.json").write_text('{"type":"theirs"}')
        return real(self, sequence)

    monkeypatch.setattr(Draft, "publish", publish)
    with pytest.raises(SequenceMismatch):
        ledger.append_if_sequence({"type": "ours"}, 0)
    assert [one.type for one in ledger.read()] == ["theirs"]
    assert list(root.glob("ledger/.event-*")) == []


def test_a_process_that_loses_the_lock_and_its_event_appends_it_again(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program removed our lock as too old, and its rename replaced our event."""
    real, lock = Draft.publish, root / "ledger/ledger.lock"
    robbed: list[int] = []

    def publish(self: Draft, sequence: int) -> bool:
        done = real(self, sequence)
        if not robbed:
            robbed.append(sequence)
            lock.unlink()
            (root / "ledger/.event-theirs.tmp").write_text('{"type":"theirs"}')
            (root / "ledger/.event-theirs.tmp").rename(root / f"ledger/event-{sequence:06d}.json")
        return done

    monkeypatch.setattr(Draft, "publish", publish)
    assert ledger.append({"type": "ours"}) == 2
    assert [one.type for one in ledger.read()] == ["theirs", "ours"]


def test_a_process_that_loses_only_the_lock_appends_nothing_twice(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lock = Draft.publish, root / "ledger/ledger.lock"

    def publish(self: Draft, sequence: int) -> bool:
        done = real(self, sequence)
        lock.unlink()
        return done

    monkeypatch.setattr(Draft, "publish", publish)
    assert ledger.append({"type": "ours"}) == 1
    assert [one.type for one in ledger.read()] == ["ours"]


def test_a_gap_is_an_error_and_never_an_end(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x"}] * 9)
    for missing in (4, 5, 6):
        (root / f"ledger/event-{missing:06d}.json").unlink()
    read = ProofLedger(root).read()
    assert [next(read).sequence for _ in range(3)] == [1, 2, 3]
    with pytest.raises(StoreCorruptError, match=r"event-000004\.json is missing"):
        next(read)
    (root / ".holdfast-proof/chain").unlink()
    with pytest.raises(StoreCorruptError, match=r"event-000004\.json is missing"):
        ProofLedger(root).append({"type": "x"})
    assert not (root / "ledger/event-000004.json").exists()


def test_a_ledger_that_was_put_back_is_read_anew(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x"}] * 5)
    for path in sorted(root.glob("ledger/event-*"))[2:]:
        path.unlink()
    assert ledger.head == 2
    assert ledger.append({"type": "y"}) == 3


def test_our_folder_can_be_deleted_at_any_moment(root: Path, ledger: ProofLedger) -> None:
    import shutil

    for number in range(1, 5):
        assert ledger.append({"type": "x"}) == number
        shutil.rmtree(root / ".holdfast-proof")
    assert ProofLedger(root).head == 4


def test_waiting_ends_when_there_is_something_new(root: Path, ledger: ProofLedger) -> None:
    assert not ledger.wait(0, 0)
    thread = Thread(target=ProofLedger(root, sync=False).append, args=({"type": "x"},))
    thread.start()
    assert ledger.wait(0, 30)
    thread.join(60)


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in Linux's /proc")
def test_a_ledger_that_is_forgotten_leaves_no_file_open_and_no_seat(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        ProofLedger(root, sync=False).append({"type": "x"})
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(root.glob(".holdfast-proof/seats/*")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_seat_of_its_own(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "parent"})
    child = os.fork()
    if not child:
        try:
            ledger.append({"type": "child"})
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert ledger.append({"type": "parent"}) == 3
    assert [one.type for one in ledger.read()] == ["parent", "child", "parent"]
