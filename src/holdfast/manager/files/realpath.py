"""Real paths: where a path leads on disk, also when its end does not exist yet.

`os.path.realpath` is slow, and quietly makes something up when it may not look. This asks the
kernel, and says so when there is no answer. It does not promise that the answer still holds
when it arrives: whoever can move folders about can change it.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.root_errors import BadKeyError

WINDOWS = os.name == "nt"

#: As many as Linux follows before it calls it a loop.
_LINKS_MAX = 40
_CHANGES_MAX = 10
_LINUX = sys.platform == "linux"
#: Not everywhere may `faccessat2` be called: some containers answer "no" to everything.
_QUICK_ACCESS = _LINUX and os.access("/", os.F_OK, effective_ids=True, follow_symlinks=False)
_PATH_ONLY: int = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)


def resolve(path: str, given: str) -> tuple[str, os.stat_result | None, int]:
    """The real path, what is there, and how many characters of it exist.

    `path` is absolute. `given` is what errors call it. A link that leads to nothing counts as
    what it leads to, as that is what a write through it would make.
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
        # Below a file there is nothing, and it is a path all the same: the folder that was there,
        # or will be, has things in it that somebody may hold.
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
    """The path one step up; the name that is taken off it goes to the missing ones."""
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
    """Where to look next when nothing was found by a name that is there: at its link's target."""
    try:
        target = os.readlink(stem + name)
    except OSError:
        return stem + name  # it came, went or changed just now: look again
    if WINDOWS:
        target = target.replace("\\", "/").removeprefix("//?/")
    return target if is_absolute(target) else stem + target


def look_by_descriptor(path: str, wants_status: bool) -> tuple[str, os.stat_result | None]:
    """What is there and its real path, as the kernel knows it. Linux only."""
    descriptor = os.open(path, _PATH_ONLY)
    try:
        status = os.fstat(descriptor) if wants_status else None
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no /proc, or longer than it can say; this is not about the path
        real = ""
    finally:
        os.close(descriptor)
    # "… (deleted)" may be a name or a remark. What is no path is out of reach from here.
    if real[:1] != "/" or real.endswith(" (deleted)"):
        return look_by_name(path, wants_status)
    return real, status


def look_by_name(path: str, wants_status: bool) -> tuple[str, os.stat_result | None]:
    """What is there and its real path, by walking. Many steps, so it checks where it arrived."""
    for _ in range(_CHANGES_MAX):
        status = os.stat(path)
        real = os.path.realpath(path, strict=True)
        if os.path.samestat(os.stat(real), status):
            return (real.replace("\\", "/") if WINDOWS else real), status
    from errno import EBUSY

    raise OSError(EBUSY, "it keeps changing")


look = look_by_descriptor if _LINUX else look_by_name


def is_there(path: str) -> bool:
    """Whether there is an entry, link or not, in a folder that is known to be searchable."""
    if _QUICK_ACCESS:
        return os.access(path, os.F_OK, effective_ids=True, follow_symlinks=False)
    return os.path.lexists(path)


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one thing that exists."""
    try:
        return os.path.samestat(os.stat(one), os.stat(other))
    except (OSError, ValueError):
        return False


def absolute(text: str) -> str:
    """A text from outside as an absolute path, with nothing resolved yet."""
    if not is_absolute(text):
        try:
            text = os.path.join(os.getcwd(), text)
        except OSError as error:
            raise trouble(error, text) from error
    return text.replace("\\", "/") if WINDOWS else text


def is_absolute(path: str) -> bool:
    """Whether a path does not depend on where one stands."""
    return os.path.isabs(path) if WINDOWS else path.startswith("/")


def upwards(folder: str) -> list[str]:
    """A folder and all above it."""
    found = [folder]
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        found.append(folder)
    return found


def trouble(error: Exception, given: str) -> BadKeyError:
    """What the kernel said while it followed a path, in words."""
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
    """The error that says what is wrong with a text, however long or strange it is."""
    shown = repr(given) if len(given) <= 80 else f"{given[:80]!r}…"
    return BadKeyError(f"{shown} {sentence}", hint=hint, key=plain(given[:80]), **fields)


def plain(text: str) -> str:
    """A text that can be printed and stored, whatever bytes it was made of."""
    return text.encode("utf-8", "backslashreplace").decode()
