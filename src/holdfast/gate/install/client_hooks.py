"""Our hooks in a client's settings: added, compared, removed; all other entries stay.

Claude Code and Codex read the same form: under `hooks`, for each event a list of groups, each with
a `matcher` and a list of handlers. Ours are recognised by the script they run,
`holdfast/gate/hook.py`, whichever installation wrote them, so an older one is replaced and never
duplicated.
"""

from __future__ import annotations

from holdfast.core.model import Value
from holdfast.gate.install import json_text
from holdfast.gate.install.hook_entries import (
    ARGUMENTS,
    GUARDED,
    ON_FAILURE,
    SCRIPT,
    STATUS,
    is_closed,
    is_ours,
    shown,
)
from holdfast.gate.install.json_text import Node, NotJson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final


class Wanted(Value):
    """One hook as it should be in the settings; `field` is that of the handler's timeout."""

    __slots__ = ("event", "field", "handler", "matcher")

    def __init__(
        self, event: str, matcher: str | None, handler: dict[str, Any], field: str
    ) -> None:
        self.event: Final = event
        self.matcher: Final = matcher
        self.handler: Final = handler
        self.field: Final = field

    def group(self) -> dict[str, Any]:
        """Its entry in the list of its event, with no other command beside it."""
        return {
            **({} if self.matcher is None else {"matcher": self.matcher}),
            "hooks": [self.handler],
        }


class Unusable(ValueError):
    """Settings that cannot be merged with: the place, and the reason."""

    def __init__(self, what: str, line: int = 0, column: int = 0) -> None:
        super().__init__(what)
        self.line = line
        self.column = column


# Adding


def merged(text: str, wanted: list[Wanted]) -> str:
    """The settings with these hooks of ours and no others of ours. Raises Unusable.

    A text that has them already comes back as it is.
    """
    if not text.strip():
        return json_text.document({"hooks": {one.event: [one.group()] for one in wanted}})
    hooks = _hooks(text)
    kept = {one.event for one in wanted}
    if hooks is not None:
        for event in [name for name in hooks.names if name not in kept]:
            text = _without(text, event, made=True)
    new = text
    for one in wanted:
        new = _with(new, one)
    if not _is_as_meant(text, new, wanted):  # the file is the user's own
        raise Unusable("the hooks cannot be added without changing other entries")
    return new


def _with(text: str, one: Wanted) -> str:
    hooks = _hooks(text)
    if hooks is None:
        return json_text.added(text, root_of(text), {one.event: [one.group()]}, name="hooks")
    groups = hooks.member(one.event)
    if groups is None:
        return json_text.added(text, hooks, [one.group()], name=one.event)
    if groups.kind != "array":
        raise Unusable(f'"hooks", "{one.event}" is not a list')
    ours = _ours(text, groups)
    if len(ours) == 1:
        group = groups.parts[ours[0][0]]
        found = json_text.value(text, group)
        if found == one.group():
            return text
        if len(found["hooks"]) == 1:
            return json_text.replaced(text, group, one.group())
    text = _without(text, one.event, made=False)
    hooks = _hooks(text)
    groups = hooks.member(one.event) if hooks is not None else None
    assert groups is not None
    return json_text.added(text, groups, one.group())


def _is_as_meant(old: str, new: str, wanted: list[Wanted]) -> bool:
    """Whether the new text has these hooks of ours, and the same other entries as the old one."""
    found = found_hooks(new)
    meant = {one.event: one.group() for one in wanted}
    return len(found) == len(meant) and dict(found) == meant and _others(old) == _others(new)


def _others(text: str) -> tuple[Any, dict[str, Any]]:
    """The settings without our hooks and without empty lists."""
    data = json_text.value(text, root_of(text))
    hooks = data.pop("hooks", {})
    kept: dict[str, Any] = {}
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            kept[event] = groups
            continue
        for group in groups:
            handlers = group.get("hooks") if isinstance(group, dict) else None
            if isinstance(handlers, list) and any(map(is_ours, handlers)):
                handlers = [handler for handler in handlers if not is_ours(handler)]
                group = {**group, "hooks": handlers} if handlers else None
            if group is not None:
                kept.setdefault(event, []).append(group)
    return data, kept


# Comparing


def found_hooks(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Our hooks in the settings: each event with its group. Raises Unusable."""
    found: list[tuple[str, dict[str, Any]]] = []
    hooks = _hooks(text) if text.strip() else None
    for event, groups in zip(hooks.names, hooks.parts, strict=True) if hooks is not None else ():
        for at in dict.fromkeys(at for at, _handler in _ours(text, groups)):
            found.append((event, json_text.value(text, groups.parts[at])))
    return found


def differences(text: str, wanted: list[Wanted]) -> list[str]:
    """The differences from the wanted hooks, as sentences. Raises Unusable."""
    told: list[str] = []
    found = found_hooks(text)
    for one in wanted:
        groups = [group for event, group in found if event == one.event]
        if not groups:
            told.append(f"the hook for {one.event} is missing")
        elif len(groups) > 1:
            told.append(f"the hook for {one.event} occurs {len(groups)} times")
        else:
            told += _differences(groups[0], one)
    known = {one.event for one in wanted}
    told += [
        f"there is a hook for {event}, which is not needed" for event, _group in found
        if event not in known
    ]  # fmt: skip
    return told


def _differences(group: dict[str, Any], one: Wanted) -> list[str]:
    if group == one.group():
        return []
    told: list[str] = []
    found, meant = next(filter(is_ours, group["hooks"])), one.handler
    hook = f"the hook for {one.event}"
    if one.event == GUARDED and not is_closed(found):
        told.append(f"{hook} has an older form: if it fails, every edit passes")
    elif any(found.get(name) != meant.get(name) for name in ("command", ARGUMENTS)):
        told.append(f"{hook} runs another command: {shown(found)}")
    for field in (one.field, ON_FAILURE, STATUS):
        if found.get(field) != meant.get(field) and not (field == ON_FAILURE and told):
            told.append(f"{hook} has {field} = {found.get(field)!r}, not {meant.get(field)!r}")
    if group.get("matcher") != one.matcher:
        told.append(f"{hook} matches {group.get('matcher')!r}, not {one.matcher!r}")
    return told or [f"{hook} has been changed"]


# Removing


def stripped(text: str, before: Mapping[str, Any] | None) -> str:
    """The settings without our hooks. Raises Unusable.

    Entries that become empty go too, unless they were there `before`: the settings' value from
    before our first hook. Settings without hooks of ours are returned unchanged.
    """
    if not found_hooks(text):
        return text
    had = before.get("hooks") if before is not None else None
    had_events = had if isinstance(had, dict) else {}
    hooks = _hooks(text) if text.strip() else None
    if hooks is None:
        return text
    for event in list(dict.fromkeys(hooks.names)):
        text = _without(text, event, made=event not in had_events)
    hooks = _hooks(text)
    if hooks is not None and not hooks.parts and not isinstance(had, dict):
        root = root_of(text)
        text = json_text.removed(text, root, root.names.index("hooks"))
    return text


def _without(text: str, event: str, *, made: bool) -> str:
    """The text without our hooks for one event; without the event too if that is empty then and we
    `made` it."""
    touched = False
    while True:
        hooks = _hooks(text)
        groups = hooks.member(event) if hooks is not None else None
        if hooks is None or groups is None:
            return text
        ours = _ours(text, groups)
        if not ours:
            if made and touched and not groups.parts:
                return json_text.removed(text, hooks, hooks.names.index(event))
            return text
        touched = True
        at, handler = ours[-1]
        handlers = groups.parts[at].member("hooks")
        assert handlers is not None
        if len(handlers.parts) == 1:
            text = json_text.removed(text, groups, at)
        else:
            text = json_text.removed(text, handlers, handler)


# The parts that we rely on


def root_of(text: str) -> Node:
    """The whole of some settings. Raises Unusable."""
    try:
        root = json_text.parse(text)
    except NotJson as error:
        raise Unusable(str(error), error.line, error.column) from error
    if root.kind != "object":
        raise Unusable("it is not an object")
    return root


def _hooks(text: str) -> Node | None:
    """The `hooks` of the settings, if there are any of a form that we know."""
    root = root_of(text)
    hooks = root.member("hooks")
    if hooks is None:
        return None
    if root.names.count("hooks") > 1:
        raise Unusable('it has "hooks" twice')
    if hooks.kind != "object":
        raise Unusable('"hooks" is not an object')
    for event, groups in zip(hooks.names, hooks.parts, strict=True):
        if hooks.names.count(event) > 1:
            raise Unusable(f'it has "hooks" for "{event}" twice')
        # Codex keeps other entries there too, which need not have the form of ours.
        if groups.kind != "array" and SCRIPT in text[groups.start : groups.end]:
            raise Unusable(f'"hooks", "{event}" is not a list')
    return hooks


def _ours(text: str, groups: Node) -> list[tuple[int, int]]:
    """The places of ours in the list of an event: the numbers of the group and of the handler."""
    found = []
    for at, group in enumerate(groups.parts):
        handlers = group.member("hooks") if group.kind == "object" else None
        for number, handler in enumerate(handlers.parts if handlers is not None else ()):
            if is_ours(json_text.value(text, handler)):
                found.append((at, number))
    return found
