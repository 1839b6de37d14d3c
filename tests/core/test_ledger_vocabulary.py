"""docs/ledger.md names every type of event that any module writes, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent
LEDGER = SOURCE.parents[1] / "docs" / "ledger.md"

#: How a function calls the type of event that it writes, as a parameter of its own.
PARAMETERS = ("type", "event")
#: These always get the type of an event; of the others that are called alike only some do.
CERTAIN = ("Event", "with_note", "emit")
#: Stores rebuild events of any type from their records.
READ_BACK = "holdfast.store."
NAME = re.compile(r"[a-z]+(_[a-z]+)*")


def test_the_page_on_the_ledger_names_every_event() -> None:
    missing = sorted(event for event in events_written() if event[0] not in documented())
    assert not missing, "docs/ledger.md must name these types"
    written = {type for type, _where in events_written()}
    assert documented() <= written, "docs/ledger.md names what nothing writes"


def test_the_scan_finds_events_of_every_kind_of_writer() -> None:
    found = {type for type, _where in events_written()}
    assert {
        "lock_acquired", "lock_moved", "ticket_dropped",  # the core
        "damage", "agent_gone", "gate_off", "switch_changed", "coverage_gap",  # the gate
        "work_queued", "work_taken_up", "work_yield", "task_changed",  # the dispatcher
    } <= found  # fmt: skip
    assert len(found) > 50


@cache
def documented() -> frozenset[str]:
    text = (
        LEDGER.read_text(encoding="utf-8").partition("## Events")[2].partition("## Error codes")[0]
    )
    names = re.findall(r"^### `([a-z_]+)`$", text, re.MULTILINE)
    for table in re.findall(r"^\| type \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            names += re.findall(r"`([a-z_]+)`", row.split("|")[1])
    assert len(names) == len(set(names)), "named twice"
    return frozenset(names)


@cache
def modules() -> dict[str, ast.Module]:
    """Each module by its dotted name, but not those that only test others."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[1] != "testing":
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def names_of(module: str) -> dict[str, ast.expr | tuple[str, str]]:
    """The meaning of a module's names: an expression, or (module, name) of an import."""
    found: dict[str, ast.expr | tuple[str, str]] = {}
    tree = modules()[module]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
            assert node.module
            found.update({one.asname or one.name: (node.module, one.name) for one in node.names})
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.update(assigned(target, node.value))
    return found


def assigned(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=True)
        return {one.id: of for one, of in pairs if isinstance(one, ast.Name)}
    return {}


@cache
def writers() -> dict[str, tuple[str, int | None]]:
    """Functions that write an event, by name: their parameter for its type, and its place."""
    found: dict[str, tuple[str, int | None]] = {"Event": ("type", 1)}
    functions = [
        node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    known = 0
    while known != len(found):
        known = len(found)
        for function in functions:
            places = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
            own = [*places, *(one.arg for one in function.args.kwonlyargs)]
            for call in calls(function):
                given = type_given(call, found)
                if isinstance(given, ast.Name) and given.id in own and given.id in PARAMETERS:
                    place = places.index(given.id) if given.id in places else None
                    found.setdefault(function.name, (given.id, place))
    return found


def calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def type_given(call: ast.Call, known: dict[str, tuple[str, int | None]]) -> ast.expr | None:
    """The argument of a call that is the type of an event, if it may be one."""
    if called(call) not in known:
        return None
    name, place = known[called(call)]
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place is not None and len(call.args) > place else None


@cache
def events_written() -> frozenset[tuple[str, str]]:
    """(type, where) of all events that any module writes."""
    found = set()
    for module, tree in modules().items():
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for call in calls(function):
                given = type_given(call, writers())
                if given is None or is_parameter(given, function):
                    continue
                where = f"{module}:{call.lineno}"
                values = set(texts(given, module, function))
                if called(call) in CERTAIN and not module.startswith(READ_BACK):
                    assert values, f"{where}: which type of event is {ast.unparse(given)}?"
                found |= {(value, where) for value in values if is_type(value)}
    return frozenset(found)


def is_parameter(given: ast.expr, function: ast.FunctionDef) -> bool:
    arguments = (*function.args.args, *function.args.kwonlyargs)
    return isinstance(given, ast.Name) and given.id in {one.arg for one in arguments}


def is_type(value: str) -> bool:
    return bool(NAME.fullmatch(value)) and ("_" in value or value == "damage")


def texts(given: ast.expr, module: str, function: ast.FunctionDef | None) -> Iterator[str]:
    """All texts that an expression may stand for."""
    if isinstance(given, ast.Constant):
        if isinstance(given.value, str):
            yield given.value
    elif isinstance(given, ast.IfExp):
        yield from texts(given.body, module, function)
        yield from texts(given.orelse, module, function)
    elif isinstance(given, ast.Dict):
        for value in given.values:
            yield from texts(value, module, function)
    elif isinstance(given, ast.Subscript):
        yield from texts(given.value, module, function)
    elif isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        if given.func.attr == "get":
            yield from texts(given.func.value, module, function)
    elif isinstance(given, ast.Attribute):
        place = names_of(module).get(given.value.id) if isinstance(given.value, ast.Name) else None
        if isinstance(place, tuple):
            yield from constant(".".join(place), given.attr)
    elif isinstance(given, ast.Name):
        for node in ast.walk(function) if function else ():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    local = assigned(target, node.value).get(given.id)
                    if local is not None:
                        yield from texts(local, module, None)
        yield from constant(module, given.id)


def constant(module: str, name: str) -> Iterator[str]:
    found = names_of(module).get(name) if module in modules() else None
    if isinstance(found, tuple):
        yield from constant(*found)
    elif found is not None:
        yield from texts(found, module, None)
