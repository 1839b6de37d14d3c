"""How a client treats a hook: whether it would start it, and whether its answer blocks.

Each rule was measured with the real client. Behaviour that was not measured does not count as
blocking: a refusal that was never seen to work is none.
"""

from __future__ import annotations

import json
import re

from holdfast.core.model import Value
from holdfast.gate.install import client_files, client_hooks, hook_entries
from holdfast.gate.install.client_hooks import Unusable
from holdfast.gate.install.hook_command import InstallError
from holdfast.gate.install.installed_clients import obstacles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from holdfast.gate.install.installed_clients import Client

_BOM = "\ufeff"
#: Anything else in a hook (such as `async` or `if`) may keep it from blocking.
_KNOWN_FIELDS = frozenset(["type", "command", "timeout", hook_entries.STATUS])
_EXEC_FIELDS = frozenset([hook_entries.ARGUMENTS, hook_entries.ON_FAILURE])
#: Codex rejects the whole file if it has more than this.
_CODEX_FILE = frozenset(["description", "hooks"])
#: Codex treats an answer with more than this as an error, and the write happens.
_CODEX_SAID = frozenset(["hookSpecificOutput", "systemMessage", "decision", "reason"])
_CODEX_OUTPUT = frozenset(
    ["hookEventName", "permissionDecision", "permissionDecisionReason", "additionalContext"]
)


class Ran(Value):
    """How a command ended. `late` if it had to be killed after `seconds`."""

    __slots__ = ("code", "err", "late", "out", "seconds")

    def __init__(
        self, code: int, out: str, err: str, *, late: bool = False, seconds: float = 0
    ) -> None:
        self.code: Final = code
        self.out: Final = out
        self.err: Final = err
        self.late: Final = late
        self.seconds: Final = seconds

    def told(self) -> str:
        """How it ended, in words."""
        if self.late:
            return f"no answer within {self.seconds:g} s"
        said = (self.err.strip().splitlines() or [""])[-1][:200]
        why = f"it ended with {self.code}"
        return f"{why}: {said}" if said else why


class Shot(Value):
    """A command that a client starts before a tool: its words, its timeout in seconds (0 for
    none), and whether the client refuses the call if the command fails."""

    __slots__ = ("closed", "seconds", "words")

    def __init__(self, words: tuple[str, ...], seconds: float, *, closed: bool) -> None:
        self.words: Final = words
        self.seconds: Final = seconds
        self.closed: Final = closed


class Armed(Value):
    """Our commands that a client runs before a tool, or the reason why there is none."""

    __slots__ = ("shots", "why")

    def __init__(self, shots: tuple[Shot, ...], why: str = "") -> None:
        self.shots: Final = shots
        self.why: Final = why


def armed(root: str, one: Client, tool: str, environ: Mapping[str, str]) -> Armed:
    """The commands of ours that a client would run before this tool."""
    try:
        text = client_files.read(f"{root}/{one.file}", one.file)
        if text is None:
            return Armed((), f"there is no {one.file}")
        body = text.removeprefix(_BOM)
        groups = [group for event, group in client_hooks.found_hooks(body) if event == "PreToolUse"]
        extra = set(json.loads(body)) - _CODEX_FILE if one.name == "codex" and body.strip() else ()
    except Unusable as error:
        return Armed((), f"{one.title} ignores the whole {one.file}: {error}")
    except InstallError as error:
        return Armed((), error.message)
    if extra:
        unknown = ", ".join(sorted(map(repr, extra)))
        return Armed((), f"{one.title} rejects the whole {one.file} because of {unknown}")
    off = obstacles(one, root, environ)
    if off:
        return Armed((), off[0])
    return _commands(groups, one, tool)


def _commands(groups: list[dict[str, Any]], one: Client, tool: str) -> Armed:
    found: list[Shot] = []
    known = _KNOWN_FIELDS | (_EXEC_FIELDS if one.adapter.EXEC_FORM else set())
    why = f"{one.file} has no hook of ours for PreToolUse"
    for group in groups:
        if not matches(group.get("matcher"), tool):
            why = f"the hook's matcher {group.get('matcher')!r} does not match {tool}"
            continue
        for handler in filter(hook_entries.is_ours, group["hooks"]):
            if handler.get("type") != "command" or not known.issuperset(handler):
                why = "the hook was changed in a way that may keep it from blocking"
                continue
            limit = handler.get(one.adapter.TIMEOUT_FIELD)
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            seconds = limit / one.adapter.TIMEOUT_PER_SECOND if is_number else 0.0
            closed = handler.get(hook_entries.ON_FAILURE) == hook_entries.BLOCK
            words = tuple(hook_entries.started(handler))
            found.append(Shot(words, max(0.0, seconds), closed=closed))
    return Armed(tuple(dict.fromkeys(found)), "" if found else why)


def matches(matcher: object, tool: str) -> bool:
    """Whether a hook with this matcher runs for a tool."""
    if matcher in (None, "", "*"):
        return True
    if not isinstance(matcher, str):
        return False
    if re.fullmatch(r"[\w|]+", matcher):
        return tool in matcher.split("|")
    try:
        return re.search(matcher, tool) is not None
    except re.error:
        return False


def blocks(client: str, ran: Ran, *, closed: bool = False) -> bool:
    """Whether a client refrains from the call that its hook answered like this; `closed` if its
    settings make a failure a refusal."""
    if closed and (ran.late or ran.code != 0):
        return True
    if ran.late:
        return False
    said = _said(ran.out)
    if client == "claude":
        return ran.code == 2 or (said is not None and (_denies(said) or _decides(said)))
    if client == "codex":
        if ran.code == 2:
            return bool(ran.err.strip())
        return ran.code == 0 and said is not None and _codex_blocks(said)
    return False


def _said(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _output(said: dict[str, Any]) -> dict[str, Any]:
    found = said.get("hookSpecificOutput")
    return found if isinstance(found, dict) else {}


def _denies(said: dict[str, Any]) -> bool:
    output = _output(said)
    return output.get("hookEventName") == "PreToolUse" and (
        output.get("permissionDecision") == "deny"
    )


def _decides(said: dict[str, Any]) -> bool:
    return said.get("decision") == "block"


def _codex_blocks(said: dict[str, Any]) -> bool:
    output = _output(said)
    if not (_CODEX_SAID.issuperset(said) and _CODEX_OUTPUT.issuperset(output)):
        return False
    if _denies(said):
        return _is_word(output.get("permissionDecisionReason"))
    return _decides(said) and _is_word(said.get("reason"))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
