"""A crowd over one spec: ours, killed at random, and a client that knows only the file.

The process with the lock puts up a sign, a link with its name, which only one can create at a time.
Two signs would be a double grant; a sign whose owner does not have the lock, a lost lock. A spec
lock outlives its process, so a new process of ours first releases the lock of a killed one.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

from helpers_kse import Kse, made
from helpers_processes import Child, Crowd
from helpers_specs import locks
from holdfast.specs import LockFile, LockMetadata, SpecLocks

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

#: Only what the founding document states: a JSON file of that name is the lock, and a
#: process that finds one is refused. Nothing of ours is imported.
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
    """Let four of each fight, killing ours again and again; returns how often each had the lock,
    and how many were killed."""
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
    """A lock of ours is always seen whole."""
    seen = files.look("demo")
    if seen is None or seen.data is None or b'"ours-' not in seen.data:
        return
    assert json.loads(seen.data)["machineId"].startswith("ours-")


# Beside kse

#: What both do: `mine`, `acquire` and `release` are their own. Each spec has a sign of its own.
ROAM = """
import random
name, root, specs = sys.argv[1], sys.argv[2], sys.argv[3].split(",")

def sign(spec):
    return f"{root}/sign-{spec}"

def whose(spec):
    try:
        return os.readlink(sign(spec))
    except FileNotFoundError:
        return ""

def wrong(*words):
    say(*words)
    os._exit(1)

def work(spec):
    try:
        os.symlink(name, sign(spec))
    except FileExistsError:
        wrong("DOUBLE", name, "and", whose(spec))
    time.sleep(random.random() * 0.02)
    if whose(spec) != name or not mine(spec):
        wrong("LOST", name, "to", whose(spec))
    os.unlink(sign(spec))
    if not release(spec):
        wrong("STUCK", name)
    say("had", spec)

def begin():
    for spec in specs:
        if whose(spec) == name:
            if not mine(spec):
                wrong("LOST", name, "while it was dead")
            os.unlink(sign(spec))
        if mine(spec):
            release(spec)
    say("ready"); go()
    while True:
        spec = random.choice(specs)
        if acquire(spec):
            work(spec)
        time.sleep(random.random() * 0.02)
"""

OURS_BESIDE_KSE = (
    ROAM
    + """
from holdfast.specs import SpecLocks, MachineId
class Fixed:
    def get_machine_id(self):
        return MachineId(id=name, hostname="pc", created_at="")
locks = SpecLocks(root, Fixed(), holder=name, owner=name)
def mine(spec):
    return locks.is_locked_by_me(spec)
def acquire(spec):
    return locks.acquire_lock(spec).success
def release(spec):
    return locks.release_lock(spec).success
begin()
"""
)

KSE = (
    ROAM
    + """
sys.path.insert(0, sys.argv[5])
from pathlib import Path
from helpers_kse import Kse
kse = Kse(Path(root), sys.argv[4], name, lambda: time.sleep(random.random() * 0.02))
def mine(spec):
    return (kse.read(spec) or {}).get("machineId") == name
def acquire(spec):
    return kse.lock(spec) == ""
def release(spec):
    return kse.unlock(spec) == ""
begin()
"""
)


def kse_fight(root: Path, seconds: float, dice: random.Random, *, specs: int) -> dict[str, int]:
    """Let ours fight with one kse on each spec, killing both again and again. Two kse on one spec
    would double-grant by themselves. Returns how often each had a lock, and the kills."""
    names = [f"s{number}" for number in range(specs)]
    made(root, ".sce", ".kiro", specs=tuple(names))
    here = Path(__file__).parent
    counts = {"kills": 0, "ours": 0, "theirs": 0}
    with Crowd(root) as crowd:

        def start(name: str) -> Child:
            if name.startswith("ours"):
                words: list[object] = [name, root, ",".join(names)]
                return _begun(crowd.start(OURS_BESIDE_KSE, *words, name=name))
            number = int(name.rpartition("-")[2])
            home = (".sce", ".kiro")[number % 2]
            return _begun(crowd.start(KSE, name, root, names[number], home, here, name=name))

        fighters = [f"ours-{number}" for number in range(4)]
        fighters += [f"theirs-{number}" for number in range(specs)]
        running = {name: start(name) for name in fighters}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.2, 0.6))
            victim = dice.choice(fighters)
            running[victim].kill()
            counts["kills"] += 1
            running[victim] = start(victim)
        for child in running.values():
            assert child.process.poll() is None, child.story()
        for child in crowd.children:
            child.kill()
            wrong = [line for line in child.lines() if line.split()[0].isupper()]
            assert wrong == [], child.story()
            assert "Error" not in child.trouble.read_text(), child.story()
            counts[child.name.partition("-")[0]] += len(child.words("had"))
    return counts


def _begun(child: Child) -> Child:
    child.wait_for("ready")
    child.tell()
    return child


class _Killed(BaseException):
    """The process ends here."""


def wander(root: Path, homes: Sequence[str], dice: random.Random) -> list[str]:
    """A random order of commands of ours and of kse, in which neither may crash. At the end all
    release their locks, and then each can lock and unlock. Returns the commands."""
    ours = [
        locks(root, "one"), locks(root, "two"),
        locks(root, id="far-1"), locks(root, "x", id="far-2"),
    ]  # fmt: skip
    kses = [Kse(root, home, machine) for home in homes for machine in ("pc-1", "far-2")]
    done: list[str] = []

    def step() -> None:
        mine = dice.choice(ours)
        what = dice.choice(["lock", "lock", "unlock", "unlock", "force", "cleanup", "complete",
                            "killed"])  # fmt: skip
        done.append(f"ours {what}")
        if what == "lock":
            mine.acquire_lock("demo", timeout=dice.choice([24, 1e-9]))
        elif what in ("unlock", "force"):
            mine.release_lock("demo", force=what == "force")
        elif what == "cleanup":
            mine.cleanup_stale_locks()
        elif what == "complete":
            mine.complete_locks()
        else:
            _killed_in_the_middle(mine, dice)

    def kse_step() -> None:
        kse = dice.choice(kses)
        kse.pause = step if dice.random() < 0.3 else lambda: None
        what = dice.choice(["lock", "lock", "unlock", "unlock", "force", "cleanup"])
        done.append(f"kse {kse.specs.parent.name} {what}")
        if what == "lock":
            kse.lock("demo", dice.choice([24, 1e-9]))
        elif what in ("unlock", "force"):
            kse.unlock("demo", force=what == "force")
        else:
            kse.cleanup()
        kse.pause = lambda: None

    for _ in range(dice.randrange(2, 14)):
        dice.choice([step, kse_step])()
    try:
        _all_can(root, ours, kses)
    except (AssertionError, OSError) as error:
        raise AssertionError(f"after {done}") from error
    return done


def _killed_in_the_middle(mine: SpecLocks, dice: random.Random) -> None:
    """Lock, and die before or after the lock is put into some home."""
    left, real = dice.randrange(3), LockFile.publish

    def publish(self: LockFile, spec_name: str, metadata: LockMetadata) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Killed
        return real(self, spec_name, metadata)

    LockFile.publish = publish  # type: ignore[method-assign]
    try:
        mine.acquire_lock("demo")
    except _Killed:
        pass
    finally:
        LockFile.publish = real  # type: ignore[method-assign]


def _all_can(root: Path, ours: Sequence[SpecLocks], kses: Sequence[Kse]) -> None:
    for mine in ours:
        mine.release_lock("demo")
    for kse in kses:
        kse.unlock("demo")
    left = [str(path) for home in (".sce", ".kiro") for path in root.glob(f"{home}/specs/demo/.*")]
    assert [path for path in left if "damaged" not in path] == []
    for mine in ours:
        assert mine.acquire_lock("demo").success
        assert all(kse.lock("demo") == "Spec is already locked" for kse in kses)
        assert mine.release_lock("demo").success
    for kse in kses:
        assert kse.lock("demo") == ""
        assert not ours[0].acquire_lock("demo").success
        assert kse.unlock("demo") == ""
