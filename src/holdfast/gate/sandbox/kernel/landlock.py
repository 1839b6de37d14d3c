"""Landlock: the system calls, what this kernel can do, and a ruleset.

A ruleset defines which rights are handled at all, and which of them are open on which file or below
which folder. A right that is handled and not open is refused; one that is not handled is
unrestricted. A rule is attached to the inode that a descriptor refers to, not to a name: a file
that is replaced by a rename is a different file, without a rule.

The C library has no wrappers, so the calls are made by number.
"""

from __future__ import annotations

import errno
import os
import sys

from holdfast.core.model import Value
from holdfast.gate.sandbox import SandboxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

WRITE_FILE = 1 << 1
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14

#: All rights that change something. Reading and executing are not handled, so they stay open.
MUTATING = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK
    | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM | REFER | TRUNCATE
)  # fmt: skip
#: The rights that apply to a single file; the others apply to the entries of a folder.
CONTENT = WRITE_FILE | TRUNCATE

#: The first version that knows a right.
_SINCE = ((REFER, 2), (TRUNCATE, 3))
#: Without TRUNCATE any process could empty any file.
ABI_NEEDED = 3
#: From this version on signals can be kept inside: Linux 6.12.
ABI_OF_SCOPES = 6
#: No signal leaves the sandbox. Processes inside may signal each other, and be signalled from
#: outside.
SCOPE_SIGNAL = 1 << 1

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
SET_NO_NEW_PRIVS = 38
#: Machines on which new system calls have other numbers.
_NUMBERED_OTHERWISE = ("alpha", "mips")

_WHY = {
    errno.ENOSYS: "this kernel has no Landlock, or a container hides it (Linux 5.13 brought it)",
    errno.EOPNOTSUPP: "Landlock is built into this kernel but switched off at boot",
    errno.EPERM: "something around this process, such as a container, forbids Landlock",
}


class Support(Value):
    """What the kernel can do: the version of its Landlock, or 0 and why there is none."""

    __slots__ = ("abi", "why")

    def __init__(self, abi: int, why: str = "") -> None:
        self.abi: Final = abi
        self.why: Final = why

    @property
    def is_enough(self) -> bool:
        """Whether it can enforce what the sandbox promises."""
        return self.abi >= ABI_NEEDED

    @property
    def scopes_signals(self) -> bool:
        """Whether it can keep signals inside."""
        return self.abi >= ABI_OF_SCOPES

    @property
    def unscoped(self) -> str:
        """Why signals leave the sandbox, as a part of a sentence; empty if they do not."""
        if self.scopes_signals:
            return ""
        return (
            f"the Landlock of this kernel is version {self.abi}, and only version {ABI_OF_SCOPES} "
            "(Linux 6.12) can keep signals inside"
        )

    @property
    def lacks(self) -> str:
        """What is missing, as a part of a sentence; empty if nothing is."""
        if self.is_enough:
            return ""
        if self.abi == 0:
            return self.why
        return (
            f"the Landlock of this kernel is version {self.abi}; before version {ABI_NEEDED} "
            "(Linux 6.2) it cannot keep a file from being truncated"
        )


def rights(abi: int) -> int:
    """The rights that a version knows, out of those that change something."""
    found = MUTATING
    for right, since in _SINCE:
        if abi < since:
            found &= ~right
    return found


def support() -> Support:
    """What this kernel can do."""
    if sys.platform != "linux":
        return Support(0, "this is not Linux, and Landlock is part of Linux")
    if os.uname().machine.startswith(_NUMBERED_OTHERWISE):
        return Support(0, f"Holdfast does not know how to call Landlock on {os.uname().machine}")
    try:
        call = syscall()
        abi = call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError as error:
        why = _WHY.get(error.errno or 0, f"the kernel refused Landlock: {error.strerror}")
        return Support(0, why)
    except (ImportError, AttributeError):
        return Support(0, "this Python has no ctypes, which is needed to call the kernel")
    return Support(abi)


class Ruleset:
    """What will be open. Created in the parent, which can still report errors; used in the
    child."""

    __slots__ = ("_call", "_fd", "handled")

    def __init__(self, abi: int, *, scoped: int = 0) -> None:
        """`scoped` is what does not leave the sandbox, if this version supports scopes."""
        self.handled: Final = rights(abi)
        self._call = syscall()
        prctl()  # now, so that a child finds it
        attributes = self.handled.to_bytes(8, sys.byteorder)
        if scoped and abi >= ABI_OF_SCOPES:
            # The rights of the network come before the scopes; none of them is handled.
            attributes += bytes(8) + scoped.to_bytes(8, sys.byteorder)
        try:
            self._fd = self._call(_CREATE_RULESET, attributes, len(attributes), 0)
        except OSError as error:
            raise sandbox_error("cannot make a ruleset", error) from error
        os.set_inheritable(self._fd, False)

    def open(self, fd: int, allowed: int) -> None:
        """Open the file of a descriptor, or everything below its folder. Raises OSError."""
        # A packed structure: the rights, then the descriptor.
        rule = (allowed & self.handled).to_bytes(8, sys.byteorder)
        rule += fd.to_bytes(4, sys.byteorder, signed=True)
        try:
            self._call(_ADD_RULE, self._fd, _PATH_BENEATH, rule, 0)
        except OSError as error:
            # A pipe, or a file in memory: these are in no file system tree and always open.
            if error.errno != errno.EBADFD:
                raise

    @property
    def descriptor(self) -> int:
        """The descriptor with which another process can be restricted: see `restrict`."""
        return self._fd

    def enforce(self) -> None:
        """Restrict this process and everything that it starts, permanently. Not the parent."""
        restrict(self._fd)

    def close(self) -> None:
        """Close it; processes that are restricted by it stay restricted."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def restrict(ruleset: int) -> None:
    """Restrict this process and everything that it starts, permanently, by the descriptor of a
    ruleset."""
    prctl()(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    syscall()(_RESTRICT_SELF, ruleset, 0)


def sandbox_error(what: str, error: OSError) -> SandboxError:
    """A SandboxError for what the kernel refused."""
    return SandboxError(
        f"{what}: {error.strerror or type(error).__name__}",
        hint="fix that, or use --sandbox=best-effort if an incomplete sandbox is enough",
    )


def syscall() -> Callable[..., int]:
    """The function that makes a system call by number. Raises OSError with the kernel's error."""
    return _call("syscall", "c_long")


def prctl() -> Callable[..., int]:
    """The same for `prctl`."""
    return _call("prctl", "c_int")


#: Looked up once, and before the first fork: the lookup costs more than the calls.
_calls: dict[str, Callable[..., int]] = {}


def _call(name: str, result: str) -> Callable[..., int]:
    found = _calls.get(name)
    if found is None:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        found = _calls[name] = _checked(getattr(library, name), getattr(ctypes, result))
    return found


def _checked(function: Any, result: Any) -> Callable[..., int]:
    import ctypes

    function.restype = result

    def call(*arguments: int | bytes | None) -> int:
        # All arguments are machine words: ctypes would pass a plain int as half of one.
        words = [
            ctypes.c_long(argument) if isinstance(argument, int) else argument
            for argument in arguments
        ]
        found = int(function(*words))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return found

    return call
