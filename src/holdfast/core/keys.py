"""Keys: the canonical text of one thing that can be locked.

A key is a plain string. A path is relative to the root of its tree, with `/` between
components and none at the end (`app/x.rb`); the root itself is `.`. A path in another checkout
of the repository, a linked worktree, begins with `../` and counts as outside the root, wherever
that checkout is. A named resource is `kind:name` (`port:5432`). A path that would read as a
resource is written with a leading `./`, so every text has one meaning.

Keys do not depend on the disk: symbolic links, case and `..` are resolved before a text becomes
a key (see `holdfast.manager.files.paths`).
"""

from __future__ import annotations

from holdfast.core.root_errors import BadKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = "."
#: The prefix of paths in a checkout outside the root.
OUTSIDE = "../"

#: Resources that any holder may lock by name.
GENERIC_KINDS = ("port", "db", "git", "res")

#: Kinds that belong to a service, and the command for them.
SERVICE_KINDS = {
    "spec": "holdfast spec lock NAME",
    "node": "holdfast proof claim NODE",
    "worktree": "holdfast tree lock acquire",
}

#: A file by its inode, so that two names of one file are the same thing.
INODE = "inode"

#: A file by the path that it has in every checkout of its repository.
REPO = "repo"

#: Not lockable: a store may keep rows about grants under this kind.
GRANT = "grant"

#: Kinds whose expired leases only an explicit steal takes over.
STEAL_ONLY_KINDS = ("worktree",)

KINDS = frozenset((*GENERIC_KINDS, *SERVICE_KINDS, INODE, REPO, GRANT))

COMPONENT_BYTES_MAX = 255
PATH_BYTES_MAX = 4096
NAME_CHARACTERS_MAX = 200


def kind(key: str) -> str:
    """The kind of a key: `path`, or the text before its colon."""
    if ":" in key:
        before = key[: key.index(":")]
        if before in KINDS:
            return before
    return "path"


def resource(text: str) -> str | None:
    """The key of a named resource, or None when the text is a path."""
    of_kind = kind(text)
    if of_kind == "path":
        return None
    name = text[len(of_kind) + 1 :]
    if of_kind in SERVICE_KINDS:
        raise BadKeyError(
            f"{text!r} is not locked with the generic commands",
            hint=f"use: {SERVICE_KINDS[of_kind]}",
            key=text,
        )
    if of_kind in (INODE, REPO, GRANT):
        raise BadKeyError(
            f"{text!r} cannot be locked by hand",
            hint=f"lock a file by its path; a file of that name is ./{text}",
            key=text,
        )
    reject_unprintable(name, text)
    if not name or name != name.strip() or len(name) > NAME_CHARACTERS_MAX:
        raise BadKeyError(
            f"{text!r} has no usable name after {of_kind}:",
            hint=f"give 1 to {NAME_CHARACTERS_MAX} characters without leading or trailing spaces",
            key=text,
        )
    if of_kind == "port" and not _is_port(name):
        raise BadKeyError(
            f"{text!r} is not a port",
            hint="give a number from 1 to 65535, without leading zeros",
            key=text,
        )
    return f"{of_kind}:{normal(name)}"


def _is_port(name: str) -> bool:
    return name.isascii() and name.isdigit() and name[0] != "0" and int(name) <= 65535


def path(components: Iterable[str]) -> str:
    """The key of a path, from its components, which are already case-folded."""
    joined = "/".join(components)
    if not joined:
        return ROOT
    return f"./{joined}" if kind(joined) != "path" else joined


def lexical(text: str) -> str:
    """The key of a path from its text alone, for stores without a disk."""
    reject_unprintable(text, text)
    if text.startswith("/"):
        raise BadKeyError(
            f"{text!r} is absolute", hint="give a path relative to the root", key=text
        )
    components: list[str] = []
    for component in text.split("/"):
        if component == "..":
            if not components:
                raise BadKeyError(
                    f"{text!r} leads out of the tree", hint="stay below the root", key=text
                )
            components.pop()
        elif component and component != ".":
            components.append(component)
    if not text:
        raise BadKeyError("an empty path names nothing", hint="use . for the root", key=text)
    reject_oversized(components, text)
    return path(map(normal, components))


def reject_unprintable(part: str, text: str) -> None:
    """Refuse characters that could not be stored, or could forge a line of the log."""
    if part.isascii() and part.isprintable():
        return
    for character in part:
        code = ord(character)
        if code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or code in (0x2028, 0x2029):
            raise BadKeyError(
                f"{text[:80]!r} contains a character that cannot be part of a key",
                hint="rename it: no control characters, line breaks or bytes that are not UTF-8",
                key=text[:80].encode("utf-8", "backslashreplace").decode(),
            )


def reject_oversized(components: Iterable[str], text: str) -> None:
    """Refuse a name that is too long for any file system."""
    total = 0
    for component in components:
        size = len(component.encode())
        total += size + 1
        if size > COMPONENT_BYTES_MAX or total > PATH_BYTES_MAX:
            raise BadKeyError(
                f"{text[:80]!r}… is too long for a path",
                hint=f"at most {COMPONENT_BYTES_MAX} bytes per component, "
                f"{PATH_BYTES_MAX} in total",
                key=text[:80],
            )


def normal(text: str) -> str:
    """The text in Unicode's composed form (NFC): one spelling for texts that look the same."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def ancestors(key: str) -> list[str]:
    """The folders that contain a key, nearest first and the root last; for a path outside the
    root, only the folders below the last `..`."""
    if kind(key) != "path" or key == ROOT:
        return []
    found: list[str] = []
    slash = key.rfind("/")
    while slash > 0:
        parent = key[:slash]
        if f"/{parent}"[-3:] == "/..":
            return found
        if parent != ROOT:
            found.append(parent)
        slash = key.rfind("/", 0, slash)
    found.append(ROOT)
    return found


def is_outside(key: str) -> bool:
    """Whether a path is outside the root, in another checkout of the repository."""
    return key.startswith(OUTSIDE)


def below(key: str) -> tuple[str, str] | None:
    """The open range that contains every key inside a path; None for a resource.

    The root's range contains all texts: `overlap` excludes those that are not inside the root.
    """
    if kind(key) != "path":
        return None
    if key == ROOT:
        return "", "\U0010ffff"
    return f"{key}/", f"{key}0"  # "0" is the character after "/"


def overlap(one: str, other: str) -> bool:
    """Whether two keys are the same, or one contains the other."""
    if one == other:
        return True
    if one == ROOT:
        return kind(other) == "path" and not is_outside(other)
    if other == ROOT:
        return kind(one) == "path" and not is_outside(one)
    if len(one) < len(other):
        return other.startswith(f"{one}/") and kind(one) == "path"
    return one.startswith(f"{other}/") and kind(other) == "path"
