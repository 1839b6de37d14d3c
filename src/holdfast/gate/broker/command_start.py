"""Starts one command below a broker: what is closed to it, and how it is started.

All checkouts of the repository, git's folder, and the ledger are closed. Everything else stays open
(`kernel.complement` in the sandbox), except the folders above those: there the command can create
something only through the broker, which takes no lease for it. With `--sandbox` the outside is
closed too.
"""

from __future__ import annotations

import _socket
import os
import sys

from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.calling_thread import Trust
from holdfast.gate.broker.places.path_zones import PathZones
from holdfast.gate.sandbox import SandboxError, runner_client
from holdfast.gate.sandbox.kernel import complement, seccomp
from holdfast.gate.sandbox.kernel.landlock import (
    MUTATING,
    SCOPE_SIGNAL,
    Ruleset,
    sandbox_error,
    support,
)
from holdfast.gate.sandbox.kernel.open_places import OpenPlaces, git_folders
from holdfast.gate.sandbox.starting.restricted_start import start
from holdfast.manager.files.checkouts import checkouts, is_bare
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.files.realpath import plain
from holdfast.manager.ledger_location import is_on_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.gate.broker.broker_loop import Broker
    from holdfast.gate.broker.calls.outside_calls import OutsideCalls
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.leasing.committed_files import CommittedFiles
    from holdfast.gate.sandbox.starting.fork_client import ForkServer
    from holdfast.manager.manager import LockManager

_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_CODEX_NO_NETWORK = "CODEX_SANDBOX_NETWORK_DISABLED"
#: From this value on Yama lets only root read other processes' memory; from 3 on, no process.
_YAMA_CLOSED = 2


def demand(*, is_tried: bool = False, what: str = "run --lease") -> int:
    """The version of Landlock here. Raises SandboxError if no broker can run on this machine, so
    that `what` cannot work. With `is_tried`, the kernel is not asked for a listener: that has been
    tried before, and would fail at the start."""
    machine = os.uname().machine if hasattr(os, "uname") else sys.platform
    lacks = ""
    if sys.platform != "linux":
        lacks = "this is not Linux, and Landlock and seccomp are parts of Linux"
    elif machine != heard_calls.MACHINE_NAME:
        lacks = f"it supports x86_64 only, and this machine is {machine}"
    found = support()
    lacks = lacks or _kept_apart() or found.lacks
    if not lacks:
        lacks = "" if is_tried else seccomp.lacks()
        lacks = lacks if found.is_enough else "this kernel has no Landlock"
    if lacks:
        hint = "lock what the command writes: holdfast run --write PATH -- COMMAND"
        if runner_client.address():
            hint = "run the command directly: the broker around it already leases its writes"
        raise SandboxError(f"{what} cannot work here: {lacks}", hint=hint, abi=found.abi)
    return found.abi


def demand_network(root: str) -> None:
    """Raises SandboxError if the ledger is on a server, and no process here may connect to it."""
    if not is_on_server(root) or not _is_cut_off():
        return
    raise SandboxError(
        "a broker cannot work here: the ledger is on a server, and the sandbox around this command "
        "gives it no network, as Codex's own sandbox does",
        hint="a person can open the network in Codex's sandbox "
        "(sandbox_workspace_write.network_access = true)",
    )


def _is_cut_off() -> bool:
    """Whether the sandbox around us refuses connections. Codex says so in a variable; its filter of
    system calls refuses every `connect`, and this one would send nothing."""
    if os.environ.get(_CODEX_NO_NETWORK):
        return True
    try:
        line = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    except PermissionError:
        return True
    except OSError:
        return False
    try:
        line.connect(("127.0.0.1", 9))
    except PermissionError:
        return True
    except OSError:
        pass
    finally:
        line.close()
    return False


class Enclosure:
    """The restrictions around one command. `start` it, then serve."""

    def __init__(
        self,
        root: str,
        ledger: str,
        abi: int,
        *,
        until_commit: bool = False,
        closes_git: bool = False,
        places: Callable[[OpenPlaces], None] | None = None,
    ) -> None:
        """`root` is the repository's, `ledger` the folder of its ledger. With `until_commit` the
        present commits are remembered. With `closes_git` the command cannot write git's own files.
        If the outside is closed too, `places` opens what is open there."""
        self._root = root
        self._trust = Trust()
        self._filter = seccomp.Filter(heard_calls.program)
        self._folders: set[str] = set()
        self._files: set[str] = set()
        self._is_closed_outside = places is not None
        self._ours, self._theirs = _socket.socketpair()
        roots = [] if is_bare(root) and not os.path.lexists(f"{root}/.git") else [root]
        roots = list(dict.fromkeys([*roots, *checkouts(root)])) or [root]
        own = [folder for folder in _git_folders(root) if not _is_below(folder, roots)]
        for folder in (*roots, *own):
            _refuse_alias(folder)
        self._zones = PathZones(roots, own, ledger, closes_git=closes_git)
        self._listener: heard_calls.Listener | None = None
        self._committed = _committed(roots) if until_commit else None
        self._ruleset = Ruleset(abi, scoped=SCOPE_SIGNAL)
        if places is None:
            complement.open_all_but([*roots, *own, ledger], self._open)
        else:
            places(OpenPlaces(self._open))

    def _open(self, fd: int, rights: int) -> None:
        self._ruleset.open(fd, rights)
        path = os.readlink(f"/proc/self/fd/{fd}")
        (self._folders if rights == MUTATING else self._files).add(path)

    def is_open(self, path: str, is_there: bool) -> bool:
        """Whether Landlock leaves a path open: its content or, if it does not exist, its name."""
        if is_there and path in self._files:
            return True
        if not path.startswith("/"):
            return True  # a pipe, or a file in memory
        end = len(path)
        while end > 0:
            if (is_there or end < len(path)) and path[:end] in self._folders:
                return True
            end = path.rfind("/", 0, end)
        return False

    def _is_left_to_kernel(self, path: str, is_there: bool) -> bool:
        """Whether a call on a path outside is left to the kernel: if the path is open, or if the
        outside is closed as well, because then Landlock refuses the rest."""
        return self._is_closed_outside or self.is_open(path, is_there)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        prepare: Callable[[], None],
        *,
        mask: Iterable[int] = (),
        default: Iterable[int] = (),
    ) -> int:
        """Start the command; its pid. `prepare` is called in the child before it is restricted.
        Raises as `sandbox.starting.restricted_start.start`."""

        def enter() -> None:
            prepare()
            self._ruleset.enforce()
            listener = self._filter.install()
            given = listener.to_bytes(4, sys.byteorder)
            self._theirs.sendmsg([b"\0"], [(_SOL_SOCKET, _SCM_RIGHTS, given)])

        return self._begun(start(command, environment, enter, mask=mask, default=default))

    def start_by(
        self,
        fork_server: ForkServer,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        streams: tuple[int, int],
    ) -> int:
        """Have a fork server start it, which is faster than forking a large process. Also raises
        GoneError: then nothing was started, and the caller may retry."""
        line = self._theirs.fileno()
        ruleset = self._ruleset.descriptor
        return self._begun(
            fork_server.start(command, environment, folder, streams, ruleset, line, self._filter)
        )

    def _begun(self, child: int) -> int:
        self._theirs.close()
        self._ruleset.close()
        self._trust.command = child
        return child

    def close(self) -> None:
        """The command could not be started, and there is no retry."""
        self._ours.close()
        self._theirs.close()
        self._ruleset.close()

    def broker(self, manager: LockManager, leases: Leases, *, wait: float | None = None) -> Broker:
        """The broker of the command that was started. With `wait`, a call waits in line for so many
        seconds."""
        from holdfast.gate.broker.assembly import assembled

        return assembled(
            manager, leases, self._zones, self._heard(), self._trust, self._is_left_to_kernel,
            is_open=self.is_open if self._is_closed_outside else None,
            wait=wait, committed=self._committed,
        )  # fmt: skip

    def outside(self) -> OutsideCalls:
        """Answers the command's calls until its broker is ready."""
        from holdfast.gate.broker.calls.outside_calls import OutsideCalls

        return OutsideCalls(self._heard(), self._trust, self._zones, self._is_left_to_kernel)

    def _heard(self) -> heard_calls.Listener:
        if self._listener is None:
            self._listener = heard_calls.Listener(_received(self._ours))
            self._ours.close()
        return self._listener


def _committed(roots: Iterable[str]) -> CommittedFiles:
    from holdfast.gate.broker.leasing.committed_files import CommittedFiles

    return CommittedFiles(roots)


def _received(line: _socket.socket) -> int:
    """The descriptor that was sent."""
    _data, sent, _flags, _address = line.recvmsg(1, _socket.CMSG_SPACE(4))
    for level, kind, given in sent:
        if (level, kind) == (_SOL_SOCKET, _SCM_RIGHTS):
            found = int.from_bytes(given[:4], sys.byteorder)
            os.set_inheritable(found, False)
            return found
    raise sandbox_error("cannot receive the command's calls", OSError(38, "no descriptor was sent"))


def _kept_apart() -> str:
    """Why a process may not read the memory of its own descendants; empty if it may."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = int(file.read())
    except (OSError, ValueError):
        return ""
    if scope < _YAMA_CLOSED or (scope == _YAMA_CLOSED and os.geteuid() == 0):
        return ""
    return f"kernel.yama.ptrace_scope is {scope}, which forbids reading a command's paths"


def _refuse_alias(folder: str) -> None:
    """Raise if a folder, or a part of it, can be reached through another mount: a Landlock rule is
    attached to the file itself, so opening it there would open it here."""
    from holdfast.gate.broker.places.mounts import aliases

    for place in aliases(folder):
        raise SandboxError(
            f"run --lease cannot work here: {plain(folder)} is also mounted at {plain(place)}, "
            "where it would stay open",
            hint="unmount it, or run the command in a mount namespace without it",
            path=plain(place),
        )


def _git_folders(root: str) -> list[str]:
    if is_bare(root):
        return [root]
    try:
        return git_folders(root)
    except SandboxError:
        return []


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def socket_path(root: str) -> str:
    """The socket for requests from inside."""
    return f"{root}/{LEDGER_FOLDER}/broker-{os.getpid()}"
