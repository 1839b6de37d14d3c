"""Loads modules from the bundle that `bundle` makes; its first part is this module.

The modules that every edit needs are created immediately and in order, the others when they are
imported.
"""

from __future__ import annotations

import sys
from marshal import loads
from os import lstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import FileIO
    from types import CodeType, ModuleType
    from typing import Any

    #: A path with its time and size when the bundle was made.
    Stamp = tuple[str, int, int]
    #: A module's name, whether it is a package, its source, and its code.
    Usual = tuple[str, bool, str, CodeType]
    #: Whether it is a package, its source, where its code begins behind the first part of the
    #: file, and how long that is.
    Rare = tuple[bool, Stamp, int, int]
    Rares = dict[str, Rare]


class Rest:
    """Finds and loads those modules of the bundle that are seldom needed."""

    __slots__ = ("_begin", "_codes", "_file", "_parts", "_spec")

    def __init__(self, file: FileIO, parts: Rares) -> None:
        self._file = file
        self._begin = file.tell()
        self._parts = parts
        self._codes: dict[str, CodeType] = {}
        self._spec: Any = type(sys.__spec__)  # without the import of importlib

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        part = self._parts.get(name)
        if part is None:
            return None
        is_package, stamp, start, size = part
        if not _as_it_was(stamp):
            return None
        try:
            self._file.seek(self._begin + start)
            self._codes[name] = loads(self._file.read(size))
        except (OSError, ValueError, EOFError, TypeError):  # damaged: the usual import follows
            return None
        file = stamp[0]
        spec = self._spec(name, self, origin=file, is_package=is_package)
        if is_package:
            spec.submodule_search_locations = [file.rpartition("/")[0]]
        spec.has_location = True
        return spec

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._codes.pop(module.__name__), module.__dict__)


def use(
    file: FileIO, room: str, made_for: str, stamps: list[Stamp], usual: list[Usual], rare: Rares
) -> bool:
    """Import from the bundle, if all sources are unchanged, and if it was made for this package: a
    copied package has a copied bundle."""
    if room != made_for:
        return False
    for stamp in stamps:
        if not _as_it_was(stamp):
            return False
    try:
        for name, is_package, source, code in usual:
            _make(name, is_package, source, code)
    except BaseException:
        for name, *_rest in usual:
            sys.modules.pop(name, None)
        raise
    sys.meta_path.insert(0, Rest(file, rare))
    return True


def lighten() -> None:
    """Import the database's module without what it imports itself.

    It wants one function of functools, which brings five more modules of the library along and
    takes as long to import as the whole decision takes. The C part of that function is enough.
    """
    if "functools" in sys.modules or "_sqlite3" in sys.modules:
        return
    try:
        from _functools import _lru_cache_wrapper  # type: ignore[import-not-found]
    except ImportError:
        return

    def lru_cache(maxsize: int | None = 128, typed: bool = False) -> Any:
        return lambda function: _lru_cache_wrapper(function, maxsize, typed, tuple)

    stand_in = type(sys)("functools")
    stand_in.lru_cache = lru_cache  # type: ignore[attr-defined]
    sys.modules["functools"] = stand_in
    try:
        import _sqlite3  # noqa: F401
    except ImportError:
        pass
    finally:
        del sys.modules["functools"]


def _make(name: str, is_package: bool, file: str, code: CodeType) -> None:
    """Make a module that is sure to be needed, past the machinery that would find it."""
    above, _, last = name.rpartition(".")
    module = type(sys)(name)
    module.__file__ = file
    module.__package__ = name if is_package else above
    if is_package:
        module.__path__ = [file.rpartition("/")[0]]
    sys.modules[name] = module
    exec(code, module.__dict__)
    if above:
        setattr(sys.modules[above], last, module)


def _as_it_was(stamp: Stamp) -> bool:
    status = lstat(stamp[0])
    return status.st_mtime_ns == stamp[1] and status.st_size == stamp[2]
