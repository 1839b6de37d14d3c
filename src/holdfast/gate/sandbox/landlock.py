"""Landlock: the system calls, what this kernel can do, and a ruleset.

A ruleset says which rights are handled at all, and which of them are open on which file or below
which folder. What is handled and not open is refused; what is not handled is as free as before.
Rules bind to the inode that a descriptor names, not to a name: a file that is replaced by a
rename is another file, without a rule.

There is no wrapper in the C library, so the calls are made by number.
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

#: All that changes something. Reading and executing are not handled, so they stay free.
MUTATING = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK
    | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM | REFER | TRUNCATE
)  # fmt: skip
#: What can be said of a single file; the rest is about what is in a folder.
CONTENT = WRITE_FILE | TRUNCATE

#: The first version that knows a right.
_SINCE = ((REFER, 2), (TRUNCATE, 3))
#: Without TRUNCATE anybody could empty any file.
ABI_NEEDED = 3
#: From this version on signals can be kept inside: Linux 6.12.
ABI_OF_SCOPES = 6
#: No signal leaves the sandbox. Those inside may signal each other; outside they may be signalled.
SCOPE_SIGNAL = 1 << 1

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
SET_NO_NEW_PRIVS = 38
#: Here new system calls have other numbers.
_NUMBERED_OTHERWISE = ("alpha", "mips")

_WHY = {
    errno.ENOSYS: "this kernel has no Landlock, or a container hides it (Linux 5.13 brought it)",
    errno.EOPNOTSUPP: "Landlock is built into this kernel but switched off at boot",
    errno.EPERM: "something around this process, such as a container, forbids Landlock",
}


class Support(Value):
    """What the kernel can do: the version of its Landlock, 0 if there is none, and why."""

    __slots__ = ("abi", "why")

    def __init__(self, abi: int, why: str = "") -> None:
        self.abi: Final = abi
        self.why: Final = why

    @property
    def is_enough(self) -> bool:
        """Whether it can keep what the sandbox promises."""
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
    """The rights that a version knows, of those that change something."""
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
        call = kernel()
        abi = call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError as error:
        why = _WHY.get(error.errno or 0, f"the kernel refused Landlock: {error.strerror}")
        return Support(0, why)
    except (ImportError, AttributeError):
        return Support(0, "this Python has no ctypes, which is needed to call the kernel")
    return Support(abi)


class Ruleset:
    """What will be open. Made in the parent, where trouble can still be told; used in the child."""

    __slots__ = ("_call", "_fd", "handled")

    def __init__(self, abi: int, *, scoped: int = 0) -> None:
        """`scoped` is what does not leave the sandbox, as far as this version can keep it in."""
        self.handled: Final = rights(abi)
        self._call = kernel()
        prctl()  # now, so that a child finds it
        attributes = self.handled.to_bytes(8, sys.byteorder)
        if scoped and abi >= ABI_OF_SCOPES:
            # Before the scopes stand the rights of the network, of which none is handled.
            attributes += bytes(8) + scoped.to_bytes(8, sys.byteorder)
        try:
            self._fd = self._call(_CREATE_RULESET, attributes, len(attributes), 0)
        except OSError as error:
            raise trouble("cannot make a ruleset", error) from error
        os.set_inheritable(self._fd, False)

    def open(self, fd: int, allowed: int) -> None:
        """Open a file, or all below a folder, that a descriptor names. Raises OSError."""
        # A packed structure: the rights, then the descriptor.
        rule = (allowed & self.handled).to_bytes(8, sys.byteorder)
        rule += fd.to_bytes(4, sys.byteorder, signed=True)
        try:
            self._call(_ADD_RULE, self._fd, _PATH_BENEATH, rule, 0)
        except OSError as error:
            # A pipe, or a file in memory: those have no place in any tree and are always open.
            if error.errno != errno.EBADFD:
                raise

    @property
    def descriptor(self) -> int:
        """By which another process can be restricted: see `restrict`."""
        return self._fd

    def enforce(self) -> None:
        """From now on, for this process and all that it starts, for ever. Not for the parent."""
        restrict(self._fd)

    def close(self) -> None:
        """Let go of it; whoever is restricted by it stays so."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def restrict(ruleset: int) -> None:
    """By a descriptor of a ruleset: this process and all that it starts, for ever."""
    prctl()(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    kernel()(_RESTRICT_SELF, ruleset, 0)


def trouble(what: str, error: OSError) -> SandboxError:
    """What the kernel refused, as one of ours."""
    return SandboxError(
        f"{what}: {error.strerror or type(error).__name__}",
        hint="fix that, or use --sandbox=best-effort if an incomplete sandbox is enough",
    )


def kernel() -> Callable[..., int]:
    """The way to call the kernel by number. Raises OSError with what it says."""
    return _call("syscall", "c_long")


def prctl() -> Callable[..., int]:
    """The same for what a process may say about itself."""
    return _call("prctl", "c_int")


#: Found once, and before the first fork: to look them up costs more than to make the calls.
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
        # All arguments are machine words: a plain int would be passed as half of one.
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
