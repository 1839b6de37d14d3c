"""Real paths: where a path leads on disk, even if its end does not exist yet.

`os.path.realpath` is slow, and silently returns a guess where it lacks permission. This module asks
the kernel, and raises if there is no answer. An answer may be outdated immediately: any process
that moves folders can change it.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.root_errors import BadKeyError

WINDOWS = os.name == "nt"

#: The number of links that Linux follows before it reports a loop.
_LINKS_MAX = 40
_CHANGES_MAX = 10
_LINUX = sys.platform == "linux"
#: `faccessat2` is not usable everywhere: in some containers every call of it fails.
_QUICK_ACCESS = _LINUX and os.access("/", os.F_OK, effective_ids=True, follow_symlinks=False)
_PATH_ONLY: int = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)


def resolve(path: str, given: str) -> tuple[str, os.stat_result | None, int]:
    """The real path, its status, and how many characters of it exist.

    `path` is absolute. `given` is its name in errors. A dangling link counts as its target, because
    a write through it would create that.
    """
    for _ in range(_LINKS_MAX + 1):
        missing: list[str] = []
        while True:
            try:
                real, status = look(path, not missing)
                break
            except (FileNotFoundError, NotADirectoryError) as error:
                if path == "/":
                    raise trouble(error, given) from error
            except (OSError, ValueError) as error:
                raise trouble(error, given) from error
            path = _without_last(path, missing, given)
        if not missing:
            return real, status, len(real)
        stem = real if real.endswith("/") else f"{real}/"
        child = stem + missing[-1]
        # A path below a file is valid although it does not exist: there may have been, or will be,
        # a folder of that name, with files in it that are locked.
        if not is_there(child):
            missing.reverse()
            return stem + "/".join(missing), None, len(real)
        path = "/".join([_next_step(stem, missing.pop()), *reversed(missing)])
    raise bad(
        given,
        "is a loop of symbolic links, or keeps changing",
        "repair the link, or try again",
    )


def _without_last(path: str, missing: list[str], given: str) -> str:
    """The path without its last name, which is added to the missing ones."""
    path, _, name = path.rpartition("/")
    if name == "..":
        raise bad(
            given,
            "goes up from a folder that does not exist",
            "omit the `..`, or create the folder first",
        )
    if name and name != ".":
        missing.append(name)
    return path if path and not (WINDOWS and path.endswith(":")) else f"{path}/"


def _next_step(stem: str, name: str) -> str:
    """The next path to try after a name that exists but was not found: its link's target."""
    try:
        target = os.readlink(stem + name)
    except OSError:
        return stem + name  # it has just been created, removed or changed: try again
    if WINDOWS:
        target = target.replace("\\", "/").removeprefix("//?/")
    return target if is_absolute(target) else stem + target


def look_by_descriptor(path: str, wants_status: bool) -> tuple[str, os.stat_result | None]:
    """The real path and its status, from the kernel. Linux only."""
    descriptor = os.open(path, _PATH_ONLY)
    try:
        status = os.fstat(descriptor) if wants_status else None
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no /proc, or too long for it: not an error of the path
        real = ""
    finally:
        os.close(descriptor)
    # "… (deleted)" may be a name or a remark. A result that is not a path is unreachable here.
    if real[:1] != "/" or real.endswith(" (deleted)"):
        return look_by_name(path, wants_status)
    return real, status


def look_by_name(path: str, wants_status: bool) -> tuple[str, os.stat_result | None]:
    """The real path and its status, by walking. It takes many steps, so it checks the result."""
    for _ in range(_CHANGES_MAX):
        status = os.stat(path)
        real = os.path.realpath(path, strict=True)
        if os.path.samestat(os.stat(real), status):
            return (real.replace("\\", "/") if WINDOWS else real), status
    from errno import EBUSY

    raise OSError(EBUSY, "it keeps changing")


look = look_by_descriptor if _LINUX else look_by_name


def is_there(path: str) -> bool:
    """Whether an entry exists, link or not, in a folder that is known to be searchable."""
    if _QUICK_ACCESS:
        return os.access(path, os.F_OK, effective_ids=True, follow_symlinks=False)
    return os.path.lexists(path)


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to the same existing file."""
    try:
        return os.path.samestat(os.stat(one), os.stat(other))
    except (OSError, ValueError):
        return False


def absolute(text: str) -> str:
    """A text as an absolute path, not resolved."""
    if not is_absolute(text):
        try:
            text = os.path.join(os.getcwd(), text)
        except OSError as error:
            raise trouble(error, text) from error
    return text.replace("\\", "/") if WINDOWS else text


def is_absolute(path: str) -> bool:
    """Whether a path does not depend on the current folder."""
    return os.path.isabs(path) if WINDOWS else path.startswith("/")


def upwards(folder: str) -> list[str]:
    """A folder and all folders above it."""
    found = [folder]
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        found.append(folder)
    return found


def trouble(error: Exception, given: str) -> BadKeyError:
    """The error for an error of the system while resolving a path."""
    import errno

    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ELOOP:
        return bad(given, "is a loop of symbolic links", "repair the link")
    if code in (errno.EACCES, errno.EPERM):
        return bad(
            given,
            "cannot be resolved: permission denied",
            "get permission to search its folders; until then it cannot be resolved",
        )
    if code == errno.ENAMETOOLONG:
        return bad(given, "is too long for a path", "use shorter names")
    said = error.strerror if isinstance(error, OSError) else str(error)
    return bad(given, f"cannot be resolved: {plain(said or type(error).__name__)}", "try again")


def bad(given: str, sentence: str, hint: str, **fields: str) -> BadKeyError:
    """The error for a text, shortened and made printable."""
    shown = repr(given) if len(given) <= 80 else f"{given[:80]!r}…"
    return BadKeyError(f"{shown} {sentence}", hint=hint, key=plain(given[:80]), **fields)


def plain(text: str) -> str:
    """A printable and storable form of a text, whatever bytes it came from."""
    return text.encode("utf-8", "backslashreplace").decode()
