"""Files that can switch the gate off, and which changes to them agents may make.

    .holdfast/…                      none: it has the ledger and the switch
    Holdfast's hooks of git,
    .git/holdfast/…                  none
    .claude/settings*.json,
    .codex/hooks.json                those that leave Holdfast's hooks unchanged
    .codex/config.toml               those that leave hooks switched on
    holdfast.toml                    those that leave all settings unchanged

The files are listed in the one table of `holdfast.manager.files.control_files`; this module judges
a change to one. An edit tool states the new content, so the protected parts are compared and
everything else passes. A command does not, so it is refused, and told to use the edit tool.

This keeps an agent from switching the gate off in passing, or as a quick workaround for a refusal.
It does not stop one that is determined to: a program can write these files too.
"""

from __future__ import annotations

import os

from holdfast.core.codec import loads
from holdfast.gate import clients
from holdfast.gate.guard.held_by_others import is_near
from holdfast.gate.intent import DENY, Answer
from holdfast.manager.files.control_files import TABLE, control_of
from holdfast.manager.files.paths import LEDGER_FOLDER, checkout_of
from holdfast.manager.files.realpath import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from holdfast.core.draft import Draft
    from holdfast.core.model import Holder
    from holdfast.gate.clients import Adapter
    from holdfast.gate.intent import Intent
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.ledger import Ledger

    #: Given the root, the old text and the new one (None if unknown): why it is refused.
    Judge = Callable[[str, str, str | None], str]

#: The events of what was refused.
COMMAND_REFUSED = "command_refused"
EDIT_REFUSED = "edit_refused"

#: What to do instead of a command that would write a file in an unknown way.
BY_EDITING = "Your edit tool may change everything else in it. "

_TEXT_BYTES_MAX = 1 << 20
_LEDGER = "it belongs to Holdfast, and all leases would be lost with it"
_HOOKS = "it contains the hooks that keep agents apart"
_GIT_HOOK = "it is the hook that keeps agents from committing each other's work"
_SETTINGS = "it configures the gate, which only people may change"
#: How the names of git's hooks start, as far as any of them are ours.
_GIT_NAMES = ("pre-", "post-")
_GIT_FOLDER = ".git/hooks"
#: Holdfast's own hooks and settings, if `core.hooksPath` is set (`gate.git.hook_folder`).
_GIT_OWN = ".git/holdfast"
#: The top-level keys of Codex's hooks file; Codex does not read a file with any other.
CODEX_KEYS = frozenset(["description", "hooks"])


def switches_off(root: str, paths: Iterable[str]) -> tuple[str, str] | None:
    """The first of some real paths that a command must not write, and why.

    A path that ends with a slash means everything below that folder.
    """
    own = f"{root}/{LEDGER_FOLDER}"
    for path in paths:
        bare = path.rstrip("/")
        if f"{bare}/".startswith(f"{own}/"):
            return bare, _LEDGER
        if path.endswith("/") and own.startswith(path):
            return own, _LEDGER
        hooks = f"{root}/{_GIT_OWN}/"
        if f"{bare}/".startswith(hooks) or (path.endswith("/") and _is_below(hooks, path)):
            return bare, _GIT_HOOK
        files = _below(root, path) if path.endswith("/") else [bare]
        for file in files:
            why = judged(root, file, lambda _old: None)
            if why:
                return file, why
    return None


def _is_below(folder: str, path: str) -> bool:
    return folder.startswith(path) and os.path.lexists(folder)


def _below(root: str, folder: str) -> list[str]:
    """The files below a folder that can switch the gate off."""
    names = [control.name for control in TABLE if control.judge]
    try:
        names += [f"{_GIT_FOLDER}/{name}" for name in os.listdir(f"{root}/{_GIT_FOLDER}")]
    except OSError:
        pass
    checkout = checkout_of(root, folder.rstrip("/"))
    files = [f"{base}/{name}" for base in dict.fromkeys((root, checkout)) for name in names]
    return [file for file in files if file.startswith(folder) and os.path.lexists(file)]


def judged(root: str, path: str, outcome: Callable[[str], str | None]) -> str:
    """Why an agent must not change a file, by its real path, into what `outcome` makes of its text
    (empty: the file is gone then; None: unknown). Empty if it may."""
    if f"{path}/".startswith(f"{root}/{LEDGER_FOLDER}/"):
        return _LEDGER
    checkout = checkout_of(root, path)
    name = path[len(checkout) + 1 :]
    control = control_of(name)
    if control is None or not control.judge or name.casefold() != control.name:
        is_ours = name.startswith(f"{_GIT_OWN}/") or _is_git_hook(path)
        return _GIT_HOOK if is_ours else ""
    old = _text(path)
    return _JUDGES[control.judge](checkout, old, outcome(old))


def _is_git_hook(path: str) -> bool:
    """Whether a file is one of Holdfast's hooks of git, wherever git looks for its hooks."""
    if not path.rpartition("/")[2].startswith(_GIT_NAMES):
        return False
    from holdfast.gate.git import hook_scripts

    return hook_scripts.is_ours(hook_scripts.read(path))


def edit_refused(intent: Intent, data: object, manager: Ledger, gate: LeaseGate) -> Answer | None:
    """The refusal of an edit that would switch the gate off; None if it would not."""
    adapter = clients.adapter(intent.client)
    if manager.tree is None or adapter is None:
        return None
    root = manager.tree.root
    for text in intent.writes:
        real = resolve(os.path.join(intent.cwd or root, text), text)[0]
        if is_near(real, root):
            why = judged(root, real, _outcome(adapter, data, text))
            if why:
                what = {"tool": intent.tool}
                return kept_from(gate, real, why, event=EDIT_REFUSED, what=what)
    return None


def _outcome(adapter: Adapter, data: object, text: str) -> Callable[[str], str | None]:
    return lambda old: adapter.outcome(data, text, old)


def kept_from(
    gate: LeaseGate,
    path: str,
    why: str,
    instead: str = "",
    *,
    event: str,
    what: Mapping[str, Any],
) -> Answer:
    """The refusal of a write that would switch the gate off; recorded when the agent's event is
    decided."""
    write_down(gate, event, {**what, "paths": [path]})
    return Answer(
        DENY,
        f"Refused: agents may not change {path} like this: {why}. {instead}If it is necessary, "
        "ask your user: a person can do it, or switch the gate off with: holdfast off",
        user=f"holdfast: {gate.introduce().id} tried to write {path}; it was refused: {why}.",
    )


def write_down(gate: LeaseGate, event: str, data: Mapping[str, Any]) -> None:
    """Record a refusal, in the same transaction as the event."""

    def part(draft: Draft, holder: Holder) -> None:
        draft.say(event, {"agent": holder.id, **data})

    gate.also(part)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(_TEXT_BYTES_MAX).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return ""


# Hooks of clients


def object_in(text: str) -> dict[str, Any]:
    """The settings as a client reads them: empty unless the text is a JSON object."""
    try:
        found = loads(text.strip())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def our_hooks(settings: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Holdfast's hooks: event, position in its lists, matcher, and handler."""
    from holdfast.gate.install.hook_entries import is_ours

    found = []
    hooks = settings.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for at, group in enumerate(groups if isinstance(groups, list) else ()):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for number, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if is_ours(handler):
                    found.append((event, at, number, group.get("matcher"), handler))
    return found


def our_prefix(settings: dict[str, Any]) -> str:
    """Holdfast's program in front of Claude Code's shell commands, if the settings name it."""
    from holdfast.gate.commands.prefix_script import VARIABLE, is_ours

    env = settings.get("env")
    value = env.get(VARIABLE) if isinstance(env, dict) else None
    return value if isinstance(value, str) and is_ours(value) else ""


def _missing(old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> str:
    """The reason if hooks are missing, wherever in the lists they are; else empty."""
    there = [(one[0], *one[3:]) for one in new]
    gone = dict.fromkeys(str(one[0]) for one in old if (one[0], *one[3:]) not in there)
    names = ", ".join(gone)
    return (
        f"it would remove or change the hook for {names}, which keeps agents apart" if gone else ""
    )


def _claude(_root: str, old: str, new: str | None) -> str:
    before = object_in(old)
    if new is None:
        return _HOOKS if our_hooks(before) else ""
    after = object_in(new)
    if after.get("disableAllHooks") and not before.get("disableAllHooks"):
        return "it would switch off all hooks, including those that keep agents apart"
    if our_prefix(before) and our_prefix(before) != our_prefix(after):
        return "it would remove the program that leases what shell commands write"
    return _missing(our_hooks(before), our_hooks(after))


def _codex(_root: str, old: str, new: str | None) -> str:
    before = our_hooks(object_in(old))
    if new is None or not before:
        return _HOOKS if before else ""
    after = object_in(new)
    if not CODEX_KEYS.issuperset(after):
        return "Codex knows no such key, and would not read the hooks that keep agents apart"
    why = _missing(before, our_hooks(after))
    if not why and [one for one in before if one not in our_hooks(after)]:
        return "the user trusted Holdfast's hooks at their position, and they would move"
    return why


def _codex_config(root: str, old: str, new: str | None) -> str:
    if not our_hooks(object_in(_text(f"{root}/.codex/hooks.json"))):
        return ""
    if new is None:
        return "hooks can be switched off in it"
    if has_hooks_off(new) and not has_hooks_off(old):
        return "it would switch off the hooks that keep agents apart"
    return ""


def has_hooks_off(text: str) -> bool:
    """Whether Codex's settings switch all hooks off."""
    features = _tables(text).get("features")
    return isinstance(features, dict) and features.get("hooks") is False


# Our own settings


def _tables(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _settings(_root: str, old: str, new: str | None) -> str:
    return _SETTINGS if new is None or _tables(old) != _tables(new) else ""


#: By the table's word for how a change is judged.
_JUDGES: dict[str, Judge] = {
    "claude": _claude,
    "codex": _codex,
    "codex-config": _codex_config,
    "settings": _settings,
}
