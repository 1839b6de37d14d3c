"""A small process that makes the commands of a runner that has many: spoken to at its standard
input, by `spawning`.

To make a process, the kernel copies the books of the one that asks for it, and every page that
either of them touches afterwards. A runner that has a ledger open would pay for each command three
times what this program pays, which imports next to nothing and does nothing else. For the same
reason all that can be done before a process is made is done before.

What it makes are not its children but its siblings: the runner is who waits for them, and they die
with it. This program goes when nobody speaks to it any more.

It hears an `Order` with descriptors. Through the first of them the new process itself tells its
pid, and what went wrong in it, a line each: so it is known to the runner even if this program is
killed meanwhile. A successful exec closes it. Nothing at all means that there is no new process.
"""

from __future__ import annotations

import gc
import os
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_SETMASK,
    SIGCHLD,
    SIGKILL,
    SIGPIPE,
    SIGXFSZ,
    pthread_sigmask,
    signal,
)
from _socket import AF_UNIX, SOCK_STREAM, socket

from holdfast.gate.sandbox.landlock import kernel, prctl, restrict
from holdfast.gate.sandbox.restricted_start import (
    EXECUTING,
    NOT_STARTED,
    RESTRICTING,
    execute,
)
from holdfast.gate.sandbox.seccomp import Filter, hand_over
from holdfast.manager.helper_process import hear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    #: The program, its words, its variables, its folder, the runner's pid, and which descriptors
    #: follow after the first three (where to tell, what it reads, where it writes): a ruleset, and
    #: a line on which a listener is handed over. Last the steps of the filter that it is of, which
    #: must be put on; empty for the usual one, which is left out where it cannot be.
    Order = tuple[str, list[str], dict[str, str], str, int, bool, bool, bytes]

#: The system call that makes a process, on the machines where that is known.
CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_CLONE_PARENT = 0x8000
SET_DEATH_SIGNAL = 1
#: What the interpreter ignores, and a command must not inherit like that.
IGNORED_BY_PYTHON = (SIGPIPE, SIGXFSZ)
#: Before the pid of a new process.
BORN = b"p"


def main() -> None:
    """Make processes until nobody wants any more."""
    gc.disable()  # there are no circles here, and to look for them would touch every page
    line = socket(AF_UNIX, SOCK_STREAM, 0, 0)
    call = kernel()
    prctl()  # now, so that the new ones find it
    filters: dict[bytes, Filter] = {}
    try:
        filters[b""] = Filter()
    except OSError:
        pass  # not known how that is done on this machine: then nothing is noticed
    clone = CLONE[os.uname().machine]
    while True:
        heard = hear(line)
        if heard is None:
            return
        order, descriptors = heard
        outlet = socket(fileno=descriptors[-1]) if order[-2] else None
        if order[-1] and order[-1] not in filters:
            filters[order[-1]] = Filter(order[-1])
        try:
            if call(clone, _CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
                _become(order, descriptors, filters.get(order[-1]), outlet)
        except OSError:
            pass  # too many, or not allowed here: whoever wanted it hears nothing, and tries itself
        if outlet is not None:
            outlet.detach()
        for descriptor in descriptors:
            os.close(descriptor)


def _become(
    order: Order, descriptors: list[int], filter: Filter | None, outlet: socket | None
) -> NoReturn:
    """In the new process: never returns."""
    program, words, variables, folder, runner, has_ruleset, _has_outlet, steps = order
    stage, number = RESTRICTING, 0
    try:
        os.write(descriptors[0], BORN + b"%d\n" % os.getpid())
        prctl()(SET_DEATH_SIGNAL, SIGKILL, 0, 0, 0)
        if os.getppid() != runner:  # it went before the kernel knew what to do then
            os._exit(NOT_STARTED)
        os.setsid()
        os.chdir(folder)
        os.dup2(descriptors[1], 0)
        os.dup2(descriptors[2], 1)
        os.dup2(descriptors[2], 2)
        if has_ruleset:
            restrict(descriptors[3])
        if outlet is not None and filter is not None:
            hand_over(filter, outlet, is_needed=bool(steps))
        stage = EXECUTING
        for one in IGNORED_BY_PYTHON:
            signal(one, SIG_DFL)
        pthread_sigmask(SIG_SETMASK, ())
        execute(program, words, variables)
    except OSError as error:
        number = error.errno or 0
    finally:
        try:
            os.write(descriptors[0], stage + b"%d\n" % number)
        finally:
            os._exit(NOT_STARTED)
