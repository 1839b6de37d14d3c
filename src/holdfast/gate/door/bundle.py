"""The modules that a hook usually needs, in one file that is opened and read once instead of forty
times. And another file for the program in front of shell commands.

`init` writes it beside the compiled modules. It is used only as long as every source in it is the
one that it was made from; otherwise, or without it, the modules are imported as usual, only slower.
Its first part is the code that uses the rest, `unbundle`.

It has no annotations, docstrings or line numbers: no hook uses its types or prints a traceback, and
together they are nearly half of the file.
"""

from __future__ import annotations

import ast
import os
import sys
from hashlib import sha256
from marshal import dumps, loads

from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType
    from typing import Any

    from holdfast.gate.door.unbundle import Rares, Stamp, Usual

HOOK, PREFIXED = "hook", "prefixed"
#: The modules of an uncontested edit, and of a command that writes nothing in the repository; the
#: modules that these import are included.
USUAL = {
    HOOK: (
        "holdfast.gate.door.hook_process", "holdfast.gate.door.client_events",
        "holdfast.gate.config.seals", "holdfast.manager.ledger", "holdfast.gate.config.settings",
        "holdfast.gate.agents", "holdfast.gate.lease_gate", "holdfast.store.sqlite.sqlite_store",
    ),
    PREFIXED: (
        "holdfast.gate.commands.slips", "holdfast.gate.commands.shell_lines",
        "holdfast.gate.commands.agent_run", "holdfast.gate.broker.places.mounts",
        "holdfast.gate.broker.calls.outside_calls",
    ),
}  # fmt: skip
#: The rooms of these modules and of the others.
_ROOMS = (
    "", "core", "store", "store/sqlite", "manager", "manager/files", "manager/owners", "gate",
    "gate/door", "gate/config", "gate/git", "gate/people", "gate/clients", "gate/rulebook",
    "gate/commands",
)  # fmt: skip
ROOMS = {
    HOOK: _ROOMS,
    PREFIXED: (
        *_ROOMS, "gate/broker", "gate/broker/calls", "gate/broker/control", "gate/broker/leasing",
        "gate/broker/places", "gate/sandbox", "gate/sandbox/gaps", "gate/sandbox/kernel",
        "gate/sandbox/runner", "gate/sandbox/starting",
    ),
}  # fmt: skip
#: The width of the number at the beginning of the file: how many bytes to read first.
SIZE_BYTES = 8
#: At its end.
SUM_BYTES = 32
#: An installer replaces files and so touches their folders; a person edits them in their place.
INSTALLED = ("/site-packages/", "/dist-packages/")


def _stamp(path: str) -> Stamp:
    status = os.lstat(path)
    return path, status.st_mtime_ns, status.st_size


def file_of(package: str, of: str = HOOK) -> str:
    """The path of a package's bundle."""
    return f"{package}/gate/__pycache__/{of}.{sys.implementation.cache_tag}.bundle"


def write_all(package: str) -> None:
    """Make all bundles that are missing or outdated."""
    for of in USUAL:
        write(package, of)


def write(package: str, of: str = HOOK) -> bool:
    """Make a bundle, unless it is up to date. False if it cannot be written: then hooks work, but
    slower."""
    if _is_true(package, of):
        return True
    sources = {name: _Source(package, name) for name in _names(package, of)}
    usual = list(_in_order(sources, USUAL[of]))
    files = [sources[name].file for name in usual]
    if any(mark in f"{package}/" for mark in INSTALLED):
        files = sorted({os.path.dirname(file) for file in files})
    target = file_of(package, of)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        rare, rest = _behind(one for name, one in sources.items() if name not in usual)
        data = dumps(
            (
                _Source(package, "holdfast.gate.door.unbundle").code(),
                f"{package}/gate",
                [_stamp(file) for file in files],
                [sources[name].usual() for name in usual],
                rare,
            )
        )
        data = b"%0*d" % (SIZE_BYTES, len(data)) + data + rest
        replace_file(target, data + _sum(data))
    except OSError:
        return False
    return True


def _behind(sources: Iterable[_Source]) -> tuple[Rares, bytes]:
    """The modules that are seldom needed, and the code of all of them."""
    rare, rest = {}, b""
    for one in sources:
        code = dumps(one.code())
        rare[one.name] = one.is_package, _stamp(one.file), len(rest), len(code)
        rest += code
    return rare, rest


def _is_true(package: str, of: str) -> bool:
    """Whether the bundle matches every present source, and is undamaged. A bundle that records only
    folders does not show that."""
    try:
        with open(file_of(package, of), "rb") as stream:
            content = stream.read()
        data = content[:-SUM_BYTES]
        if content[-SUM_BYTES:] != _sum(data):
            return False
        _code, made_for, stamps, _usual, rare = loads(data[SIZE_BYTES:])
        made_of = {*stamps, *(stamp for _is_package, stamp, *_place in rare.values())}
        now = {_stamp(_place(package, name)[0]) for name in _names(package, of)}
    except (OSError, ValueError, EOFError, TypeError, AttributeError):
        return False
    return made_for == f"{package}/gate" and made_of == now


def _sum(data: bytes) -> bytes:
    """A checksum, for damage after which the file can still be loaded."""
    return sha256(data).digest()


def _names(package: str, of: str) -> Iterator[str]:
    """All modules of the rooms that an edit, or a command, may go through."""
    for room in ROOMS[of]:
        prefix = ".".join(filter(None, ("holdfast", *room.split("/"))))
        yield prefix
        for entry in sorted(os.listdir(f"{package}/{room}")):
            if entry.endswith(".py") and not entry.startswith("__"):
                yield f"{prefix}.{entry.removesuffix('.py')}"


def _in_order(sources: dict[str, _Source], wanted: Iterable[str]) -> Iterator[str]:
    """The usual modules and those that they import at load time, each after its own imports."""
    seen: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in sources and name not in seen:
            seen.add(name)
            yield from visit(name.rpartition(".")[0])
            for other in sources[name].imports():
                yield from visit(other)
            yield name

    for name in wanted:
        yield from visit(name)


def _place(package: str, name: str) -> tuple[str, bool]:
    """The file of a module, and whether it is a package."""
    path = "/".join([package, *name.split(".")[1:]])
    is_package = os.path.isdir(path)
    return (f"{path}/__init__.py" if is_package else f"{path}.py"), is_package


class _Source:
    """A module's source, and its code without the parts that a hook does not use."""

    def __init__(self, package: str, name: str) -> None:
        self.name = name
        self.file, self.is_package = _place(package, name)
        with open(self.file, "rb") as stream:
            self._tree = ast.parse(stream.read(), self.file)
        _undress(self._tree)

    def imports(self) -> Iterator[str]:
        """The modules that it imports at load time."""
        for node in self._tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def code(self) -> CodeType:
        made: CodeType = compile(self._tree, self.file, "exec", dont_inherit=True, optimize=2)
        return _without_lines(made)

    def usual(self) -> Usual:
        return self.name, self.is_package, self.file, self.code()


def _without_lines(code: CodeType) -> CodeType:
    """The same code, and all code in it, without the table of line numbers."""
    parts = (_without_lines(one) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_consts=tuple(parts), co_linetable=b"")


def _undress(tree: ast.AST) -> None:
    """Removes annotations, and the code that exists only for them."""

    class Undresser(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            # Most of a source is expressions, which have no annotations.
            return node if isinstance(node, ast.expr) else super().visit(node)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
            return None if node.module == "__future__" else node

        def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return node.orelse
            return self.generic_visit(node)

        def visit_arg(self, node: ast.arg) -> ast.AST:
            node.annotation = None
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.returns = None
            return self.generic_visit(node)

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            if node.value is None:
                return ast.copy_location(ast.Pass(), node)
            return ast.copy_location(ast.Assign([node.target], node.value), node)

    Undresser().visit(tree)
