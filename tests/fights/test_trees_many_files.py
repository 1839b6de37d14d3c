"""A hundred thousand files: a second snapshot, a diff and a gc take seconds and no more memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from helpers_processes import LINUX_ONLY

pytestmark = LINUX_ONLY

FEW, MANY = 1_000, 100_000
#: The limit on a slow, busy machine; on an idle one each command takes a tenth of it.
SECONDS_MAX = 60.0
#: How much more memory a command may need for a hundred times as many files.
MORE_BYTES_MAX = 8 << 20

_STARTER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_pid, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Measured:
    """Commands in one repository, with the time and the memory that each took."""

    def __init__(self, folder: Path, files: int) -> None:
        self.peaks: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self._main = folder
        self._main = Path(self.run("init", "init", str(folder / str(files)))["worktree"]["path"])
        for number in range(files // 100):
            place = self._main / f"d{number}"
            place.mkdir()
            for name in range(100):
                (place / f"f{name}").write_bytes(b"%d %d\n" % (number, name))
        self.run("lock", "lock", "acquire", "--holder", "b", "--lease", "1h")
        self.ids = [self._take("first")]
        for what in ("second", "third"):
            for number in range(10):
                (self._main / f"d{number}" / "f0").write_text(what)
            self.ids.append(self._take(what))

    def _take(self, name: str) -> str:
        return str(self.run(name, "snapshot", "--holder", "b")["snapshot"]["snapshot_id"])

    def run(self, what: str, *words: str) -> Any:
        """Run one command; its answer."""
        line = [sys.executable, "-m", "holdfast", "--json", "-C", str(self._main), "tree", *words]
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _STARTER, *line],
            capture_output=True, text=True, check=True, env={**os.environ},
        )  # fmt: skip
        self.seconds[what] = time.monotonic() - begun
        self.peaks[what] = int(done.stderr.split()[-1])
        return json.loads(done.stdout)


def test_second_snapshot_diff_and_gc_of_100_000_files_take_seconds_and_no_more_memory(
    tmp_path: Path,
) -> None:
    peaks = []
    for files in (FEW, MANY):
        measured = Measured(tmp_path, files)
        changed = measured.run("diff", "diff", "--stat", measured.ids[0], measured.ids[2])
        assert changed["totals"]["changed"] == 10
        measured.run("settings", "gc", "settings", "keep_ancestors=false", "keep_last=0",
                     "keep_days=0")  # fmt: skip
        plan = measured.run("plan", "gc", "plan")["plan"]
        done = measured.run("gc", "gc", "run", plan["plan_id"])
        assert done["removed"] == measured.ids[:2]
        peaks.append(measured.peaks)
    few, many = peaks
    for what in ("second", "third", "diff", "plan", "gc"):
        assert measured.seconds[what] < SECONDS_MAX, (what, measured.seconds)
        assert many[what] - few[what] < MORE_BYTES_MAX, (what, few, many)
    print({what: f"{seconds:.1f} s" for what, seconds in measured.seconds.items()})
