"""Paths: the one place where text becomes a key.

Two names of one file must have the same key, or two writers could each lock it. So a text is first
resolved (symbolic links, `..`, `.`, doubled slashes), by the kernel as far as the path exists, and
then made relative to the tree's root. A path that does not exist yet is the real path of its
deepest existing ancestor, followed by the rest. `..` is never removed from the text: after a
symbolic link it means something else.

A key is in Unicode's composed form, and in lower case where the file system folds case. The
original spelling is kept with it, for people and for I/O.

A file belongs to the nearest `.holdfast` folder above it, and to no other. Submodules are part
of the tree around them. A linked git worktree belongs to its repository: the ledger is that of the
main checkout, and the key of a file is its path from there (`../feature/app/x.rb`), so the same
file in two checkouts is two things. A worktree with its own `.holdfast` keeps that until `init`
takes it over.

Not covered:
- A key is valid for one moment. A process that moves folders can make the same text lead elsewhere.
- Case folding is determined once, for the root. A folder that differs from it (a mounted stick, a
  single folder with ext4's `+F`) is treated like the root.
- A bind mount inside the tree gives a file a second real path. Only the inode shows that both are
  the same file.
"""

from __future__ import annotations

import os
import stat
import sys

from holdfast.core import keys
from holdfast.core.model import Value
from holdfast.core.root_errors import BadKeyError
from holdfast.manager.clock import boot_id
from holdfast.manager.files import realpath
from holdfast.manager.files.realpath import WINDOWS, bad, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

LEDGER_FOLDER = ".holdfast"

#: The kernel's limit, minus the length of a ledger's folder inside the path.
_REAL_BYTES_MAX = keys.PATH_BYTES_MAX - len(LEDGER_FOLDER) - 2
#: The last character of Unicode is the open end of the range "everything below the root".
_RANGE_END = "\U0010ffff"
#: With another encoding, a file would have a different key than in a process that uses UTF-8.
_UTF8 = sys.getfilesystemencoding().lower().replace("-", "") == "utf8"
#: Unicode's ignorable characters that are not of the category Cf.
_IGNORABLES = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f"
)
_TYPE_BITS = 0o170000
_REGULAR = stat.S_IFREG
_FOLDER = stat.S_IFDIR

REMEMBERED_MAX = 1024


class Place(Value):
    """The thing that a requested text names.

    `key` is what is locked. `path` is the spelling, relative to the root, with a trailing slash for
    a folder; requested again, it leads to the same place. `real` is the absolute path for I/O.
    `inode` and `links` (its number of names) belong to an existing regular file; two hard links
    have different keys and the same `inode`. A resource has only a key and a path. `status` is the
    result of `lstat`, or None if the path does not exist.
    """

    __slots__ = ("_status", "folder", "inode", "key", "links", "path", "real")

    def __init__(
        self,
        key: str,
        path: str,
        real: str = "",
        folder: bool = False,
        inode: str = "",
        links: int = 0,
        status: os.stat_result | None = None,
    ) -> None:
        self.key: Final = key
        self.path: Final = path
        self.real: Final = real
        self.folder: Final = folder
        self.inode: Final = inode
        self.links: Final = links
        self._status: Final = status

    @property
    def status(self) -> os.stat_result | None:
        """The result of `lstat` when the path was resolved."""
        return self._status


class Tree:
    """The tree of files that one ledger covers.

    It stores only its root and whether case folds there (`folds`); everything else is read from the
    disk each time.
    """

    __slots__ = ("_inodes", "_plain", "_prefix", "folds", "root")

    def __init__(self, root: str, *, is_real: bool = False, is_shared: bool = False) -> None:
        """With `is_real`, the root is already resolved, and is a folder. With `is_shared`, other
        hosts use the same ledger: their files may have the same inode numbers."""
        if not is_real:
            given = root
            root, status, _ = realpath.resolve(realpath.absolute(given), given)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                raise bad(given, "is not a folder", "give the folder that the ledger covers")
        self.root: Final = root
        # The numbers of files belong to one running kernel, whatever containers it has.
        self._inodes: Final = f"{keys.INODE}:{boot_id()[:8]}-" if is_shared else f"{keys.INODE}:"
        self._prefix: Final = root if root.endswith("/") else f"{root}/"
        self.folds = _folds_case(root)
        self._plain: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}

    def inode(self, status: os.stat_result) -> str:
        """The key of a file by its inode."""
        return f"{self._inodes}{status.st_dev}-{status.st_ino}"

    def place(self, text: str | os.PathLike[str], *, base: str | None = None) -> Place:
        """The place that a text names: a resource (`port:5432`), or a path inside this tree.

        A relative path starts at `base`, or else at the root. Path objects are always paths.
        Anything else raises BadKeyError.
        """
        if base is None and type(text) is str:
            straight = self._straight(text)
            if straight is not None:
                return straight
        given = text if type(text) is str else _text_of(text)
        prefix = self._prefix
        # The root's own name may be invalid in a key: only the part below it is checked.
        inner = given[len(prefix) :] if given.startswith(prefix) else given
        if len(inner) > 255 or not inner.isascii() or not inner.isprintable():
            reject_unusable(inner, given)
        if not given or given.isspace():
            raise _blank(given)
        if ":" in given and isinstance(text, str):
            name = keys.resource(given)
            if name is not None:
                return Place(name, name)

        if base is None and given[0] != "/" and not WINDOWS:
            full = prefix + given
        else:
            full = self._joined(given, base)
        return self.place_of(given, *realpath.resolve(full, given))

    def _straight(self, given: str) -> Place | None:
        """The place of an ordinary path, or None.

        This is the fast path for nearly every request: a file, existing or not, below folders that
        are not links and have no ledger. Everything else takes the slow path.
        """
        plain = self._plain.get(given) or self._read(given)
        if plain is None or self.folds:
            return None
        whole, folders = plain
        try:
            for folder, ledger in folders:
                if os.lstat(folder).st_mode & _TYPE_BITS != _FOLDER or realpath.is_there(ledger):
                    return None
        except OSError:
            return None
        try:
            status = os.lstat(whole)
        except FileNotFoundError:
            return Place(given, given, whole)
        except OSError:
            return None
        if status.st_mode & _TYPE_BITS != _REGULAR:
            return None
        inode = self.inode(status)
        return Place(given, given, whole, False, inode, status.st_nlink, status)

    def _read(self, given: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """The absolute path for a text without special parts, with the folders on the way and the
        paths of possible ledgers in them. Cached, because none of this depends on the disk."""
        if (
            WINDOWS
            or not given
            or len(given) > 255
            or not given.isascii()
            or not given.isprintable()
            or given[0] in " ./"
            or given[-1] in " /"
            or ":" in given
            or "//" in given
            or "/." in given
        ):
            return None
        whole = self._prefix + given
        folders = []
        end = whole.find("/", len(self._prefix))
        while end > 0:
            folders.append((whole[:end], f"{whole[:end]}/{LEDGER_FOLDER}"))
            end = whole.find("/", end + 1)
        if len(self._plain) >= REMEMBERED_MAX:
            self._plain.clear()
        plain = self._plain[given] = (whole, tuple(folders))
        return plain

    def _joined(self, given: str, base: str | None) -> str:
        """The text as an absolute path, with nothing resolved yet."""
        if WINDOWS:
            return os.path.join(self.root, base or "", given).replace("\\", "/")
        if given[0] == "/":
            return given
        if base is None or base[:1] == "/":
            return f"{base or self.root}/{given}"
        return f"{self._prefix}{base}/{given}"

    def place_of(self, given: str, real: str, status: os.stat_result | None, known: int) -> Place:
        """The place of a resolved path, whose first `known` characters exist."""
        inside = len(self._prefix)
        if real.startswith(self._prefix):
            inner = real[inside:]
        elif checkout := self._checkout_of(real):
            inside = len(checkout)
            inner = f"{os.path.relpath(checkout, self.root)}{real[inside:]}"
        else:
            real, known = self._respelled(given, real, known)
            inner = real[inside:]
        if len(real) > 255 or not inner.isascii() or not inner.isprintable():
            reject_unusable(inner, given)
            if len(os.fsencode(real)) > _REAL_BYTES_MAX:
                raise bad(given, "leads to a path that is too long", "use shorter names")

        key = inner if inner.isascii() and not self.folds else _folded(inner, self.folds)
        if LEDGER_FOLDER in key and LEDGER_FOLDER in key.split("/"):
            raise bad(
                given,
                f"is inside {LEDGER_FOLDER}, which is Holdfast's own",
                "lock something else; Holdfast protects its ledger itself",
            )
        path = inner
        if not inner or ":" in key or inner.isspace():
            key = keys.path((key,))
            path = _unmistakable(inner, key, given)

        kind = status.st_mode & _TYPE_BITS if status is not None else 0
        if kind == _REGULAR and status is not None and not given.endswith(("/", "/.")):
            self._reject_nested(given, real, known - 1, inside)
            inode = self.inode(status)
            return Place(key, path, real, False, inode, status.st_nlink, status)
        if kind == _FOLDER:
            if inner:
                self._reject_nested(given, real, known - 1, inside)
                # This folder has not been entered yet: a missing permission is an error here.
                if _has_ledger(real):
                    raise _theirs(given, real)
            return Place(key, f"{path}/", real, True)
        self._reject_nested(given, real, known, inside)
        if not _asks_for_folder(given):
            return Place(key, path, real, status=status)
        if status is not None:
            raise bad(given, "is not a folder", "omit the trailing slash")
        return Place(key, f"{path}/", real, True)

    def _respelled(self, given: str, real: str, known: int) -> tuple[str, int]:
        """A real path that does not begin with the root's spelling, rewritten to begin with it.

        That is the root itself, or the root by another spelling where the file system folds case,
        or through a bind mount. Every other path is outside.
        """
        if real == self.root:
            return real, known
        for folder in realpath.upwards(real[:known]):
            if realpath.same_file(folder, self.root):
                existing = real[len(folder) + 1 : known]
                # On one of the two ways another file system may be mounted over it.
                if realpath.same_file(real[:known], self._prefix + existing):
                    below = real[len(folder) + 1 :]
                    return (self._prefix + below if below else self.root), (
                        len(self._prefix) + len(existing)
                    )
                break
        raise bad(
            given,
            "lies outside the tree",
            f"this ledger covers {plain(self.root)}; use -C with a folder of the other tree",
            root=plain(self.root),
        )

    def _checkout_of(self, real: str) -> str:
        """The linked worktree of this tree's repository that contains a path outside the root;
        empty if there is none."""
        checkout = checkout_of(self.root, real)
        return "" if checkout == self.root else checkout

    def _reject_nested(self, given: str, real: str, known: int, inside: int) -> None:
        """Refuse a path that belongs to a nearer ledger, because two ledgers could both grant it.

        Checks every folder from the first that ends at `inside` or later to the last that ends
        within `known`.
        """
        is_there = realpath.is_there
        whole = f"{real}/"
        end = whole.find("/", inside)
        while 0 < end <= known:
            if is_there(whole[:end] + "/.holdfast") and _has_ledger(whole[:end]):
                raise _theirs(given, real)
            end = whole.find("/", end + 1)


class Words:
    """A tree of names without a disk, for a manager in memory.

    A path is a folder if it ends with a slash. There are no links, inodes or case folding: two
    spellings that are the same file only on a disk are two things here.
    """

    __slots__ = ()

    def place(self, text: str | os.PathLike[str], *, base: str | None = None) -> Place:
        """The place for a text, by the text alone."""
        given = _text_of(text)
        if not given or given.isspace():
            raise _blank(given)
        reject_unusable(given, given)
        if isinstance(text, str):
            name = keys.resource(given)
            if name is not None:
                return Place(name, name)
        key = keys.lexical(given if base is None or given[0] == "/" else f"{base}/{given}")
        path = f"./{key}" if key.isspace() else key
        if key == keys.ROOT or _asks_for_folder(given):
            return Place(key, f"{path}/", folder=True)
        return Place(key, path)


def find_root(start: str) -> str | None:
    """The nearest folder at or above `start` that has a ledger.

    `start` may be a file or a folder, and need not exist. A symbolic link named `.holdfast` is not
    accepted: the sender of a repository could point it at any folder of the user.
    """
    return root_above(realpath.resolve(realpath.absolute(start), start)[0])


def root_above(real: str) -> str | None:
    """The same for a resolved path."""
    for folder in realpath.upwards(real):
        if _has_ledger(folder):
            return folder
        if _is_pointer(f"{folder}/.git"):
            root = _root_by_pointer(folder)
            if root is not None:
                return root
    return None


def checkout_of(root: str, real: str) -> str:
    """The checkout that contains a path, in the repository with the ledger at `root`: the root or a
    linked worktree. The root in case of doubt, and for paths in no checkout."""
    for folder in realpath.upwards(real):
        if folder == root:
            break
        if _is_pointer(f"{folder}/.git"):
            found = _root_by_pointer(folder)
            if found is not None:
                return folder if found == root else root
    return root


def file_of(root: str, path: str) -> str:
    """The absolute path for a path of the ledger at `root`, for opening and comparing files."""
    whole = f"{root}/{path.removeprefix('./')}"
    return os.path.normpath(whole) if path.startswith(keys.OUTSIDE) else whole


def _is_pointer(git: str) -> bool:
    """Whether a `.git` is a file, as in linked worktrees and submodules."""
    try:
        return stat.S_ISREG(os.lstat(git).st_mode)
    except OSError:
        return False


def _root_by_pointer(folder: str) -> str | None:
    """The root of the repository that a linked worktree belongs to."""
    from holdfast.manager.files.checkouts import home_of

    home = home_of(folder)
    return None if home is None else root_above(home)


def home_root(start: str) -> str:
    """The root whose ledger covers `start`, or will once the ledger is created.

    That is the root of the git work tree around it. A submodule is part of the work tree around
    it, and a linked worktree belongs to its main checkout. Without git it is the nearest existing
    folder.
    """
    real = realpath.resolve(realpath.absolute(start), start)[0]
    root = root_above(real)
    if root is not None:
        return root
    folders = realpath.upwards(real)
    with_git = [folder for folder in folders if os.path.lexists(f"{folder}/.git")]
    for folder in with_git:
        if _is_pointer(f"{folder}/.git"):
            from holdfast.manager.files.checkouts import home_of

            home = home_of(folder)
            if home is not None:
                return home_root(home) if os.path.lexists(f"{home}/.git") else home
        if not _is_submodule(f"{folder}/.git"):
            return folder
    return with_git[0] if with_git else next(filter(os.path.isdir, folders))


def _has_ledger(folder: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(f"{folder}/{LEDGER_FOLDER}").st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise realpath.trouble(error, folder) from error


def _is_submodule(git_file: str) -> bool:
    """Whether a `.git` is the pointer file of a submodule."""
    try:
        with open(git_file, encoding="utf-8", errors="surrogateescape") as file:
            pointer = file.read(keys.PATH_BYTES_MAX).strip()
    except OSError:
        return False
    _, git_folder, inside = pointer.rpartition(".git/")
    kinds = [name for name in inside.split("/") if name in ("modules", "worktrees")]
    return pointer.startswith("gitdir:") and git_folder != "" and kinds[-1:] == ["modules"]


def _folded(inner: str, folds: bool) -> str:
    """The canonical spelling for all spellings that the file system treats as the same path."""
    if WINDOWS:  # there `x.` and `x ` open `x`
        inner = "/".join(name.rstrip(". ") or name for name in inner.split("/"))
    if not folds:
        return keys.normal(inner)
    if inner.isascii():
        return inner.lower()
    from unicodedata import normalize

    folded = normalize("NFC", normalize("NFD", inner).casefold())
    return "/".join(map(_without_ignorables, folded.split("/")))


def _without_ignorables(name: str) -> str:
    """A name without the characters that a case-folding file system ignores.

    It may fold more than the disk does. Then two files share a lock, which is safe, whereas two
    locks for one file would not be.
    """
    from unicodedata import category

    kept = "".join(
        character
        for character in name
        if category(character) != "Cf" and character not in _IGNORABLES
    )
    return name if kept in ("", ".", "..") else kept


def _folds_case(root: str) -> bool:
    """Whether the file system ignores case.

    Tested with an existing entry. Links are not followed, because a link from one spelling to the
    other would look like folding.
    """
    for name in _entries(root):
        try:
            one = os.lstat(f"{root}/{name}")
        except OSError:
            continue
        try:
            return os.path.samestat(one, os.lstat(f"{root}/{name.swapcase()}"))
        except OSError:
            return False
    return sys.platform in ("darwin", "win32")


def _entries(root: str) -> Iterator[str]:
    """Names in a folder that have another spelling in case, on demand; at last the folder's own
    name, seen from above."""
    yield from (LEDGER_FOLDER, ".git")
    try:
        names = os.listdir(root)
    except OSError:
        names = []
    present = {*names, "", ".."}
    own = f"../{os.path.basename(root)}"
    yield from (name for name in names if name.isascii() and name.swapcase() not in present)
    if own.isascii() and own.swapcase() != own:
        yield own


def _text_of(text: object) -> str:
    try:
        given: object = os.fspath(text)  # type: ignore[call-overload]
    except TypeError:
        given = None
    if not isinstance(given, str):
        raise BadKeyError(
            f"a path is a text, not {type(text).__name__}",
            hint="give a str or a path object; decode bytes with os.fsdecode",
            key="",
        )
    return given


def _asks_for_folder(given: str) -> bool:
    if WINDOWS:
        given = given.replace("\\", "/")
    return given.endswith(("/", "/.", "/..")) or given in (".", "..")


def _unmistakable(inner: str, key: str, given: str) -> str:
    """A safe spelling for a path that would be refused, or read as a resource, as it is."""
    if WINDOWS and ":" in inner:
        raise bad(
            given, "contains a colon, which file names here cannot contain", "name the file itself"
        )
    if not inner:
        return keys.ROOT
    return f"./{inner}" if key.startswith("./") or inner.isspace() else inner


def reject_unusable(part: str, given: str) -> None:
    """Refuse characters and lengths that no key can have."""
    keys.reject_unprintable(part, given)
    keys.reject_oversized(part.split("/"), given)
    if part.isascii():
        return
    if not _UTF8:
        raise bad(
            given,
            "is not ASCII, and this process does not use UTF-8 for the names of files",
            "set PYTHONUTF8=1, or a locale with UTF-8",
        )
    if _RANGE_END in part:
        raise bad(given, "contains U+10FFFF, which is not a character", "rename the file")


def _theirs(given: str, real: str) -> BadKeyError:
    nested = plain(find_root(real) or real)
    return bad(
        given,
        f"belongs to the ledger of {nested}",
        f"use: holdfast -C {nested} …",
        root=nested,
    )


def _blank(given: str) -> BadKeyError:
    if not given:
        return BadKeyError("an empty path names nothing", hint="use . for the root", key="")
    return bad(given, "is blank", "write ./ before a name that consists of spaces")
