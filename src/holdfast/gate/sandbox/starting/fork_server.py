"""A small process that starts the commands of a runner that has many. `fork_client` sends it orders
on its standard input.

A fork copies the page tables of the calling process, and every page that parent or child writes
afterwards. For a runner that has a ledger open, each command would cost three times as much as for
this program, which imports next to nothing and does nothing else. For the same reason, everything
that can be done before the fork is done before.

The new processes are its siblings, not its children: the runner waits for them, and they die with
it. This program exits when the runner closes the connection.

It receives an `Order` with descriptors. Through the first of them the new process itself reports
its pid and its errors, one line each, so the runner knows them even if this program is killed
meanwhile. A successful exec closes it. No line at all means that there is no new process.
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

from holdfast.gate.sandbox.kernel.landlock import prctl, restrict, syscall
from holdfast.gate.sandbox.kernel.seccomp import Filter, send_listener
from holdfast.gate.sandbox.starting.restricted_start import (
    EXECUTING,
    NOT_STARTED,
    RESTRICTING,
    execute,
)
from holdfast.manager.helper_process import hear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    #: The program, its words, its variables, its folder, the runner's pid, and which descriptors
    #: follow the first three (for reports, its input, its output): a ruleset, and a socket on which
    #: a listener is passed on. Last, the steps of a filter that must be installed; empty for the
    #: usual filter, which is omitted where it cannot be installed.
    Order = tuple[str, list[str], dict[str, str], str, int, bool, bool, bytes]

#: The number of the system call that creates a process, on the machines that are supported.
CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_CLONE_PARENT = 0x8000
SET_DEATH_SIGNAL = 1
#: Signals that the interpreter ignores; a command must not inherit that.
IGNORED_BY_PYTHON = (SIGPIPE, SIGXFSZ)
#: Before the pid of a new process.
BORN = b"p"


def main() -> None:
    """Start processes until the runner closes the connection."""
    gc.disable()  # there are no cycles here, and searching for them would touch every page
    line = socket(AF_UNIX, SOCK_STREAM, 0, 0)
    call = syscall()
    prctl()  # now, so that the new ones find it
    filters: dict[bytes, Filter] = {}
    try:
        filters[b""] = Filter()
    except OSError:
        pass  # not supported on this machine: then nothing is detected
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
            pass  # too many processes, or forbidden: the runner reads no line, and forks itself
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
        if os.getppid() != runner:  # it ended before the death signal was set
            os._exit(NOT_STARTED)
        os.setsid()
        os.chdir(folder)
        os.dup2(descriptors[1], 0)
        os.dup2(descriptors[2], 1)
        os.dup2(descriptors[2], 2)
        if has_ruleset:
            restrict(descriptors[3])
        if outlet is not None and filter is not None:
            send_listener(filter, outlet, is_needed=bool(steps))
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
