"""A command that opens many files, and records the time for one of them.

    python lease_loop.py read|again|first|new|ignored COUNT WHO FIGURE

It writes the milliseconds of one call to FIGURE, by the wall clock and of processor time. The files
are those of `lease_trees.tracked`, in the working folder. `lease` starts it below a broker and
alone; below a broker its processor time includes that of the broker and of its children.
"""

from __future__ import annotations

import os
import sys
import time

_READ_TIMES = 5


def main() -> None:
    kind, count, who, figure = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    act = {"read": read, "again": again, "first": first, "new": new, "ignored": ignored}[kind]
    act(1)
    worked = _worked(who)
    begun = time.perf_counter()
    calls = act(count)
    wall = time.perf_counter() - begun
    worked = _worked(who) - worked
    with open(figure, "w") as file:
        file.write(f"{wall / calls * 1e3} {worked / calls / 1e6}")


def read(count: int) -> int:
    for _ in range(_READ_TIMES):
        for number in range(count):
            with open(f"{number % 10}/{number}", "rb", buffering=0) as file:
                file.read()
    return _READ_TIMES * count


def again(count: int) -> int:
    for _ in range(count):
        os.close(os.open("0/0", os.O_WRONLY))
    return count


def first(count: int) -> int:
    for number in range(1, count):
        os.close(os.open(f"{number % 10}/{number}", os.O_WRONLY))
    return count


def new(count: int) -> int:
    for number in range(count):
        os.close(os.open(f"{number % 10}/new-{count}-{number}", os.O_WRONLY | os.O_CREAT))
    return count


def ignored(count: int) -> int:
    os.makedirs("ignored", exist_ok=True)
    for number in range(count):
        os.close(os.open(f"ignored/{number}", os.O_WRONLY | os.O_CREAT))
    return count


def _worked(who: str) -> int:
    """The processor time of all participating processes, in nanoseconds."""
    processes = [os.getpid()]
    if who != "alone":
        broker = os.getppid()
        with open(f"/proc/{broker}/task/{broker}/children") as children:
            processes = [broker, *map(int, children.read().split())]
    total = 0
    for process in processes:
        with open(f"/proc/{process}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


if __name__ == "__main__":
    main()
