"""What the hook usually needs, in one file: found, opened and read once instead of forty times.

`init` writes it beside the compiled modules. It counts only as long as every source in it is the
one that it was made from; otherwise, or without it, everything is imported as usual, only slower.
Its first part is this very module, which the hook runs to use the rest.
"""

from __future__ import annotations

import sys
from marshal import dumps, loads
from os import lstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    #: Whether it is a package, its source, that file's time and size, and its code.
    Part = tuple[bool, str, int, int, bytes]

#: Rooms and files that an ordinary edit needs.
ROOMS = ("", "core", "store", "manager", "gate", "gate/clients")
LEFT_OUT = frozenset(
    (
        "py", "__main__", "memory", "contract", "keeper", "committing", "githooks", "gitfiles",
        "stashing", "replacing", "writing", "hook", "bundle", "telling", "switch",
    )
)  # fmt: skip


class Bundle:
    """Finds and loads what is in the bundle."""

    __slots__ = ("_parts", "_spec")

    def __init__(self, parts: dict[str, Part]) -> None:
        self._parts = parts
        self._spec: Any = type(sys.__spec__)  # without the import of importlib

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        part = self._parts.get(name)
        if part is None:
            return None
        spec = self._spec(name, self, origin=part[1], is_package=part[0])
        if part[0]:
            spec.submodule_search_locations = [part[1].rpartition("/")[0]]
        spec.has_location = True
        return spec

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(loads(self._parts[module.__name__][4]), module.__dict__)


def use(parts: dict[str, Part], room: str) -> bool:
    """Import from these parts, if all of them are still as their sources are, and these lie in
    the package whose room of the gate this is: a copied package has a copied bundle."""
    if parts["holdfast.gate"][1] != f"{room}/__init__.py":
        return False
    for _is_package, file, time, size, _code in parts.values():
        status = lstat(file)
        if status.st_mtime_ns != time or status.st_size != size:
            return False
    sys.meta_path.insert(0, Bundle(parts))
    return True


def file_of(package: str) -> str:
    """Where the bundle of a package lies."""
    return f"{package}/gate/__pycache__/hook.{sys.implementation.cache_tag}.bundle"


def write(package: str) -> bool:
    """Make the bundle anew. False if it cannot be written: then hooks are slower, and work."""
    import os

    parts: dict[str, Part] = {}
    for room in ROOMS:
        folder = f"{package}/{room}" if room else package
        for entry in sorted(os.listdir(folder)):
            name = entry.removesuffix(".py")
            if name == entry or name in LEFT_OUT:
                continue
            words = ["holdfast", *room.split("/"), "" if name == "__init__" else name]
            parts[".".join(filter(None, words))] = _part(f"{folder}/{entry}", name == "__init__")
    mine = f"{package}/gate/bundle.py"
    data = dumps((loads(_part(mine, False)[4]), parts))
    target = file_of(package)
    new = f"{target}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(new, "wb") as stream:
            stream.write(data)
        os.replace(new, target)
    except OSError:
        return False
    return True


def _part(file: str, is_package: bool) -> Part:
    with open(file, "rb") as stream:
        source = stream.read()
    status = lstat(file)
    code = compile(source, file, "exec", dont_inherit=True, optimize=2)
    return is_package, file, status.st_mtime_ns, status.st_size, dumps(code)
