"""Other paths to the same folder: mounts of its file system at a second place."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def aliases(folder: str, lines: Iterable[str] | None = None) -> list[str]:
    """The other paths of a folder, or of something in it. `lines` are those of the kernel's mount
    table."""
    mounts = list(_mounts(_table() if lines is None else lines))
    around = [mount for mount in mounts if _is_below(folder, mount[2])]
    if not around:
        return []
    # The last one with the longest mount point counts: it covers those before it.
    device, top, point = max(enumerate(around), key=lambda one: (len(one[1][2]), one[0]))[1]
    inside = _joined(top, folder[len(point.rstrip("/")) :])
    found: list[str] = []
    for other_device, other_top, other_point in mounts:
        if other_device != device or other_point == point:
            continue
        if _is_below(inside, other_top):
            found.append(_joined(other_point, inside[len(other_top.rstrip("/")) :]))
        elif _is_below(other_top, inside):
            known = _joined(folder, other_top[len(inside.rstrip("/")) :])
            if other_point != known:  # otherwise it is mounted over itself
                found.append(other_point)
    return [place for place in found if place != folder]


def _table() -> list[str]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _mounts(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The device of each mount, the folder of it that is mounted, and the mount point."""
    for line in lines:
        fields = line.split(" ")
        if len(fields) > 4:
            yield fields[2], _plain(fields[3]), _plain(fields[4])


def _plain(field: str) -> str:
    for written, meant in _ESCAPES:
        field = field.replace(written, meant)
    return field


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _joined(folder: str, rest: str) -> str:
    return f"{folder.rstrip('/')}{rest}" or "/"
