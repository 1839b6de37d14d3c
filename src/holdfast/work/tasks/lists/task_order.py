"""The order of tasks by what they come after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def cycle_in(after: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A cycle, its first name repeated at its end; empty if there is none. A name that comes after
    itself is not a cycle, nor is an unknown name."""
    done: set[str] = set()
    for start in after:
        way: dict[str, None] = {}
        stack = [(start, iter(after[start]))] if start not in done else []
        way[start] = None
        while stack:
            name, rest = stack[-1]
            following = next((one for one in rest if one in after and one != name), None)
            if following is None:
                stack.pop()
                way.pop(name)
                done.add(name)
            elif following in way:
                names = list(way)
                return (*names[names.index(following) :], following)
            elif following not in done:
                way[following] = None
                stack.append((following, iter(after[following])))
    return ()


def levels(after: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """How many tasks must be done one after the other before each of them. There is no cycle."""
    found: dict[str, int] = {}
    for start in after:
        stack = [start]
        while stack:
            name = stack[-1]
            needed = [one for one in after[name] if one in after]
            missing = [one for one in needed if one not in found]
            if missing:
                stack += missing
                continue
            stack.pop()
            found[name] = max((found[one] + 1 for one in needed), default=0)
    return found
