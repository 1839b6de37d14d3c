"""Bad input and bad places: a clear error, and nothing lost or half done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError, StoreCorruptError
from holdfast.proof import (
    BadEventError,
    Claims,
    NoProofError,
    ProofLedger,
    make_proof,
    verify,
)
from holdfast.proof.dialects import proof_codec


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


@pytest.fixture
def ledger(root: Path) -> ProofLedger:
    return ProofLedger(root, sync=False)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_an_event_of_a_mebibyte_is_taken_and_one_byte_more_is_not(ledger: ProofLedger) -> None:
    frame = len('{"type":"x","timestamp":"2024-01-15T10:30:00Z","text":""}')
    event = {"type": "x", "timestamp": "2024-01-15T10:30:00Z", "text": "y" * ((1 << 20) - frame)}
    assert ledger.append(event) == 1
    assert os.path.getsize(ledger.folder.event(1)) == 1 << 20
    with pytest.raises(BadEventError, match="1,048,577 bytes"):
        ledger.append({**event, "text": event["text"] + "y"})
    (first,) = ledger.read()
    assert first.data == event


@pytest.mark.parametrize(
    "event",
    [
        {}, {"type": ""}, {"type": None}, {"type": 7}, {"type": "two words"}, {"type": "a\nb"},
        {"type": "x", "timestamp": "yesterday"}, {"type": "x", "timestamp": 7},
        {"type": "x", "timestamp": "2024-01-15T10:30:00"}, {"type": "x", "n": float("nan")},
        {"type": "x", "timestamp": "2024-02-30T10:30:00Z"}, {"type": "x", "n": float("inf")},
        {"type": "x", "n": object()}, {"type": "x", "n": b"bytes"}, {"type": "x", "n": "\ud800"},
        {"type": "x", "n": nested(200)}, ["type"], None, "x",
        {"type": "lock_acquired", "node_id": "1", "owner": "a"},
        {"type": "lock_released", "node_id": "../1", "owner": "a"},
        {"type": "lock_reaped", "node_id": "1", "owner": ""},
    ],
)  # fmt: skip
def test_an_invalid_event_is_refused_before_anything_is_written(
    root: Path, ledger: ProofLedger, event: Any
) -> None:
    with pytest.raises(BadEventError) as caught:
        ledger.append(event)
    assert caught.value.hint
    assert list(root.glob("ledger/*")) == list(root.glob("ledger/.*")) == []


def test_an_event_that_no_parser_could_read_is_refused_too(ledger: ProofLedger) -> None:
    with pytest.raises(BadEventError, match="nested more than 100 levels deep"):
        ledger.append({"type": "x", "n": nested(100_000)})


def test_one_bad_event_of_a_batch_refuses_all(root: Path, ledger: ProofLedger) -> None:
    with pytest.raises(BadEventError):
        ledger.append_batch([{"type": "x"}, {"type": ""}])
    assert list(root.glob("ledger/*")) == []


@pytest.mark.parametrize(
    "event",
    [
        {"type": "x", "n": nested(90)}, {"type": "x", "flat": [[]] * 5000},
        {"type": "日本語", "text": "\u2028 & < > \x00 \U0001f600"}, {"type": "x", "": ""},
        {"type": "x", "n": 10**300}, {"type": "x", "timestamp": "2024-01-15t10:30:00.123456789z"},
        {"type": "x", "timestamp": "2024-01-15T10:30:00-08:00"}, {"type": "unheard_of"},
    ],
)  # fmt: skip
def test_an_odd_but_valid_event_comes_back_unchanged(
    ledger: ProofLedger, event: dict[str, Any]
) -> None:
    ledger.append(event)
    (found,) = ledger.read()
    assert {name: found.data[name] for name in event} == event
    assert verify(ledger) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"), (b"null", "not a JSON object"), (b"[]", "not a JSON object"),
        (b"{}", "no type"), (b'{"type":7}', "no type"), (b'{"type":"x"', "only part of it"),
        (b"\xff\xfe{\x00", "not UTF-8"),
        (b'{"type":"x"}{', "only part of it"), (b'{"type":"x","n":NaN}', "NaN is not JSON"),
        (b'{"type":"x","n":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b"\x00" * 4096, "only part of it"), (b'{"type":"x"\n', "only part of it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_event_of_others_that_cannot_be_read_is_named(
    root: Path, ledger: ProofLedger, data: bytes, why: str
) -> None:
    ledger.append({"type": "x"})
    (root / "ledger/event-000002.json").write_bytes(data)
    with pytest.raises(StoreCorruptError, match=rf"event-000002\.json cannot be read: .*{why}"):
        list(ledger.read())
    with pytest.raises(StoreCorruptError):  # the claims are unknown
        Claims(ledger).claim("1", owner="a")
    assert [one.sequence for one in verify(ledger) if one.code == "broken"] == [2]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0), ("1969-12-31T16:00:00-0800", 0),
        ("1970-01-01 00:00:01z", proof_codec.SECOND), ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00.1234567891Z", 123456789),
        ("2016-12-31T23:59:60Z", 1483228800 * proof_codec.SECOND),
        ("1970-01-01", None), ("1970-13-01T00:00:00Z", None), ("1970-01-01T24:00:00Z", None),
        ("1970-01-01T00:00:61Z", None), ("1970-01-01T00:00:00+99:00", None), ("", None), (7, None),
        ("0001-01-01T00:00:00+23:59", None), ("١٩٧٠-01-01T00:00:00Z", None), (None, None),
    ],
)  # fmt: skip
def test_times_are_read_with_offsets_and_nanoseconds(text: object, moment: int | None) -> None:
    assert proof_codec.moment_of(text) == moment


def test_a_ledger_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.symlink(root / "ledger", other / "ledger")
    with pytest.raises(NoProofError, match="is a symbolic link"):
        ProofLedger(other)
    with pytest.raises(NoProofError, match="is a symbolic link"):
        make_proof(other)


def test_a_folder_without_a_proof_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/ledger").write_text("")
    for path in ("nowhere", "file", "odd", "", "nul\0"):
        with pytest.raises(NoProofError):
            ProofLedger(os.path.join(tmp_path, path))


def test_a_proof_that_is_there_is_completed_and_never_changed(root: Path) -> None:
    ProofLedger(root, sync=False).append({"type": "x"})
    make_proof(root, claim_files=True)
    assert ProofLedger(root).head == 1
    assert (root / "locks").is_dir()
    make_proof(root, timeout="5m")
    with pytest.raises(NoProofError, match="another timeout"):
        make_proof(root, timeout="6m")


def test_a_lock_that_is_a_link_to_elsewhere_is_respected_and_not_followed(root: Path) -> None:
    victim = root / "victim"
    victim.write_text("precious")
    os.symlink(victim, root / "ledger/ledger.lock")
    with pytest.raises(HoldfastError):
        ProofLedger(root, sync=False, wait_seconds=0.1).append({"type": "x"})
    assert victim.read_text() == "precious"


NOT_ROOT = """
import json, sys
from holdfast.core.errors import HoldfastError
from holdfast.proof import Claims, ProofLedger
ledger = ProofLedger(sys.argv[1], wait_seconds=1)
print(ledger.head, [one.type for one in ledger.read()], Claims(ledger).active())
try:
    ledger.append({"type": "x"})
except HoldfastError as error:
    print(error.code, error.message)
try:
    Claims(ledger).claim("1", owner="a")
except HoldfastError as error:
    print(error.code)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or (os.geteuid() == 0 and not shutil.which("setpriv")),
    reason="needs setpriv to be a user who may not write",
)
def test_a_folder_that_may_only_be_read_is_read_and_refuses_to_be_written(root: Path) -> None:
    ProofLedger(root, sync=False).append({"type": "x"})
    prefix = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
    for folder in (root, root / "ledger", root / ".holdfast-proof"):
        folder.chmod(0o555)
    try:
        done = subprocess.run(
            [*(prefix if os.geteuid() == 0 else []), sys.executable, "-c", NOT_ROOT, root],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        for folder in (root, root / "ledger", root / ".holdfast-proof"):
            folder.chmod(0o755)
    assert done.stderr == ""
    seen, append, claim = done.stdout.splitlines()
    assert seen == "1 ['x'] []"
    assert append.startswith("E_STORE_READONLY appending to the ledger failed: Permission denied")
    assert claim == "E_STORE_READONLY"
    assert sorted(path.name for path in (root / "ledger").iterdir()) == ["event-000001.json"]


FULL = """
import os, sys
from holdfast.core.errors import StoreFullError
from holdfast.proof import Claims, ProofLedger, make_proof, verify
make_proof("proof")
ledger, count = ProofLedger("proof"), 0
try:
    while count < 10_000:
        count = ledger.append({"type": "x", "text": "y" * 900})
except StoreFullError as error:
    print("full", error.hint)
else:
    sys.exit("it never was full")
assert ledger.head == count, (ledger.head, count)
assert not [name for name in os.listdir("proof/ledger") if not name.startswith("event-")]
for _ in range(20):
    try:
        Claims(ledger).claim("1", owner="a")
    except StoreFullError:
        pass
    else:
        break
assert [one.sequence for one in ledger.read()] == list(range(1, ledger.head + 1))
assert not [one for one in verify(ledger) if one.severity == "error"]
os.unlink("ballast")
left = os.path.exists("proof/ledger/ledger.lock")
print("room", ledger.append({"type": "y"}) == ledger.head, left)
assert not [one for one in verify(ledger) if one.severity == "error"]
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs root and unshare, to mount a small disk",
)
def test_a_full_disk_loses_nothing_and_leaves_no_lock(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=600k none "$1"; cd "$1"; head -c 100k /dev/zero >ballast; '
    script += 'exec "$2" -c "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, "sh", tmp_path, sys.executable, FULL],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("this system lets nobody mount anything")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "full free some space and try again; nothing was appended", "room True False",
    ]  # fmt: skip


def test_a_batch_that_breaks_off_says_how_far_it_came(
    ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: str, target: str) -> None:
        if target.endswith("event-000003.json"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(HoldfastError, match="only 2 of 4 events were appended") as caught:
        ledger.append_batch([{"type": "x"}] * 4)
    assert caught.value.fields["sequence"] == ledger.head == 2
    assert os.listdir(ledger.folder.ledger).count("ledger.lock") == 0


def test_a_ledger_that_went_away_is_said_to_be_gone(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    shutil.rmtree(root / "ledger")
    with pytest.raises(HoldfastError, match="No such file"):
        ledger.append({"type": "x"})


def test_every_user_who_may_append_may_use_our_folder(root: Path) -> None:
    (root / "ledger").chmod(0o2775)
    ProofLedger(root, sync=False).append({"type": "x"})
    for name in (".holdfast-proof", ".holdfast-proof/seats"):
        assert (root / name).stat().st_mode & 0o7777 == 0o2775


@pytest.mark.parametrize("junk", [b"\xff" * 8, b"x", b"\0" * 100])
def test_junk_in_our_folder_stops_no_process(root: Path, junk: bytes) -> None:
    ledger = ProofLedger(root, sync=False)
    ledger.append({"type": "x"})
    for name in ("line", "chain", "checkpoint", "seats/junk"):
        (root / ".holdfast-proof" / name).write_bytes(junk)
    (root / "ledger/ledger.lock").mkdir()
    with pytest.raises(HoldfastError, match="timeout waiting for lock"):
        ProofLedger(root, sync=False, wait_seconds=0.05).append({"type": "x"})
    (root / "ledger/ledger.lock").rmdir()
    assert ProofLedger(root, sync=False).append({"type": "x"}) == 2
    assert Claims(ledger).claim("1", owner="a").sequence == 3


def test_a_disk_that_cannot_sync_says_that_the_event_is_there(
    ledger: ProofLedger, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ProofLedger(root)
    monkeypatch.setattr(
        ledger.folder, "sync", lambda: (_ for _ in ()).throw(OSError(5, "Input/output error"))
    )
    with pytest.raises(HoldfastError, match="event 1 is appended") as caught:
        ledger.append({"type": "x"})
    assert "do not append it again" in caught.value.hint
    assert json.loads((root / "ledger/event-000001.json").read_text())["type"] == "x"
