"""Whole repositories of jvs, written from the files its versions leave on disk, without our code.

A snapshot is the payload itself below `.jvs/snapshots/ID`, with `.READY` at its top, and a
descriptor. The hash of a payload is the SHA-256 of sorted lines `kind:path:mode=0644,size=4:sha`;
the checksum of a descriptor is the SHA-256 of its JSON as Go writes it, keys sorted, with
`descriptor_checksum` and `integrity_state` empty.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

#: jvs 6.5, which has locks; later versions; and later versions in an existing folder.
LAYOUTS = ("with locks", "later", "adopted")


class Jvs:
    """One repository of jvs that grows by snapshots."""

    def __init__(self, root: Path, layout: str = "later") -> None:
        self.root = root
        self.layout = layout
        self.control = root / ".jvs"
        self.payload = root if layout == "adopted" else root / "main"
        self.heads: dict[str, str] = {}
        self._clock = 1_770_000_000_000
        folders = ["descriptors", "snapshots", "intents", "audit", "locks", "gc"]
        if layout == "with locks":
            folders += ["refs"]
        else:
            folders += ["restore-plans", "recovery-plans", "gc/pins", "gc/tombstones"]
        for name in folders:
            (self.control / name).mkdir(parents=True)
        (self.control / "format_version").write_text("1\n")
        (self.control / "repo_id").write_text("2f1c9f6e-6f0b-4f0e-9a53-0d3d5d3c8a11\n")
        if layout != "with locks":
            (self.control / "repo_mode").write_text("embedded_control\n")
        self.payload.mkdir(exist_ok=True)
        (root / "worktrees").mkdir()
        self._configure("main")

    def write(self, path: str, data: str | bytes = "text\n", *, mode: int = 0o644) -> Path:
        """A file in the payload of main."""
        place = self.payload / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        place.chmod(mode)
        return place

    def take(
        self,
        note: str = "",
        *,
        tags: list[str] | None = None,
        worktree: str = "main",
        compressed: bool = False,
        **more: Any,
    ) -> str:
        """A snapshot of the payload; its id."""
        self._clock += 1000
        id = f"{self._clock:013d}-{hashlib.sha256(str(self._clock).encode()).hexdigest()[:8]}"
        folder = self.snapshot(id)
        controls = (".jvs", "worktrees") if self.layout == "adopted" else ()

        def left_out(at: str, _names: list[str]) -> tuple[str, ...]:
            return controls if Path(at) == self.payload else ()

        shutil.copytree(self.payload, folder, symlinks=True, ignore=left_out)
        summed = payload_root_hash(folder, deep_marks=self.layout == "with locks")
        fields: dict[str, Any] = {"snapshot_id": id}
        if self.heads.get(worktree):
            fields["parent_id"] = self.heads[worktree]
        fields |= {
            "worktree_name": worktree,
            "created_at": f"2026-02-20T10:00:00.{self._clock % 1_000_000:06d}123Z",
        }
        fields |= {"note": note} if note else {}
        fields |= {"tags": tags} if tags else {}
        fields |= {"engine": "copy"}
        if self.layout == "with locks":
            fields |= {"consistency_level": "quiesced", "fencing_token": 3}
        fields |= {"payload_root_hash": summed, **more}
        if compressed:
            fields["compression"] = {"type": "gzip", "level": 6}
        self.describe(id, fields)
        if compressed:
            self._compress(folder)
        self.heads[worktree] = id
        self._configure(worktree)
        return id

    def describe(self, id: str, fields: dict[str, Any]) -> None:
        """Write the descriptor and the mark."""
        checksum = descriptor_checksum(fields)
        whole = {**fields, "descriptor_checksum": checksum, "integrity_state": "verified"}
        self.descriptor(id).write_text(json.dumps(whole, indent=2, ensure_ascii=False))
        mark = {"snapshot_id": id, "completed_at": "2026-02-20T10:00:01Z",
                "payload_root_hash": fields["payload_root_hash"]}  # fmt: skip
        if self.layout != "with locks":
            mark |= {"engine": fields["engine"], "descriptor_checksum": checksum}
        (self.snapshot(id) / ".READY").write_text(json.dumps(mark))

    def ref(self, name: str, id: str) -> None:
        """A name for a snapshot, as 6.5 keeps it."""
        about = {"name": name, "target_id": id, "created_at": "2026-02-20T10:00:00Z"}
        (self.control / "refs" / f"{name}.json").write_text(json.dumps(about))

    def snapshot(self, id: str) -> Path:
        return self.control / "snapshots" / id

    def descriptor(self, id: str) -> Path:
        return self.control / "descriptors" / f"{id}.json"

    def _configure(self, worktree: str) -> None:
        about: dict[str, Any] = {"name": worktree, "created_at": "2026-02-20T10:00:00Z"}
        if self.heads.get(worktree):
            about |= {"head_snapshot_id": self.heads[worktree]}
            if self.layout != "with locks":
                about |= {"latest_snapshot_id": self.heads[worktree]}
        place = self.control / "worktrees" / worktree
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps(about, indent=2))
        if self.layout == "with locks":
            lock = {"lock_id": "6b5e8a52-6a53-4a53-8a53-5a536a536a53", "worktree_name": worktree,
                    "holder_id": "here:ann:11:1", "fencing_token": 3,
                    "lease_expires_at": "2099-02-20T10:00:30Z"}  # fmt: skip
            (place / "lock.json").write_text(json.dumps(lock))

    def _compress(self, folder: Path) -> None:
        packed = []
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_symlink() or not path.is_file() or name == ".READY" or name.endswith(".gz"):
                continue
            status = path.stat()
            other = path.with_name(f"{path.name}.gz")
            other.write_bytes(gzip.compress(path.read_bytes()))
            other.chmod(stat.S_IMODE(status.st_mode))
            path.unlink()
            packed.append(
                {"path": name, "compressed_path": f"{name}.gz", "original_size": status.st_size}
            )
        mark = json.loads((folder / ".READY").read_text())
        mark["compression_manifest"] = {"version": 1, "type": "gzip", "files": packed}
        (folder / ".READY").write_text(json.dumps(mark, indent=2))


def payload_root_hash(folder: Path, *, deep_marks: bool) -> str:
    """The hash of a payload. 6.5 leaves out every `.READY` in it, later versions only the top's."""
    lines = []
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(at, name)
            inside = os.path.relpath(path, folder)
            status = path.lstat()
            if inside == ".READY" or (deep_marks and name == ".READY" and path.is_file()):
                continue
            mode = f"mode={stat.S_IMODE(status.st_mode) & 0o777:04o}"
            if path.is_symlink():
                kind, data = "symlink", os.fsencode(os.readlink(path))
            elif path.is_dir():
                kind, data = "dir", os.fsencode(name)
            else:
                kind, data = "file", path.read_bytes()
                mode += f",size={status.st_size}"
            found = hashlib.sha256(data).hexdigest()
            lines.append(os.fsencode(f"{kind}:{inside}:{mode}:{found}") + b"\n")
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


def descriptor_checksum(fields: dict[str, Any]) -> str:
    """The checksum of a descriptor. Go escapes characters that could end a script in HTML."""
    emptied = {**fields, "descriptor_checksum": "", "integrity_state": ""}
    text = json.dumps(emptied, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return hashlib.sha256(text.encode()).hexdigest()
