"""Repositories and proofs of other programs, in the layouts that these were observed to use.

Written from the files that the programs leave on disk, without any code of ours: jvs 6.5, which has
locks, later versions of jvs, which have none, and af.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SNAPSHOT = "1770000000000-a1b2c3d4"
#: jvs 6.5, which has locks; later versions; and later versions in an existing folder.
JVS_LAYOUTS = ("with locks", "later", "adopted")


def jvs_repository(root: Path, layout: str) -> Path:
    """A repository of jvs with one snapshot; the folder that a person works in."""
    control = root / ".jvs"
    payload = root if layout == "adopted" else root / "main"
    folders = ["worktrees/main", "descriptors", "intents", "audit", "locks", "gc"]
    folders += [f"snapshots/{SNAPSHOT}"]
    if layout == "with locks":
        folders += ["refs"]
    else:
        folders += ["restore-plans", "recovery-plans", "gc/pins", "gc/tombstones"]
        _put(control / "repo_mode", "embedded_control\n")
    for name in folders:
        (control / name).mkdir(parents=True)
    _put(control / "format_version", "1\n")
    _put(control / "repo_id", "2f1c9f6e-6f0b-4f0e-9a53-0d3d5d3c8a11\n")
    about = {"name": "main", "created_at": "2026-02-20T10:00:00Z", "head_snapshot_id": SNAPSHOT}
    _put(control / "worktrees/main/config.json", json.dumps(about, indent=2))
    if layout == "with locks":
        _put(control / "worktrees/main/lock.json", json.dumps(_jvs_lock()))
    _put(control / f"snapshots/{SNAPSHOT}/x", "one\n")
    _put(control / f"snapshots/{SNAPSHOT}/.READY", json.dumps({"snapshot_id": SNAPSHOT}))
    _put(control / f"descriptors/{SNAPSHOT}.json", json.dumps(_jvs_descriptor()))
    _put(control / "audit/audit.jsonl", json.dumps({"event": "snapshot_create"}) + "\n")
    _put(payload / "x", "two\n")
    (root / "worktrees").mkdir(exist_ok=True)
    return payload


def _jvs_lock() -> dict[str, Any]:
    return {
        "lock_id": "6b5e8a52-6a53-4a53-8a53-5a536a536a53", "worktree_name": "main",
        "holder_id": "here:ann:11:1", "created_at": "2026-02-20T10:00:00Z",
        "lease_expires_at": "2099-02-20T10:00:30Z", "fencing_token": 1,
    }  # fmt: skip


def _jvs_descriptor() -> dict[str, Any]:
    return {
        "snapshot_id": SNAPSHOT, "worktree_name": "main", "created_at": "2026-02-20T10:00:00Z",
        "engine": "copy", "descriptor_checksum": "ab" * 32, "payload_root_hash": "cd" * 32,
        "integrity_state": "verified",
    }  # fmt: skip


def af_proof(root: Path, *, events: int = 3, version: str = "1.0") -> Path:
    """A proof of af in which an agent has claimed the node 1.1."""
    for name in ("ledger", "nodes", "defs", "assumptions", "externals", "lemmas", "locks"):
        (root / name).mkdir(parents=True)
    _put(root / "meta.json", f'{{"version": "{version}"}}')
    told: list[dict[str, Any]] = [
        {"type": "proof_initialized", "conjecture": "it is so", "author": "ann"},
        {"type": "nodes_claimed", "node_ids": ["1.1"], "owner": "ann",
         "timeout": "2099-02-20T11:00:00Z"},
        {"type": "claim_refreshed", "node_id": "1.1", "owner": "ann",
         "new_timeout": "2099-02-20T12:00:00Z"},
    ]  # fmt: skip
    for number, event in enumerate(told[:events], 1):
        stamped = {"type": event.pop("type"), "timestamp": "2026-02-20T10:00:00.5Z", **event}
        _put(root / f"ledger/{number:06d}.json", json.dumps(stamped, separators=(",", ":")))
    return root


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
