"""A table of transitions: which state a cause leads to. There are no other transitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """One transition, and its cause."""

    before: str
    after: str
    cause: str


class Transitions:
    """All transitions of one kind of thing."""

    def __init__(self, *edges: Edge) -> None:
        self.edges = edges
        self._after = {(edge.before, edge.cause): edge.after for edge in edges}

    def after(self, before: str, cause: str) -> str:
        """The state that a cause leads to. Raises KeyError if there is no such transition."""
        return self._after[before, cause]

    def may(self, before: str, cause: str) -> bool:
        """Whether there is such a transition."""
        return (before, cause) in self._after
