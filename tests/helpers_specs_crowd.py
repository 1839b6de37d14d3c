"""A crowd over one spec: ours, killed at random, and a client that knows nothing but the file.

Whoever has the lock puts up a sign, a link that says its name, which only one can put up at a time.
Two signs would be a double grant; a sign whose owner does not have the lock, a lock that was lost.
A spec lock outlives its process, so one of ours that was killed begins by giving back what it had.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from helpers_processes import Child, Crowd
from holdfast.specs import LockFile

#: What both do with the lock. `acquire` and `release` are their own.
WORK = """
import random
name, root = sys.argv[1], sys.argv[2]
folder, sign = root + "/.kiro/specs/demo", root + "/sign"

def whose():
    try:
        return os.readlink(sign)
    except FileNotFoundError:
        return ""

def work(turn):
    try:
        os.symlink(name, sign)
    except FileExistsError:
        say("DOUBLE", name, "and", whose())
        os._exit(1)
    time.sleep(random.random() * 0.002)
    if whose() != name or not mine():
        say("LOST", name, "to", whose())
        os._exit(1)
    os.unlink(sign)
    if not release():
        say("STUCK", name)
        os._exit(1)
    say("had", turn)

def begin():
    if whose() == name:
        if not mine():
            say("LOST", name, "while it was dead")
            os._exit(1)
        os.unlink(sign)
    if mine():
        release()
    say("ready"); go()
    turn = 0
    while True:
        if acquire():
            turn += 1
            work(turn)
        time.sleep(random.random() * 0.004)
"""

OURS = (
    WORK
    + """
from holdfast.specs import SpecLocks, MachineId
class Fixed:
    def get_machine_id(self):
        return MachineId(id=name, hostname="pc", created_at="")
locks = SpecLocks(root, Fixed(), holder=name, owner=name)
def mine():
    return locks.is_locked_by_me("demo")
def acquire():
    result = locks.acquire_lock("demo", reason="crowd")
    return result.success
def release():
    return locks.release_lock("demo").success
begin()
"""
)

#: As the founding document says and no more: a JSON file of that name is the lock, and who finds
#: one there is refused. Nothing of ours is imported.
THEIRS = (
    WORK
    + """
import datetime, json
lock = folder + "/.lock"
def found():
    try:
        with open(lock, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None
def mine():
    return (found() or {}).get("machineId") == name
def acquire():
    try:
        file = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    data = {"owner": name, "machineId": name, "hostname": "far", "reason": None, "timeout": 24,
            "timestamp": now.replace("+00:00", "Z"), "version": "1.0.0"}
    os.write(file, json.dumps(data, indent=2).encode())
    os.close(file)
    return True
def release():
    if not mine():
        return False
    os.unlink(lock)
    return True
begin()
"""
)


def fight(root: Path, seconds: float, dice: random.Random) -> dict[str, int]:
    """Let four of each fight, kill ours again and again; how often each had the lock, and how
    many were killed."""
    specs = root / ".kiro/specs"
    (specs / "demo").mkdir(parents=True)
    files = LockFile(specs)
    kills = 0
    with Crowd(root) as crowd:
        ours = [_started(crowd, OURS, f"ours-{n}", root) for n in range(4)]
        theirs = [_started(crowd, THEIRS, f"theirs-{n}", root) for n in range(4)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.02, 0.25))
            _whole(files)
            victim = dice.randrange(4)
            ours[victim].kill()
            kills += 1
            ours[victim] = _started(crowd, OURS, f"ours-{victim}", root)
        for child in [*ours, *theirs]:
            assert child.process.poll() is None, child.story()
        counts: dict[str, int] = {"kills": kills}
        for child in crowd.children:
            child.kill()
            wrong = [line for line in child.lines() if line.split()[0].isupper()]
            assert wrong == [], child.story()
            name = child.name.rpartition("-")[0]
            counts[name] = counts.get(name, 0) + len(child.words("had"))
    assert set(os.listdir(specs / "demo")) <= {".lock", ".lock.tmp"}
    return counts


def _started(crowd: Crowd, text: str, name: str, root: Path) -> Child:
    child = crowd.start(text, name, root, name=name)
    child.wait_for("ready")
    child.tell()
    return child


def _whole(files: LockFile) -> None:
    """A lock of ours is never seen but whole."""
    seen = files.look("demo")
    if seen is None or seen.data is None or b'"ours-' not in seen.data:
        return
    assert json.loads(seen.data)["machineId"].startswith("ours-")
