"""Texts with placeholders: `{screen}` is a placeholder, `{{screen}}` stands for the literal text
`{screen}`, and other braces have no meaning, so that a prompt can show JSON.

A placeholder is replaced once. Its value is never searched for placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from holdfast.gate.config.settings_file import shown
from holdfast.work.input_checks import nearest, path_problem

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


def placeholders(template: str) -> list[str]:
    """The names of the placeholders in a template."""
    return [found[2] for found in _PLACEHOLDER.finditer(template) if found[2]]


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders replaced."""
    return _PLACEHOLDER.sub(
        lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], template
    )


def placeholder_problem(template: str, known: Iterable[str]) -> str:
    """What is wrong with its placeholders; empty if nothing is."""
    for name in placeholders(template):
        if name not in known:
            near = nearest(name, known)
            meant = f", did you mean {{{near}}}?" if near else ""
            return (
                f"{{{name}}} is not known here{meant} (for the literal text, write {{{{{name}}}}})"
            )
    return ""


def place_problem(template: str, known: Iterable[str]) -> str:
    """Why a template cannot become a path; empty if it can, for all names."""
    problem = placeholder_problem(template, known)
    if problem:
        return problem
    example = filled(template, dict.fromkeys(placeholders(template), "x"))
    if "{" in example or "}" in example:
        return f"{shown(template)} has an unmatched brace"
    if ":" in example:  # with the right name before it, it would be a resource
        return f"{shown(template)} has a colon"
    if "/.{" in f"/{template}":
        return f"{shown(template)} has a hidden name that is not known yet"
    return path_problem(example)


def braced(names: Iterable[str]) -> str:
    """Names of placeholders as they are written."""
    return ", ".join(f"{{{name}}}" for name in names)
