"""The plan of all changes, made before the first of them, and its execution.

Each refusal happens while planning. A plan that fails half-way restores the files that it had
written. The record is saved before files get our hooks, and after they lose them: so at any moment
it names at least the files that have our hooks.
"""

from __future__ import annotations

import os
from time import gmtime, strftime

import holdfast
from holdfast.gate.commands import prefix_script
from holdfast.gate.install import (
    client_files,
    client_hooks,
    hook_entries,
    install_record,
    shell_prefix,
)
from holdfast.gate.install.client_files import Change
from holdfast.gate.install.client_hooks import Unusable
from holdfast.gate.install.hook_command import Command, InstallError, probe
from holdfast.gate.install.install_record import Record, Written
from holdfast.gate.install.installed_clients import (
    CLIENTS,
    Client,
    client_checkouts,
    git,
    git_folder,
    has_git,
    is_ignored,
    is_tracked,
    obstacles,
)
from holdfast.gate.install.json_text import parse, value
from holdfast.manager.files import checkouts
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.gate.config.settings import Settings
    from holdfast.gate.install.client_hooks import Wanted

#: The `client` of the change that hides the settings from git.
EXCLUDE = "exclude"
#: And of the program in front of shell commands. It is ours alone, so it is not recorded: it stays
#: when the rest is undone, because running sessions use it until they end.
COMMANDS = "commands"
_PREFIXES = tuple(one.adapter.SHELL_PREFIX for one in CLIENTS if one.adapter.SHELL_PREFIX)
_BOM = "\ufeff"


class Plan:
    """Changes that belong together, and the record as it is after them."""

    def __init__(self, root: str, after: Record, *, undo: bool = False) -> None:
        self.root = root
        self.after = after
        self.undo = undo
        self.changes: list[Change] = []
        #: The backups of the old texts, by name; empty before the plan is carried out.
        self.backups: dict[str, str] = {}

    @property
    def to_do(self) -> list[Change]:
        """The changes that change something."""
        return [change for change in self.changes if change.is_change]


# Putting in


def install(
    root: str,
    clients: Sequence[Client],
    command: Command,
    settings: Settings,
    *,
    only: str = "",
) -> Plan:
    """The plan that gives these clients their hooks, in each checkout that needs its own or in one
    of them `only`. Raises InstallError."""
    plan = Plan(root, install_record.load(root))
    plan.after.version = holdfast.__version__
    is_leased = shell_prefix.wanted(settings)
    if is_leased:
        _plan_script(plan, clients, command)
    for one in clients:
        for checkout in client_checkouts(root, one):
            if only in ("", checkout):
                prefix = prefix_script.path_of(root) if is_leased else ""
                _plan_hooks(plan, one, checkout, one.wanted(command, settings), prefix)
    if has_git(root):
        _plan_exclude(plan, [one.file for one in clients])
    return plan


def _plan_script(plan: Plan, clients: Sequence[Client], command: Command) -> None:
    """The program in front of shell commands, which runs the user's own prefix behind it."""
    chained = ""
    for one in clients:
        if one.adapter.SHELL_PREFIX:
            home = f"{one.home_folder(os.environ)}/settings.json"
            places = [
                f"{base}/{name}" for base in client_checkouts(plan.root, one) for name in one.files
            ]
            texts = [_split(_text(path))[1] for path in (*places, home)]
            chained = shell_prefix.chained(plan.root, one.adapter.SHELL_PREFIX, texts, os.environ)
    path = prefix_script.path_of(plan.root)
    name = os.path.relpath(path, plan.root)
    new = shell_prefix.script(plan.root, command, chained)
    plan.changes.append(Change(COMMANDS, name, path, _text(path) or None, new))


def _text(path: str) -> str:
    try:
        return client_files.read(path, path) or ""
    except InstallError:
        return ""


def _plan_hooks(plan: Plan, one: Client, checkout: str, wanted: list[Wanted], prefix: str) -> None:
    path = f"{checkout}/{one.file}"
    name = os.path.relpath(path, plan.root)
    old = client_files.read(path, name)
    known = plan.after.files.get(name)
    try:
        bom, body = _split(old)
        before = _before(known, old)
        new = bom + _with_prefix(client_hooks.merged(body, wanted), one, prefix, before)
    except Unusable as error:
        raise _unusable(one, name, path, error) from error
    plan.changes.append(Change(one.name, name, path, old, new))
    made = known.folder if known is not None else not os.path.isdir(os.path.dirname(path))
    plan.after.files[name] = Written(one.name, path, before, install_record.mark(new), folder=made)


def _with_prefix(text: str, one: Client, prefix: str, before: str | None) -> str:
    variable = one.adapter.SHELL_PREFIX
    if not variable:
        return text
    if prefix:
        return shell_prefix.put(text, variable, prefix)
    return shell_prefix.taken_out(text, variable, _data(before))


def _split(text: str | None) -> tuple[str, str]:
    """The byte order mark that some editors write, and the rest."""
    text = text or ""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def _before(known: Written | None, old: str | None) -> str | None:
    """The text as it would be without our hooks, to restore later."""
    if known is not None and known.is_untouched(old):
        return known.before
    if old is None or not _split(old)[1].strip():
        return old
    return _without_ours(old, known)


def _without_ours(text: str, known: Written | None) -> str | None:
    """A text that was edited since, without our hooks; None if it never had other entries."""
    before = known.before if known is not None else None
    bom, body = _split(text)
    stripped = client_hooks.stripped(body, _data(before))
    for variable in _PREFIXES:
        stripped = shell_prefix.taken_out(stripped, variable, _data(before))
    left = bom + stripped
    ours_alone = before is None and left != text and _data(left) == {}
    return None if ours_alone else left


def _data(text: str | None) -> dict[str, Any] | None:
    body = _split(text)[1]
    if not body.strip():
        return None
    try:
        found = value(body, parse(body))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _unusable(one: Client, name: str, path: str, error: Unusable) -> InstallError:
    where = f"{name}, line {error.line}, column {error.column}" if error.line else name
    return InstallError(
        f"{where}: {error}, and hooks are only added to plain JSON",
        hint=f"correct the file ({one.title} ignores a file that is not plain JSON) and try again; "
        "nothing was written",
        path=path, line=error.line,
    )  # fmt: skip


def _plan_exclude(plan: Plan, names: Sequence[str]) -> None:
    """Hide settings from git that are valid on this machine only."""
    root = git_folder(plan.root)
    lines = [f"/{name}" for name in names if not is_tracked(root, name)
             and not is_ignored(root, name)]  # fmt: skip
    found = git(root, "rev-parse", "--git-path", "info/exclude") if lines else None
    if not found:
        return
    path = os.path.realpath(os.path.join(root, found))
    name = os.path.relpath(path, plan.root)
    name = path if name.startswith("..") else name
    old = client_files.read(path, name)
    text = old or ""
    gap = "" if not text or text.endswith("\n") else "\n"
    new = text + gap + "".join(f"{line}\n" for line in lines)
    known = plan.after.files.get(name)
    is_old = known is not None and known.is_untouched(old)
    before = known.before if known is not None and is_old else old
    kept = known.lines if known is not None else ()
    plan.changes.append(Change(EXCLUDE, name, path, old, new))
    plan.after.files[name] = Written(
        EXCLUDE, path, before, install_record.mark(new), lines=(*kept, *lines),
        folder=known.folder if known is not None else not os.path.isdir(os.path.dirname(path)),
    )  # fmt: skip


# Taking out


def undo(root: str, clients: Sequence[Client] | None) -> Plan:
    """The plan that removes the hooks of these clients or of all. Raises InstallError."""
    plan = Plan(root, install_record.load(root), undo=True)
    known = plan.after.files
    for one in CLIENTS if clients is None else clients:
        for name, path in _places(plan, one):
            old = client_files.read(path, name)
            if not _concerns_us(old) and name not in known:
                continue
            written = known.pop(name, None)
            if written is None and not name.endswith(one.file):  # we never made that one
                written = Written(one.name, path, "{}", "")
            try:
                new = _undone(written, old)
            except Unusable as error:
                raise _unusable(one, name, path, error) from error
            plan.changes.append(Change(one.name, name, path, old, new))
    if all(written.client == EXCLUDE for written in known.values()):
        for name, written in list(known.items()):
            del known[name]
            old = client_files.read(written.path, name)
            new = written.before if written.is_untouched(old) else _less(old, written.lines)
            plan.changes.append(Change(EXCLUDE, name, written.path, old, new))
    return plan


def _places(plan: Plan, one: Client) -> list[tuple[str, str]]:
    """Where hooks of a client may be: in all checkouts, and in each file that we have written."""
    bases = dict.fromkeys(
        (plan.root, *checkouts.linked(plan.root), *client_checkouts(plan.root, one))
    )
    paths = [f"{base}/{name}" for base in bases for name in one.files]
    paths += [known.path for known in plan.after.files.values() if known.client == one.name]
    return [(os.path.relpath(path, plan.root), path) for path in dict.fromkeys(paths)]


def _concerns_us(text: str | None) -> bool:
    """Whether hooks of ours may be in it. The errors in other files are not ours to report."""
    return text is not None and (hook_entries.SCRIPT in text or prefix_script.MARK in text)


def _undone(written: Written | None, old: str | None) -> str | None:
    if written is not None and written.is_untouched(old):
        return written.before
    if old is None or not _split(old)[1].strip():
        return old
    return _without_ours(old, written)


def _less(text: str | None, lines: Sequence[str]) -> str | None:
    if text is None:
        return None
    return "".join(
        line for line in text.splitlines(keepends=True) if line.rstrip("\r\n") not in lines
    )


# Carrying out


def carry_out(plan: Plan) -> None:
    """Write everything, or nothing. Raises InstallError."""
    folder = _backup_folder(plan.root)
    for change in plan.to_do:
        if change.old is not None:
            plan.backups[change.name] = client_files.keep(folder, change)
    known = install_record.load(plan.root)
    if not plan.undo:
        install_record.save(plan.root, plan.after)
    done: list[Change] = []
    try:
        for change in plan.to_do:
            client_files.write(change)
            done.append(change)
            if change.client == COMMANDS:
                os.chmod(change.path, shell_prefix.MODE)
    except (InstallError, OSError):
        for change in reversed(done):
            client_files.write(
                Change(change.client, change.name, change.path, change.new, change.old)
            )
        install_record.save(plan.root, known)
        raise
    if plan.undo:
        _remove_folders(plan, known)
        install_record.save(plan.root, plan.after)


def _backup_folder(root: str) -> str:
    base = f"{root}/{LEDGER_FOLDER}/backup/{strftime('%Y%m%dT%H%M%SZ', gmtime())}"
    folder, number = base, 1
    while os.path.lexists(folder):
        number += 1
        folder = f"{base}-{number}"
    return folder


def _remove_folders(plan: Plan, known: Record) -> None:
    for name, written in known.files.items():
        folder = os.path.dirname(written.path)
        if name not in plan.after.files and written.folder and not os.path.islink(folder):
            try:
                os.rmdir(folder)
            except OSError:  # another program uses it by now
                continue


# Checking


def installed(root: str) -> list[Client]:
    """The clients that have hooks of ours here, or should have."""
    known = {written.client for written in install_record.load(root).files.values()}
    return [one for one in CLIENTS if one.name in known or _found(root, one)]


def _found(root: str, one: Client) -> bool:
    try:
        return any(
            _concerns_us(client_files.read(f"{base}/{name}", name))
            for base in client_checkouts(root, one)
            for name in one.files
        )
    except InstallError:
        return False


def check(
    root: str,
    one: Client,
    command: Command | None,
    settings: Settings,
    environ: Mapping[str, str],
) -> list[str]:
    """The problems with the hooks of a client, as sentences.

    Runs the commands that the settings contain. Without a `command` they are compared with none.
    """
    told: list[str] = []
    for checkout in client_checkouts(root, one):
        found = _check_at(checkout, one, command, settings, root)
        shown = os.path.relpath(checkout, root)
        told += found if checkout == root else [f"in {shown}: {problem}" for problem in found]
    return list(dict.fromkeys(told)) + obstacles(one, root, environ)


def _check_at(
    root: str, one: Client, command: Command | None, settings: Settings, main: str
) -> list[str]:
    """The same for one checkout; `main` is the root of the ledger."""
    try:
        text = client_files.read(f"{root}/{one.file}", one.file)
        if text is None:
            return [f"there is no {one.file}: {one.title} has no hooks"]
        body = _split(text)[1]
        wanted = [] if command is None else one.wanted(command, settings)
        told = client_hooks.differences(body, wanted) if command is not None else []
        found = client_hooks.found_hooks(body)
        if one.adapter.SHELL_PREFIX and shell_prefix.wanted(settings):
            told += shell_prefix.problems(main, body, one.adapter.SHELL_PREFIX, command)
    except Unusable as error:
        line = f", line {error.line}" if error.line else ""
        return [f"{one.file}{line}: {error}; {one.title} ignores the whole file"]
    except InstallError as error:
        return [error.message]
    ours = _handlers(found)
    passes = not any(map(hook_entries.is_closed, ours))
    for handler in {tuple(hook_entries.started(one)): one for one in ours}.values():
        told += _broken(handler, root, settings, passes=passes)
    for name in one.files[1:]:
        told += _elsewhere(root, name, ours)
    return told


def _handlers(found: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The handlers of our hooks."""
    return [
        handler for _event, group in found for handler in group["hooks"]
        if hook_entries.is_ours(handler)
    ]  # fmt: skip


def _elsewhere(root: str, name: str, known: list[dict[str, Any]]) -> list[str]:
    """Hooks of ours in another file: duplicates do no harm, different ones run beside these."""
    try:
        text = client_files.read(f"{root}/{name}", name)
        others = _handlers(client_hooks.found_hooks(_split(text)[1]))
    except (InstallError, Unusable):  # which the client ignores too
        return []
    lines = {hook_entries.shown(one) for one in others} - {hook_entries.shown(one) for one in known}
    return [f"{name} has hooks of another Holdfast: {line}" for line in sorted(lines)]


def _broken(handler: dict[str, Any], root: str, settings: Settings, *, passes: bool) -> list[str]:
    """The problem with the command of a hook; `passes`: edits pass if that fails."""
    python, script = hook_entries.split(handler)[0], hook_entries.script_of(handler)
    if not os.access(python, os.X_OK):
        so = "every edit passes" if passes else "every edit is refused"
        return [f"the Python of the hooks is gone, so {so}: {python}"]
    if script is not None and not os.path.isfile(script):
        so = "everything is refused" if passes else "every edit is refused"
        return [f"the script of the hooks is gone, so {so}: {script}"]
    try:
        probe(hook_entries.started(handler), root, settings.deadline_seconds)
    except InstallError as error:
        return [error.message]
    return []
