"""Programs of the npm registry, in exact versions."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = {
    "husky": "9.1.7",
    "lint-staged": "16.4.0",
    "lefthook": "2.2.2",
    "prettier": "3.10.1",
    "simple-git-hooks": "2.14.0",
}


def node_modules() -> Path:
    """The folder of the packages, which is kept between runs and filled if it lacks them
    (`~/.cache/holdfast-managers`, or the one that HOLDFAST_MANAGERS_CACHE names)."""
    named = os.environ.get("HOLDFAST_MANAGERS_CACHE")
    folder = Path(named) if named else Path.home() / ".cache/holdfast-managers"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps({"private": True, "dependencies": PACKAGES})
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = folder / "ready"
        if not ready.exists() or ready.read_text() != wanted:
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            (folder / "package.json").write_text(wanted)
            words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(words, cwd=folder, check=True, timeout=600, capture_output=True)
            ready.write_text(wanted)
    return folder / "node_modules"
