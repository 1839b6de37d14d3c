"""The commands `holdfast proof …`, as people and programs use them."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import Answer, Repository, Terminal, wait_for_file
from helpers_processes import LINUX_ONLY, until
from holdfast.cli import main
from holdfast.proof import ProofLedger, make_proof

pytestmark = LINUX_ONLY


class Proof:
    """A proof in a repository, and the command in it."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.root = repository.root / "proofs/sqrt2"
        assert self.hold("init", self.root, cwd=repository.root).code == 0

    def hold(self, *words: object, cwd: Path | None = None, **more: Any) -> Answer:
        return self.repository.hold("proof", *words, cwd=cwd or self.root, **more)


@pytest.fixture
def proof(tmp_path: Path) -> Proof:
    return Proof(Repository(tmp_path / "repository"))


def test_init_makes_a_proof_and_completes_one(proof: Proof) -> None:
    assert json.loads((proof.root / "meta.json").read_text()) == {"lock_timeout": "5m"}
    assert proof.hold("append", "x").code == 0
    again = proof.hold("init", ".", "--locks", "--json")
    assert again.json == {"proof": str(proof.root), "head": 1, "lock_timeout_seconds": 300}
    assert (proof.root / "locks").is_dir()
    other = proof.hold("init", "other", "--timeout", "90s", "--json")
    assert other.json["lock_timeout_seconds"] == 90
    assert proof.hold("init", "third", "--timeout", "2h", "--json").error["code"] == "E_BAD_TIMEOUT"
    assert not (proof.root / "third").exists()


def test_append_says_the_number_and_events_shows_them(proof: Proof) -> None:
    assert proof.hold("append", "node_created", "--data", '{"node_id": "1"}').out == "1\n"
    piped = os.pipe()
    os.write(piped[1], b'{"text": "from a pipe\\u001b[31m"}')
    os.close(piped[1])
    done = proof.hold("append", "note", "--data", "-", "--json", stdin=piped[0])
    assert done.json == {"sequence": 2, "file": "event-000002.json"}
    os.close(piped[0])
    shown = proof.hold("events").out.splitlines()
    assert [line.split()[0] for line in shown] == ["1", "2"]
    assert "node_created  node_id=1" in shown[0]
    assert "\x1b" not in shown[1]
    lines = [json.loads(line) for line in proof.hold("events", "--json").out.splitlines()]
    assert [(one["sequence"], one["event"]["type"]) for one in lines] == [
        (1, "node_created"), (2, "note"),
    ]  # fmt: skip
    assert len(proof.hold("events", "--after", 1).out.splitlines()) == 1


def test_events_can_be_the_last_ones_and_newest_first(proof: Proof) -> None:
    for number in range(1, 6):
        proof.hold("append", f"e{number}")

    def shown(*words: object) -> list[str]:
        lines = proof.hold("events", *words).out.splitlines()
        return [line.split()[2] for line in lines]

    assert shown("-n", 2) == ["e4", "e5"]
    assert shown("--number", 9) == ["e1", "e2", "e3", "e4", "e5"]
    assert shown("--reverse", "-n", 3) == ["e5", "e4", "e3"]
    assert shown("--after", 3, "-n", 4, "-r") == ["e5", "e4"]
    assert shown("-n", 0) == []
    assert proof.hold("events", "--follow", "--reverse").code == 2


def test_agents_tells_who_did_what(proof: Proof) -> None:
    assert proof.hold("agents").out == "no node has ever been claimed\n"
    for words in (
        ("claim", "1.10", "--owner", "ann"), ("claim", "1.2", "--owner", "ann"),
        ("claim", "2", "--owner", "bob"), ("refresh", "1.2", "--owner", "ann"),
        ("release", "2", "--owner", "bob"),
    ):  # fmt: skip
        assert proof.hold(*words).code == 0
    proof.hold("claim", "3", "--owner", "carl", "--timeout", "1s")
    time.sleep(1.05)
    assert proof.hold("reap").code == 0
    ann, bob, carl = proof.hold("agents", "--json").json["agents"]
    counts = ("claimed", "refreshed", "released", "expired")
    assert (ann["owner"], ann["nodes"]) == ("ann", ["1.2", "1.10"])
    assert [ann[one] for one in counts] == [2, 1, 0, 0]
    assert [bob[one] for one in counts] == [1, 0, 1, 0]
    assert [carl[one] for one in counts] == [1, 0, 0, 1]
    assert (bob["nodes"], carl["nodes"]) == ([], [])
    assert "1.2 1.10" in proof.hold("agents").out


def test_an_event_about_a_claimed_node_needs_its_owner_or_force_by_a_person(proof: Proof) -> None:
    data = ("--data", '{"node_id": "1.1"}')
    assert proof.hold("claim", "1.1", "--owner", "ann").code == 0
    refused = proof.hold("append", "node_closed", *data, "--owner", "bob", "--json")
    assert (refused.code, refused.error["code"]) == (3, "E_NODE_LOCKED")
    agent = proof.hold("append", "node_closed", *data, "--force", env={"HOLDFAST_HOLDER": "bob"})
    assert agent.code == 2
    assert proof.hold("append", "node_closed", *data, "--owner", "ann").out == "2\n"
    assert proof.hold("append", "note", "--owner", "bob").out == "3\n"
    terminal = Terminal(proof.repository)
    try:
        words = ("append", "x", "--data", shlex.quote(data[1]), "--force")
        forced = terminal.hold("proof", "-C", str(proof.root), *words)
        assert (forced.code, forced.out) == (0, "4\n")
    finally:
        terminal.close()


def test_append_if_sequence_is_refused_with_3(proof: Proof) -> None:
    assert proof.hold("append", "x", "--if-sequence", 0).code == 0
    refused = proof.hold("append", "x", "--if-sequence", 0, "--json")
    assert refused.code == 3
    assert refused.error["code"] == "E_SEQUENCE_MISMATCH"
    assert (refused.error["expected"], refused.error["actual"]) == (0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("append",), ("append", "a", "b"), ("append", ""), ("append", "x", "--data", "{"),
        ("append", "x", "--data", "[]"), ("append", "x", "--data", '{"type": "y"}'),
        ("append", "x", "--data", '{"timestamp": "noon"}'), ("append", "x", "--if-sequence", "-1"),
        ("append", "lock_acquired", "--data", '{"node_id": "1"}'), ("append", "lock_released"),
        ("append", "x", "--data", "[" * 100_000), ("claim",), ("claim", "1", "2"), ("claim", "x"),
        ("claim", "1", "--timeout", "2h"), ("claim", "1", "--owner", ""), ("refresh",),
        ("release",), ("events", "--after", "x"), ("init", "a", "b"), ("status", "x"),
    ],
)  # fmt: skip
def test_invalid_requests_end_with_2_and_append_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    make_proof(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["proof", *map(str, words), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["hint"]
    assert ProofLedger(tmp_path).head == 0


def test_claims_from_claim_to_release(proof: Proof) -> None:
    taken = proof.hold("claim", "1.2", "--owner", "ann", "--json").json["claim"]
    assert (taken["node_id"], taken["owner"], taken["sequence"]) == ("1.2", "ann", 1)
    refused = proof.hold("claim", "1.2", "--owner", "bob")
    assert refused.code == 3
    assert refused.err.startswith("holdfast: node already locked: ann has 1.2 until ")
    shown = proof.hold("status").out
    assert "1 claim in" in shown
    assert "ann" in shown
    again = proof.hold("refresh", "1.2", "--owner", "ann", "--timeout", "1h", "--json")
    assert again.json["claim"]["expires_at"] > taken["expires_at"]
    assert proof.hold("release", "1.2", "--owner", "bob").code == 4
    assert proof.hold("release", "1.2", "--owner", "ann").out == "released 1.2\n"
    assert proof.hold("status", "--json").json["claims"] == []
    assert proof.hold("release", "1.2", "--owner", "ann", "--json").error["code"] == (
        "E_LOCK_NOT_HELD"
    )


def test_without_an_owner_it_is_the_caller(proof: Proof) -> None:
    me = proof.repository.hold("whoami", "--json").json["id"]
    assert proof.hold("claim", "1", "--json").json["claim"]["owner"] == me
    assert proof.hold("release", "1").code == 0


def test_two_sessions_whose_ids_begin_alike_are_two_owners(proof: Proof) -> None:
    one, two = ({"CLAUDE_CODE_SESSION_ID": f"019a1b2c-3d4e-{end}"} for end in ("aaaa", "bbbb"))
    taken = proof.hold("claim", "1", "--json", env=one).json["claim"]
    assert taken["owner"] == f"claude:{one['CLAUDE_CODE_SESSION_ID']}"
    assert proof.hold("release", "1", env=two).code == 4
    assert proof.hold("release", "1", env=one).code == 0


def test_expired_claims_are_shown_and_reaped(proof: Proof) -> None:
    proof.hold("claim", "1", "--owner", "ann", "--timeout", "1s")
    time.sleep(1)  # each check is a process
    until(lambda: proof.hold("status", "--json").json["claims"] == [], "the claim has expired")
    (expired,) = proof.hold("status", "--all", "--json").json["claims"]
    assert expired["state"] == "expired"
    assert proof.hold("refresh", "1", "--owner", "ann", "--json").error["code"] == "E_LOCK_EXPIRED"
    assert len(proof.hold("reap", "--dry-run", "--json").json["reaped"]) == 1
    assert proof.hold("reap").out == "reaped the claim of ann on 1\n"
    assert proof.hold("reap").out == ""
    assert proof.hold("status", "--all", "--json").json["claims"] == []


def test_the_proof_is_found_from_below_and_by_c(proof: Proof) -> None:
    below = proof.root / "notes/deep"
    below.mkdir(parents=True)
    assert proof.hold("append", "x", cwd=below).out == "1\n"
    assert proof.hold("append", "x", "-C", proof.root, cwd=proof.repository.root).out == "2\n"
    nowhere = proof.hold("status", "--json", cwd=proof.repository.root)
    assert (nowhere.code, nowhere.error["code"]) == (2, "E_NO_PROOF")
    assert "holdfast proof init" in nowhere.error["hint"]


@pytest.fixture
def follower(proof: Proof) -> Iterator[tuple[Proof, Path]]:
    said = proof.root.parent / "said"
    with said.open("w") as file:
        process = proof.repository.start(
            "proof", "events", "--follow", "--json", cwd=proof.root, stdout=file
        )
    try:
        yield proof, said
    finally:
        process.kill()
        process.communicate()


def test_follow_goes_on_with_what_is_appended(follower: tuple[Proof, Path]) -> None:
    proof, said = follower
    for number in (1, 2):
        proof.hold("append", f"kind_{number}")
    until(lambda: wait_for_file(said).count("\n") == 1, "both have been shown")
    assert [json.loads(line)["sequence"] for line in said.read_text().splitlines()] == [1, 2]


def test_verify_names_what_is_wrong_and_doctor_puts_it_right(proof: Proof) -> None:
    for _ in range(4):
        proof.hold("append", "x")
    assert proof.hold("verify").out == "4 events: all well\n"
    assert proof.hold("verify", "--json").json == {
        "proof": str(proof.root), "ok": True, "findings": [],
    }  # fmt: skip
    (proof.root / "ledger/event-000002.json").write_text("{")
    (proof.root / "ledger/event-000003.json").unlink()
    found = proof.hold("verify", "--json")
    assert found.code == 1
    assert [(one["code"], one["sequence"]) for one in found.json["findings"]] == [
        ("broken", 2), ("changed", 2), ("gap", 3),
    ]  # fmt: skip
    assert "holdfast proof doctor --fix" in proof.hold("verify").out
    assert proof.hold("append", "y").out == "5\n"
    fixed = proof.hold("doctor", "--fix", "--json")
    assert (fixed.code, fixed.json["ok"], len(fixed.json["done"])) == (0, True, 2)
    assert proof.hold("verify").code == 0
    assert len(proof.hold("events").out.splitlines()) == 5


def test_doctor_breaks_the_lock_of_another_program_only_for_a_person(proof: Proof) -> None:
    lock = proof.root / "ledger/ledger.lock"
    lock.mkdir()
    os.utime(lock, (0, 0))
    told = proof.hold("doctor").out
    assert "warning old-lock: a script (the lock is a folder) has held the ledger's lock" in told
    for_others = proof.hold("doctor", "--break-lock", env={"HOLDFAST_HOLDER": "agent"})
    assert for_others.code == 2
    assert lock.exists()
    terminal = Terminal(proof.repository)
    try:
        done = terminal.hold("proof", "-C", str(proof.root), "doctor", "--break-lock")
        assert done.code == 0, done
        assert done.out.startswith("took the ledger's lock from a script")
        assert not lock.exists()
        lock.write_text('{"agent_id": "af"}')
        young = terminal.hold("proof", "-C", str(proof.root), "doctor", "--break-lock", "--json")
        assert (young.code, young.error["code"]) == (3, "E_LOCK_IN_USE")
        assert lock.exists()
    finally:
        terminal.close()


def test_a_lock_that_does_not_come_free_ends_with_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_proof(tmp_path)
    (tmp_path / "ledger/ledger.lock").write_text('{"agent_id": "af-17"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "holdfast.cli.proof_commands.ProofLedger", partial(ProofLedger, wait_seconds=0.1)
    )
    assert main(["proof", "append", "x", "--json"]) == 5
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "E_LOCK_TIMEOUT"
    assert error["message"].startswith("timeout waiting for lock")
    assert error["agent_id"] == "af-17"


def test_the_help_of_the_family_lists_its_commands(proof: Proof) -> None:
    told = proof.hold("--help").out
    for name in (
        "init", "append", "events", "claim", "refresh", "release", "reap", "status", "verify",
        "doctor",
    ):  # fmt: skip
        assert f"proof {name}" in told
