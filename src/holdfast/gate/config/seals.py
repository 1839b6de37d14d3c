"""Whether another program changed the files that control the gate, found by a stat of each file.

A script outside a sandbox can write the clients' settings and `.holdfast/off`. So `.holdfast/seals`
records the state of each file when Holdfast itself last wrote or checked it: one line each, with
the file's identity and a digest of our part of it. At every event the files are compared with the
seals. Only a file that differs is read, and the user is warned only if our part differs: clients
write their settings too, for permissions and the like.

What this does not promise: a change is not reported if no event follows it. A client that was
started with settings without our hooks sends none. And a script that writes the seals too is not
detected.
"""

from __future__ import annotations

import os

from holdfast.core.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: As in `gate.door`, which looks for it first.
FILE = ".holdfast/seals"
OFF = ".holdfast/off"
#: The files that clients read in a repository and that can disable hooks there.
SETTINGS = (
    ".claude/settings.local.json", ".claude/settings.json", ".codex/hooks.json",
    ".codex/config.toml",
)  # fmt: skip
_ABSENT = "-"
_BYTES_MAX = 1 << 20
_SEALS_BYTES_MAX = 1 << 14
#: The event of a change that Holdfast did not make itself.
CHANGED = "switch_changed"


def changed(root: str) -> list[str]:
    """The files whose state differs from their seal; empty where nothing was sealed."""
    try:
        file = os.open(f"{root}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        lines = os.read(file, _SEALS_BYTES_MAX).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    finally:
        os.close(file)
    found = []
    for line in lines:
        look, _, rest = line.partition("\t")
        name = rest.rpartition("\t")[2]
        if name and _look(f"{root}/{name}") != look:
            found.append(name)
    return found


def notice(root: str, names: Iterable[str]) -> dict[str, str]:
    """A sentence on each changed file, by its name, where the change matters. The files are sealed
    again in their present state, so each change is reported once."""
    known = _sealed(root)
    told = {}
    for name in names:
        digest = _digest(root, name)
        if digest != known.get(name, ("", ""))[1] and _has_checkout(root, name):
            told[name] = _told(name, digest)
    seal(root, names)
    return told


def seal_all(root: str) -> None:
    """Accept the present state of the switch and of the settings of all checkouts."""
    from holdfast.manager.files.checkouts import linked

    names = [OFF]
    for checkout in (root, *linked(root)):
        names += [os.path.relpath(f"{checkout}/{name}", root) for name in SETTINGS]
    seal(root, names)


def seal(root: str, names: Iterable[str]) -> None:
    """Accept the present state of these files. Never raises: a gate that cannot record it reports
    the change again."""
    known = _sealed(root)
    for name in names:
        known[name] = (_look(f"{root}/{name}"), _digest(root, name))
        if not _has_checkout(root, name):
            del known[name]
    lines = [f"{look}\t{digest}\t{name}\n" for name, (look, digest) in known.items()]
    from holdfast.manager.files.replace_file import replace_file

    try:
        replace_file(f"{root}/{FILE}", "".join(lines).encode())
    except OSError:
        return


def seal_off(root: str) -> None:
    """The same for the switch alone, where anything is sealed."""
    if os.path.lexists(f"{root}/{FILE}"):
        seal(root, [OFF])


def unseal(root: str) -> None:
    """Remove all seals: the repository is no longer guarded."""
    try:
        os.unlink(f"{root}/{FILE}")
    except FileNotFoundError:
        return


def _has_checkout(root: str, name: str) -> bool:
    """Whether the checkout of a file is there: a worktree that was removed is no change."""
    return os.path.isdir(os.path.dirname(os.path.dirname(f"{root}/{name}")))


def _sealed(root: str) -> dict[str, tuple[str, str]]:
    try:
        with open(f"{root}/{FILE}", encoding="utf-8") as file:
            found = [_fields(line) for line in file.read().splitlines()]
    except (OSError, ValueError):
        return {}
    return {name: (look, digest) for name, look, digest in found if name}


def _fields(line: str) -> tuple[str, str, str]:
    parts = line.split("\t")
    return (parts[2], parts[0], parts[1]) if len(parts) == 3 else ("", "", "")


def _look(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return _ABSENT
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def _digest(root: str, name: str) -> str:
    """The digest of the part of a file that controls the gate: files with the same digest have the
    same effect."""
    path = f"{root}/{name}"
    if name == OFF:
        return _ABSENT if _look(path) == _ABSENT else "off"
    try:
        with open(path, "rb") as file:
            text = file.read(_BYTES_MAX).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return _ABSENT
    if name.endswith(".toml"):
        from holdfast.gate.guard.switch_files import has_hooks_off

        return "off" if has_hooks_off(text) else _ABSENT
    from holdfast.gate.guard.switch_files import (
        CODEX_KEYS,
        object_in,
        our_hooks,
        our_prefix,
    )

    settings = object_in(text)
    ours = [(one[0], *one[3:]) for one in our_hooks(settings)]
    off = bool(settings.get("disableAllHooks"))
    if "/.claude/" in f"/{name}" and (prefix := our_prefix(settings)):
        ours.append((prefix,))
    if "/.codex/" in f"/{name}":
        off = bool(ours) and not CODEX_KEYS.issuperset(settings)
    return _short([ours, off]) if ours or off else _ABSENT


def _short(value: object) -> str:
    from hashlib import sha256

    return sha256(dumps(value).encode("utf-8", "replace")).hexdigest()[:32]


def _told(name: str, digest: str) -> str:
    if name == OFF:
        if digest == _ABSENT:
            return f"the gate was switched on again: {OFF} was removed"
        return (
            f"a program, or a person by hand, wrote {OFF}, so edits are not checked; "
            "switch the gate on: holdfast on"
        )
    return (
        f"{name} was changed, and Holdfast's hooks in it are no longer intact: agents that start "
        "now may not be checked. If you did not do this, run: holdfast init"
    )
