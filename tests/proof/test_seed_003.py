"""Proof ledgers and claims: the promises 003-01 to 003-17, one by one."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from helpers_processes import Crowd, until
from helpers_proof import fight
from holdfast.core.errors import LockExpiredError, LockNotHeldError, LockTimeoutError
from holdfast.manager.clock import FakeClock
from holdfast.proof import (
    BadTimeoutError,
    Claims,
    LockBreakRefused,
    NodeAlreadyLocked,
    ProofLedger,
    SequenceMismatch,
    ledger_lock,
    make_proof,
    verify,
)
from holdfast.proof import event_ledger as ledger_module
from holdfast.proof.health.audit_finding import ERROR
from holdfast.proof.ledger_lock import WriteLock
from holdfast.proof.proof_folder import Draft

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux's /proc to prove that a process is gone"
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


@pytest.fixture
def ledger(root: Path, clock: FakeClock) -> ProofLedger:
    return ProofLedger(root, sync=False, clock=clock, wait_seconds=0.05)


@pytest.fixture
def claims(ledger: ProofLedger) -> Claims:
    return Claims(ledger)


def event(root: Path, sequence: int) -> dict[str, object]:
    found: dict[str, object] = json.loads((root / f"ledger/event-{sequence:06d}.json").read_text())
    return found


def put(root: Path, sequence: int, **fields: object) -> None:
    """An event as another program writes it."""
    path = root / f"ledger/event-{sequence:06d}.json"
    path.write_text(json.dumps({"timestamp": "2023-11-14T22:13:20Z", **fields}) + "\n")


# 01 to 04: the ledger's lock


def test_seed003_01_the_lock_is_a_json_file_with_who_and_since_when(
    root: Path, ledger: ProofLedger
) -> None:
    with ledger.locked():
        lock = root / "ledger/ledger.lock"
        fields = json.loads(lock.read_text())
        assert list(fields) == ["agent_id", "acquired_at"]
        assert str(os.getpid()) in fields["agent_id"]
        assert fields["acquired_at"] == "2023-11-14T22:13:20Z"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_seed003_01_making_it_is_exclusive(root: Path) -> None:
    inside: list[int] = []
    worst: list[int] = []
    start = Barrier(6)

    def work() -> None:
        mine = ProofLedger(root, sync=False)
        start.wait(60)
        for _ in range(20):
            with mine.locked():
                inside.append(1)
                worst.append(len(inside))
                time.sleep(0)
                inside.pop()

    threads = [Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(worst) == 120
    assert set(worst) == {1}


def test_seed003_01_a_lock_made_by_any_program_is_respected(
    root: Path, ledger: ProofLedger
) -> None:
    lock = root / "ledger/ledger.lock"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # not even its content
    with pytest.raises(LockTimeoutError):
        ledger.append({"type": "x"})
    lock.unlink()
    lock.mkdir()  # as a shell script makes it
    with pytest.raises(LockTimeoutError):
        ledger.append({"type": "x"})
    lock.rmdir()
    assert ledger.append({"type": "x"}) == 1


class Passing:
    """Replaces the module `time` for waiting code: time passes only while it pauses."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        #: What happens once, when this much time has passed.
        self.then: tuple[float, Callable[[], None]] | None = None

    def monotonic(self) -> float:
        return 1000 + self.seconds

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
        if self.then is not None and self.seconds >= self.then[0]:
            happens, self.then = self.then[1], None
            happens()


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    made = Passing()
    monkeypatch.setattr(ledger_lock, "time", made)
    return made


def test_seed003_02_the_defaults_are_10_ms_and_5_seconds(root: Path, passing: Passing) -> None:
    (root / "ledger/ledger.lock").mkdir()
    with pytest.raises(LockTimeoutError, match=r"^timeout waiting for lock"):
        ProofLedger(root).append({"type": "x"})
    assert 5 <= passing.seconds <= 5.010
    assert max(passing.pauses) <= 0.010
    assert min(passing.pauses[-100:]) >= 0.005, "who has waited for long does not try without pause"


def test_seed003_02_it_is_taken_soon_after_it_came_free(root: Path, passing: Passing) -> None:
    lock = root / "ledger/ledger.lock"
    lock.mkdir()
    passing.then = 4.9, lock.rmdir
    assert ProofLedger(root, sync=False).append({"type": "x"}) == 1
    assert 4.9 <= passing.seconds <= 4.910


@linux_only
def test_seed003_02_with_the_real_clock_it_takes_5_seconds_and_looks_every_10_ms(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = root / "ledger/ledger.lock"
    lock.mkdir()
    looks: list[float] = []
    real = os.path.lexists

    def lexists(path: str) -> bool:
        if path == str(lock):
            looks.append(time.monotonic())
        return real(path)

    monkeypatch.setattr(os.path, "lexists", lexists)
    began = time.monotonic()
    with pytest.raises(LockTimeoutError, match=r"^timeout waiting for lock"):
        ProofLedger(root).append({"type": "x"})
    took = time.monotonic() - began
    assert 5 <= took < 8
    pauses = sorted(after - before for before, after in pairwise(looks))
    assert 0.004 <= pauses[len(pauses) // 2] <= 0.015, "the middle of all pauses"
    assert len(looks) >= 250


def test_seed003_03_releasing_deletes_it(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    assert not (root / "ledger/ledger.lock").exists()
    with pytest.raises(SequenceMismatch):
        ledger.append_if_sequence({"type": "x"}, 7)
    assert not (root / "ledger/ledger.lock").exists()


def test_seed003_04_it_does_not_expire(root: Path, ledger: ProofLedger, clock: FakeClock) -> None:
    lock = root / "ledger/ledger.lock"
    lock.write_text('{"agent_id": "af", "acquired_at": "2001-01-01T00:00:00Z"}')
    os.utime(lock, (0, 0))
    clock.advance(365 * 86400)
    with pytest.raises(LockTimeoutError, match="'af' has"):
        ledger.append({"type": "x"})
    assert lock.exists()


HOLD = """
from holdfast.proof import ProofLedger
with ProofLedger(sys.argv[1]).locked():
    say("inside")
    go()
"""


@linux_only
def test_seed003_04_that_of_a_crashed_process_of_ours_is_recovered(
    root: Path, tmp_path: Path
) -> None:
    with Crowd(tmp_path) as crowd:
        holder = crowd.start(HOLD, root)
        holder.wait_for("inside")
        ours = ProofLedger(root, sync=False, wait_seconds=0.2)
        with pytest.raises(LockTimeoutError, match=f"process {holder.pid} of holdfast"):
            ours.append({"type": "x"})
        holder.kill()
        assert ours.append({"type": "x"}) == 1


def test_seed003_04_that_of_another_program_only_when_it_is_old_and_a_person_says_so(
    root: Path, ledger: ProofLedger
) -> None:
    lock = root / "ledger/ledger.lock"
    now = ledger.now()
    lock.write_text('{"agent_id": "af", "acquired_at": "2023-11-14T22:13:00Z"}')  # 20 s ago
    with pytest.raises(LockBreakRefused, match="for only 20 s"):
        ledger_lock.break_lock(ledger.folder, now)
    lock.write_text('{"agent_id": "af", "acquired_at": "2023-11-14T22:12:49Z"}')  # 31 s ago
    found = ledger_lock.break_lock(ledger.folder, now)
    assert found is not None
    assert found.agent == "af"
    assert ledger.append({"type": "x"}) == 1


def test_seed003_04_the_lock_of_a_living_process_is_not_broken(
    root: Path, ledger: ProofLedger, clock: FakeClock
) -> None:
    other = ProofLedger(root, sync=False, clock=clock)
    with other.locked():
        clock.advance(86400)
        with pytest.raises(LockBreakRefused, match="is not proven dead"):
            ledger_lock.break_lock(ledger.folder, ledger.now())
        assert (root / "ledger/ledger.lock").exists()


# 05 to 10: claims


def test_seed003_05_claims_are_events_with_exactly_their_fields(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    claims.claim("1.2.3", owner="agent-uuid-1234")
    claims.release("1.2.3", owner="agent-uuid-1234")
    claims.claim("1.2.3", owner="agent-uuid-1234")
    clock.advance(300)
    claims.reap()
    node = {"node_id": "1.2.3", "owner": "agent-uuid-1234"}
    assert event(root, 1) == {
        "type": "lock_acquired", "timestamp": "2023-11-14T22:13:20Z", **node,
        "expires_at": "2023-11-14T22:18:20Z",
    }  # fmt: skip
    assert event(root, 2) == {
        "type": "lock_released", "timestamp": "2023-11-14T22:13:20Z", **node
    }  # fmt: skip
    assert event(root, 4) == {
        "type": "lock_reaped", "timestamp": "2023-11-14T22:18:20Z", **node
    }  # fmt: skip
    assert list(event(root, 1)) == ["type", "timestamp", "node_id", "owner", "expires_at"]


@pytest.mark.parametrize(
    ("meta", "seconds"),
    [
        ('{"lock_timeout": "5m"}', 300), ('{"lock_timeout": "1s"}', 1),
        ('{"lock_timeout": "1h"}', 3600), ('{"lock_timeout": "1m30s"}', 90),
        ('{"lock_timeout": "1.5m"}', 90), ("{}", 300),
        ('{"title": "a proof"}', 300), (None, 300),
    ],
)  # fmt: skip
def test_seed003_06_the_timeout_of_claims_comes_from_meta_json(
    root: Path, claims: Claims, meta: str | None, seconds: int
) -> None:
    (root / "meta.json").unlink()
    if meta is not None:
        (root / "meta.json").write_text(meta)
    made = claims.claim("1", owner="a")
    assert made.expires_at is not None
    assert made.acquired_at is not None
    assert made.expires_at - made.acquired_at == seconds * 10**9


@pytest.mark.parametrize(
    "timeout", ["0s", "999ms", "1h1s", "61m", "2h", "-5m", "5", "m", "", "5 m", "nan", "1e3s"]
)
def test_seed003_06_it_lies_between_a_second_and_an_hour(
    root: Path, claims: Claims, timeout: str
) -> None:
    with pytest.raises(BadTimeoutError):
        claims.claim("1", owner="a", timeout=timeout)
    (root / "meta.json").write_text(json.dumps({"lock_timeout": timeout}))
    with pytest.raises(BadTimeoutError, match=r"lock_timeout in meta\.json"):
        claims.claim("1", owner="a")
    assert list(root.glob("ledger/*")) == []


def test_seed003_06_a_meta_json_that_cannot_be_read_is_no_default(
    root: Path, claims: Claims
) -> None:
    for text in ("", "[]", "{", '{"lock_timeout": 300}', '{"lock_timeout": null}'):
        (root / "meta.json").write_text(text)
        with pytest.raises(BadTimeoutError):
            claims.claim("1", owner="a")


def test_seed003_07_the_state_is_the_replay_of_the_events(root: Path, claims: Claims) -> None:
    late = "2099-01-01T00:00:00Z"
    put(root, 1, type="lock_acquired", node_id="1", owner="a", expires_at=late)
    put(root, 2, type="lock_acquired", node_id="1.1", owner="a", expires_at=late)
    put(root, 3, type="node_created", node_id="1.2")
    put(root, 4, type="lock_released", node_id="1", owner="a")
    put(root, 5, type="lock_acquired", node_id="1", owner="b", expires_at=late)
    put(root, 6, type="lock_acquired", node_id="1.3", owner="c", expires_at=late)
    put(root, 7, type="lock_reaped", node_id="1.3", owner="c")
    put(root, 8, type="lock_acquired", node_id="1.1", owner="d", expires_at=late)
    assert [(one.node, one.owner) for one in claims.active()] == [("1", "b"), ("1.1", "d")]


def test_seed003_07_expired_ones_are_filtered(root: Path, claims: Claims, clock: FakeClock) -> None:
    claims.claim("1", owner="a", timeout="10s")
    clock.advance(9.999999)
    assert [one.owner for one in claims.active()] == ["a"]
    clock.advance(0.000001)  # expires_at == now: it has expired
    assert claims.active() == []
    assert claims.get("1") is None


def test_seed003_08_claim_files_have_nanoseconds(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    (root / "locks").mkdir()
    clock.advance(0.123456)
    claims.claim("1.2.3", owner="agent-uuid-1234")
    fields = json.loads((root / "locks/1.2.3.lock").read_text())
    assert fields == {
        "node_id": "1.2.3", "owner": "agent-uuid-1234",
        "acquired_at": "2023-11-14T22:13:20.123456000Z",
        "expires_at": "2023-11-14T22:18:20.123456000Z",
    }  # fmt: skip
    assert list(fields) == ["node_id", "owner", "acquired_at", "expires_at"]
    claims.release("1.2.3", owner="agent-uuid-1234")
    assert list(root.glob("locks/*")) == []


def claim_file(root: Path, node: str, owner: str, until: str) -> Path:
    """A claim that another program keeps only in a file."""
    (root / "locks").mkdir(exist_ok=True)
    path = root / f"locks/{node}.lock"
    path.write_text(json.dumps({
        "node_id": node, "owner": owner, "acquired_at": "2020-01-15T10:30:00.123456789Z",
        "expires_at": until,
    }))  # fmt: skip
    return path


def test_seed003_08_they_are_optional_and_the_ledger_is_the_truth_about_its_own(
    root: Path, claims: Claims
) -> None:
    claims.claim("1", owner="a")
    assert not (root / "locks").exists()
    (root / "locks").mkdir()
    claims.claim("2", owner="a")
    (root / "locks/2.lock").unlink()
    assert [one.node for one in claims.active()] == ["1", "2"]


def test_seed003_09_stale_claims_are_removed_and_recorded(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    (root / "locks").mkdir()
    claims.claim("1", owner="a", timeout="1s")
    claims.claim("2", owner="b", timeout="1m")
    clock.advance(1)
    assert [one.node for one in claims.reap(dry_run=True)] == ["1"]
    assert len(list(root.glob("ledger/event-*"))) == 2
    assert [(one.node, one.owner) for one in claims.reap()] == [("1", "a")]
    assert event(root, 3)["type"] == "lock_reaped"
    assert event(root, 3)["owner"] == "a"
    assert [path.name for path in root.glob("locks/*")] == ["2.lock"]
    assert claims.reap() == []


OVER = "2020-01-15T10:35:00.123456789Z"


def test_seed003_09_a_stale_file_that_the_ledger_does_not_know_is_recorded_too(
    root: Path, claims: Claims
) -> None:
    claim_file(root, "1.4", "old", OVER)
    assert [(one.node, one.owner) for one in claims.reap()] == [("1.4", "old")]
    assert list(root.glob("locks/*")) == []
    told = event(root, 1)
    assert (told["type"], told["node_id"], told["owner"]) == ("lock_reaped", "1.4", "old")
    assert [one for one in verify(ProofLedger(root)) if one.sequence] == []
    assert claims.reap() == []


def test_seed003_09_a_stale_file_never_ends_the_claim_of_a_successor(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    """An event about it would. So the file stays until the successor's claim has ended, and is
    then removed, with an event."""
    claims.claim("1", owner="new", timeout="10s")
    claim_file(root, "1", "old", OVER)
    claims.claim("2", owner="new")
    assert claims.reap() == []
    assert claims.get("1") is not None
    assert sorted(path.name for path in root.glob("locks/*")) == ["1.lock", "2.lock"]
    clock.advance(10)
    assert [(one.node, one.owner) for one in claims.reap()] == [("1", "new"), ("1", "old")]
    assert [path.name for path in root.glob("locks/*")] == ["2.lock"]


def test_seed003_09_a_claim_reaps_what_is_stale_in_the_same_step(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    claim_file(root, "1", "old", OVER)
    claims.claim("1", owner="a", timeout="1s")
    claims.claim("2", owner="b", timeout="1m")
    clock.advance(1)
    made = claims.claim("1", owner="c")
    told = [
        (event(root, at)["type"], event(root, at)["owner"]) for at in range(1, made.sequence + 1)
    ]
    assert told == [
        ("lock_reaped", "old"), ("lock_acquired", "a"), ("lock_acquired", "b"),
        ("lock_reaped", "a"), ("lock_acquired", "c"),
    ]  # fmt: skip
    assert claims.reap() == []
    assert sorted(path.name for path in root.glob("locks/*")) == ["1.lock", "2.lock"]


@linux_only
def test_seed003_09_a_command_that_follows_the_events_reaps_from_time_to_time(
    root: Path, tmp_path: Path
) -> None:
    ledger = ProofLedger(root, sync=False)
    Claims(ledger).claim("1", owner="a", timeout="1s")
    follow = """
from holdfast.cli import main, proof_commands
proof_commands._REAP_SECONDS = 0.2
sys.exit(main(["-C", sys.argv[1], "proof", "events", "--follow"]))
"""
    with Crowd(tmp_path) as crowd:
        crowd.start(follow, root)
        until(lambda: ledger.head == 2, "the claim is reaped")
    assert event(root, 2)["type"] == "lock_reaped"
    assert event(root, 2)["owner"] == "a"


def test_seed003_10_a_claimed_node_is_refused(claims: Claims) -> None:
    claims.claim("1.2", owner="a")
    with pytest.raises(NodeAlreadyLocked, match=r"^node already locked") as caught:
        claims.claim("1.2", owner="b")
    assert caught.value.fields["owner"] == "a"
    with pytest.raises(NodeAlreadyLocked, match=r"^node already locked"):
        claims.claim("1.2", owner="a")  # two workers may have been given one name


# 11 to 15: appending and reading


def test_seed003_11_append_at_the_expected_number_only(ledger: ProofLedger) -> None:
    assert ledger.append_if_sequence({"type": "x"}, 0) == 1
    assert ledger.append_if_sequence({"type": "x"}, 1) == 2
    for wrong in (0, 1, 3):
        with pytest.raises(SequenceMismatch, match="ErrSequenceMismatch") as caught:
            ledger.append_if_sequence({"type": "x"}, wrong)
        assert caught.value.fields == {"expected": wrong, "actual": 2}
    assert ledger.head == 2


def test_seed003_11_of_many_with_one_number_exactly_one_gets_it(root: Path) -> None:
    start, won, lost = Barrier(8), [], []

    def race(number: int) -> None:
        mine = ProofLedger(root, sync=False)
        start.wait(60)
        try:
            won.append(mine.append_if_sequence({"type": "x", "by": number}, 0))
        except SequenceMismatch:
            lost.append(number)

    threads = [Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (won, len(lost)) == ([1], 7)


def test_seed003_12_event_files_are_padded_to_six_digits(root: Path, ledger: ProofLedger) -> None:
    for _ in range(12):
        ledger.append({"type": "x"})
    names = sorted(path.name for path in root.glob("ledger/*"))
    assert names == [f"event-{number:06d}.json" for number in range(1, 13)]


def test_seed003_12_they_still_sort_past_999999(root: Path, clock: FakeClock) -> None:
    put(root, 999_999, type="x")
    (root / ".holdfast-proof").mkdir()
    with open(root / ".holdfast-proof/chain", "wb") as chain:
        chain.truncate(999_999 * 32)  # this many have been seen
    ledger = ProofLedger(root, sync=False, clock=clock)
    assert [ledger.append({"type": "x"}) for _ in range(2)] == [1_000_000, 1_000_001]
    assert (root / "ledger/event-1000000.json").exists()
    assert [one.sequence for one in ledger.read(after=999_998)] == [999_999, 1_000_000, 1_000_001]
    assert ProofLedger(root).head == 1_000_001
    assert ledger.folder.sequences() == [999_999, 1_000_000, 1_000_001]


def test_seed003_13_an_event_is_written_aside_synced_and_published_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        done.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        real_fsync(descriptor)

    def link(source: str, target: str) -> None:
        done.append(f"link {Path(source).name} {Path(target).name}")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    ProofLedger(root).append({"type": "x"})
    draft = done[0].removeprefix("fsync ")
    assert draft.startswith(".event-")
    assert draft.endswith(".tmp")
    assert [one for one in done if "ledger.lock" not in one] == [
        f"fsync {draft}", f"link {draft} event-000001.json", "fsync ledger",
    ]  # fmt: skip
    assert [path.name for path in root.glob("ledger/.*")] == []


def test_seed003_13_it_never_replaces_an_event(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append({"type": "x"})
    put(root, 2, type="theirs")  # by a program without the lock
    real = Draft.publish

    def publish(self: Draft, sequence: int) -> bool:
        if sequence == 3:  # and once more, after we have checked
            put(root, 3, type="theirs")
        return real(self, sequence)

    monkeypatch.setattr(Draft, "publish", publish)
    assert ledger.append({"type": "ours"}) == 4
    assert [event(root, number)["type"] for number in (2, 3, 4)] == ["theirs", "theirs", "ours"]


def test_seed003_14_readers_need_no_lock(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    (root / "ledger/ledger.lock").mkdir()
    reader = ProofLedger(root)
    assert [one.type for one in reader.read()] == ["x"]
    assert reader.head == 1
    assert Claims(reader).active() == []


def test_seed003_14_and_leave_nothing_behind(root: Path, ledger: ProofLedger) -> None:
    put(root, 1, type="x")
    assert len(list(ledger.read())) == ledger.head == 1
    assert sorted(path.name for path in root.iterdir()) == ["ledger", "meta.json"]


def test_seed003_15_a_writer_that_meets_a_mismatch_looks_again_and_succeeds(root: Path) -> None:
    def work(number: int) -> None:
        mine = ProofLedger(root, sync=False)
        for _ in range(5):
            while True:
                head = sum(1 for _ in mine.read())
                try:
                    mine.append_if_sequence({"type": "x", "after": head}, head)
                    break
                except SequenceMismatch:
                    continue

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    events = list(ProofLedger(root).read())
    assert [one.data["after"] for one in events] == list(range(20))


def test_seed003_15_it_compares_and_appends_under_the_lock_and_releases_it(
    root: Path, ledger: ProofLedger, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, rival = root / "ledger/ledger.lock", ProofLedger(root, sync=False, clock=clock)
    real_acquire, real_publish = WriteLock.acquire, Draft.publish
    published: list[tuple[int, bool]] = []

    def acquire(self: WriteLock) -> None:
        monkeypatch.setattr(WriteLock, "acquire", real_acquire)
        rival.append({"type": "theirs"})  # we have checked, and now wait for the lock
        real_acquire(self)

    def publish(self: Draft, sequence: int) -> bool:
        published.append((sequence, lock.exists()))
        return real_publish(self, sequence)

    monkeypatch.setattr(WriteLock, "acquire", acquire)
    monkeypatch.setattr(Draft, "publish", publish)
    with pytest.raises(SequenceMismatch):
        ledger.append_if_sequence({"type": "ours"}, 0)
    assert not lock.exists()
    assert ledger.append_if_sequence({"type": "ours"}, 1) == 2
    assert published == [(1, True), (2, True)]
    names = sorted(path.name for path in root.glob("ledger/*"))
    assert names == ["event-000001.json", "event-000002.json"]


def test_seed003_15_retries_after_a_mismatch_pause_longer_each_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, rival = ProofLedger(root, sync=False), ProofLedger(root, sync=False)
    passing = Passing()
    monkeypatch.setattr(ledger_module, "time", passing)
    decided: list[int] = []

    def decide(head: int) -> dict[str, object]:
        decided.append(head)
        if len(decided) <= 8:
            rival.append({"type": "theirs"})  # after our check
        return {"type": "ours", "after": head}

    assert ledger.append_decided(decide) == 9
    assert event(root, 9)["after"] == 8
    assert decided == list(range(9))
    grown = [pause for pause in passing.pauses if pause]
    assert len(grown) == 8
    assert all(after > before for before, after in pairwise(grown))
    assert grown[-1] > 50 * grown[0]
    assert ledger.append_decided(lambda head: None) is None


def test_seed003_15_retries_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, rival = ProofLedger(root, sync=False), ProofLedger(root, sync=False)
    passing = Passing()
    monkeypatch.setattr(ledger_module, "time", passing)

    def decide(head: int) -> dict[str, object]:
        rival.append({"type": "theirs"})
        return {"type": "ours"}

    with pytest.raises(SequenceMismatch):
        ledger.append_decided(decide)
    assert max(passing.pauses) <= 0.5
    assert {one.type for one in ledger.read()} == {"theirs"}


# 16 and 17: the guarantees


def test_seed003_16_only_the_owner_refreshes_and_releases(claims: Claims) -> None:
    claims.claim("1", owner="a")
    for change in (claims.refresh, claims.release):
        with pytest.raises(LockNotHeldError, match="a has it"):
            change("1", owner="b")
        with pytest.raises(LockNotHeldError, match="it is free"):
            change("2", owner="b")
    assert claims.get("1") is not None


def test_seed003_16_a_late_release_frees_no_successor(claims: Claims, clock: FakeClock) -> None:
    claims.claim("1", owner="a", timeout="1s")
    clock.advance(2)
    claims.claim("1", owner="b")
    for change in (claims.refresh, claims.release):
        with pytest.raises(LockNotHeldError):
            change("1", owner="a")
    found = claims.get("1")
    assert found is not None
    assert found.owner == "b"


def test_seed003_16_an_expired_claim_is_usable_by_nobody(claims: Claims, clock: FakeClock) -> None:
    claims.claim("1", owner="a", timeout="1s")
    clock.advance(1)
    for change in (claims.refresh, claims.release):
        with pytest.raises(LockExpiredError):
            change("1", owner="a")
    assert claims.claim("1", owner="b").owner == "b"


def test_seed003_16_a_refresh_is_a_new_lock_acquired_by_the_same_owner(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    claims.claim("1", owner="a", timeout="10s")
    clock.advance(8)
    again = claims.refresh("1", owner="a", timeout="10s")
    assert (again.sequence, event(root, 2)["type"]) == (2, "lock_acquired")
    clock.advance(8)
    assert claims.get("1") == again


def test_seed003_16_the_file_of_anothers_claim_refuses_and_is_not_written_over(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    file = claim_file(root, "2", "ghost", "2023-11-14T22:14:20Z")  # in a minute
    before = file.read_bytes()
    with pytest.raises(NodeAlreadyLocked, match="ghost has 2") as caught:
        claims.claim("2", owner="a")
    assert "locks/2.lock" in caught.value.hint
    with pytest.raises(NodeAlreadyLocked, match="ghost has 2"):
        claims.append({"type": "note", "node_id": "2"}, owner="a")
    assert claims.reap() == []
    assert file.read_bytes() == before
    assert list(root.glob("ledger/*")) == []
    clock.advance(64)  # its clock may differ by five seconds
    with pytest.raises(NodeAlreadyLocked):
        claims.claim("2", owner="a")
    clock.advance(2)
    assert claims.claim("2", owner="a").sequence == 2
    assert event(root, 1)["owner"] == "ghost"
    assert json.loads(file.read_text())["owner"] == "a"


def test_seed003_16_a_file_that_a_crash_left_behind_is_not_taken_for_anothers(
    root: Path, claims: Claims
) -> None:
    (root / "locks").mkdir()
    claims.claim("1", owner="a")
    kept = (root / "locks/1.lock").read_bytes()
    claims.release("1", owner="a")
    (root / "locks/1.lock").write_bytes(
        kept
    )  # as left by a process that died before it could remove it
    assert claims.claim("1", owner="b").owner == "b"
    claims.release("1", owner="b")
    (root / "locks/1.lock").write_bytes(kept)
    assert [one.owner for one in claims.reap()] == []


@pytest.mark.parametrize("fields", [
    {"node_id": "1.2"}, {"node_ids": ["1.1", "1.2"]}, {"node": "1.2"}, {"node": {"id": "1.2"}},
])  # fmt: skip
def test_seed003_16_a_node_that_another_has_claimed_is_not_changed(
    root: Path, claims: Claims, clock: FakeClock, fields: dict[str, object]
) -> None:
    claims.claim("1.2", owner="a", timeout="10s")
    with pytest.raises(NodeAlreadyLocked, match=r"a has 1\.2"):
        claims.append({"type": "node_closed", **fields}, owner="b")
    assert claims.append({"type": "node_closed", **fields}, owner="a") == 2
    assert claims.append({"type": "node_closed", "node_id": "1.2.1"}, owner="b") == 3
    assert claims.append({"type": "node_closed", **fields}, owner="b", force=True) == 4
    clock.advance(10)
    assert claims.append({"type": "node_closed", **fields}, owner="b") == 5


def test_seed003_16_nor_one_that_was_claimed_while_the_lock_was_waited_for(
    root: Path, ledger: ProofLedger, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, rival = Claims(ledger), Claims(ProofLedger(root, sync=False, clock=clock))
    real = WriteLock.acquire

    def acquire(self: WriteLock) -> None:
        if self is ledger._lock:
            monkeypatch.setattr(WriteLock, "acquire", real)
            rival.claim("1", owner="b")
        real(self)

    monkeypatch.setattr(WriteLock, "acquire", acquire)
    with pytest.raises(NodeAlreadyLocked, match="b has 1"):
        mine.append({"type": "node_closed", "node_id": "1"}, owner="a")
    assert ledger.head == 1


def test_seed003_17_only_one_of_many_gets_a_node(root: Path) -> None:
    start, won = Barrier(8), []

    def race(number: int) -> None:
        mine = Claims(ProofLedger(root, sync=False))
        start.wait(60)
        try:
            won.append(mine.claim("1.1", owner=f"agent-{number}").owner)
        except NodeAlreadyLocked:
            pass

    threads = [Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    assert [one.owner for one in Claims(ProofLedger(root)).active()] == won


def test_seed003_17_claims_of_different_nodes_never_conflict(root: Path) -> None:
    start, won, refused = Barrier(8), [], []

    def race(number: int) -> None:
        mine = Claims(ProofLedger(root, sync=False))
        start.wait(60)
        for step in range(1, 6):
            try:
                won.append(mine.claim(f"{number}.{step}", owner=f"agent-{number}").node)
            except (NodeAlreadyLocked, SequenceMismatch) as error:
                refused.append(error)

    threads = [Thread(target=race, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert refused == []
    assert len(set(won)) == 40


@linux_only
def test_seed003_17_serial_writes_nothing_lost_and_safe_after_crashes(tmp_path: Path) -> None:
    ring = fight(tmp_path, ours=2, shells=1, plains=1, seconds=2, between=0.4)
    assert ring.killed


#: An append changes the disk only by these calls.
STEPS = ("open", "write", "ftruncate", "fsync", "link", "unlink")


def _appended_by_one_who_is_killed(root: Path, step: int) -> bool:
    """Append in a process that is killed at some step, in the middle of a write; False if it ended
    before that."""
    child = os.fork()
    if not child:
        left = step

        def dying(name: str) -> Callable[..., Any]:
            real = getattr(os, name)

            def call(*words: Any, **more: Any) -> Any:
                nonlocal left
                left -= 1
                if not left:
                    if name == "write":
                        real(words[0], words[1][: len(words[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words, **more)

            return call

        try:
            for name in STEPS:
                setattr(os, name, dying(name))
            ProofLedger(root).append({"type": "killed"})
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@linux_only
def test_seed003_17_a_writer_that_is_killed_at_any_step_leaves_whole_events(root: Path) -> None:
    ledger, step, length = ProofLedger(root, sync=False), 1, 0
    while _appended_by_one_who_is_killed(root, step):
        assert ledger.append({"type": "next"}) in (length + 1, length + 2)
        length, step = ledger.head, step + 1
        assert [one.sequence for one in ledger.read()] == list(range(1, length + 1))
    assert step > 10
    assert [one for one in verify(ledger) if one.severity == ERROR] == []
    killed = [one for one in ledger.read() if one.type == "killed"]
    assert 1 < len(killed) < step, "some were killed before their event was there, some after"


@linux_only
def test_seed003_17_fair_among_ours_in_the_order_of_arrival(root: Path, tmp_path: Path) -> None:
    text = """
from threading import Thread
from holdfast.proof import ProofLedger

def append(number):
    ledger = ProofLedger(sys.argv[1], sync=False, wait_seconds=30)
    ledger.append({"type": "x", "by": number})

threads = []
say("ready")
for _ in range(4):
    threads.append(Thread(target=append, args=(int(go()),)))
    threads[-1].start()
for thread in threads:
    thread.join()
"""
    lock = root / "ledger/ledger.lock"
    with Crowd(tmp_path) as crowd:
        children = [crowd.start(text, root) for _ in range(2)]
        lock.mkdir()
        for child in children:
            child.wait_for("ready")
        for number in range(8):
            children[number % 2].tell(str(number))
            _until_in_line(root, number + 1)
        lock.rmdir()
        for child in children:
            child.done()
    assert [one.data["by"] for one in ProofLedger(root).read()] == list(range(8))


def _until_in_line(root: Path, places: int) -> None:
    line = root / ".holdfast-proof/line"
    until(
        lambda: line.exists() and int.from_bytes(line.read_bytes()[:8], "little") >= places,
        f"{places} stand in line",
    )


def test_seed003_09_a_file_that_was_left_two_claims_ago_is_not_recorded_once_more(
    root: Path, ledger: ProofLedger, clock: FakeClock
) -> None:
    """Its owner was killed before it could remove it, and so was the next one before it wrote."""
    (root / "locks").mkdir(exist_ok=True)
    claims = Claims(ledger)
    claims.claim("1.2", owner="ann")
    file = root / "locks/1.2.lock"
    text = file.read_bytes()
    claims.release("1.2", owner="ann")
    claims.claim("1.2", owner="bob")
    claims.release("1.2", owner="bob")
    file.write_bytes(text)
    assert claims.claim("1.2", owner="cid").owner == "cid"  # nor does it keep other owners out
    claims.release("1.2", owner="cid")
    file.write_bytes(text)
    clock.advance(3600)
    before = len(list(root.glob("ledger/event-*.json")))
    assert Claims(ledger).reap() == []
    assert not file.exists()
    assert len(list(root.glob("ledger/event-*.json"))) == before
