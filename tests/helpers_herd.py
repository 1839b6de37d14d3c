"""A herd: many processes that open one ledger and take a lock at the same instant."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import Crowd

#: Forks the herd, starts all members at once by closing a pipe, and prints how each one fared.
HERD = """
from holdfast import LockManager
from holdfast.store.sqlite.write_gate import Gate

root, size = sys.argv[1], int(sys.argv[2])
os.makedirs(root + "/.holdfast", exist_ok=True)
os.chdir(root)
tries = 0
try_enter = Gate.try_enter


def counted(gate):
    global tries
    tries += 1
    return try_enter(gate)


Gate.try_enter = counted


def member(number):
    begin = time.process_time()
    try:
        with LockManager.open(".") as manager:
            assert manager.try_acquire(holder=f"member-{number}", write_paths=[f"f{number}"])
        say("served", tries, time.process_time() - begin)
    except BaseException as error:
        say("failed", repr(error))
    os._exit(0)


held, start = os.pipe()
for number in range(size):
    if not os.fork():
        os.close(start)
        os.read(held, 1)
        member(number)
say("ready")
go()
os.close(start)
for _ in range(size):
    os.wait()
"""


class Fared:
    """How a herd fared: tries at the gate and seconds of processor time, for each process."""

    def __init__(self, tries: float, seconds: float) -> None:
        self.tries = tries
        self.seconds = seconds


def stampede(crowd: Crowd, root: Path, size: int) -> Fared:
    """Start this many processes at once; each must be served within its default deadline."""
    child = crowd.start(HERD, root, size, name=f"herd-of-{size}")
    child.wait_for("ready", seconds=120)
    child.tell()
    child.done(seconds=120)
    assert child.words("failed") == [], child.words("failed")[:3]
    served = child.words("served")
    assert len(served) == size
    tries = sum(int(tries) for tries, _ in served) / size
    return Fared(tries, sum(float(seconds) for _, seconds in served) / size)
