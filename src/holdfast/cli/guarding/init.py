"""init: installs, checks and removes the hooks of the agents' clients and of git."""

from __future__ import annotations

import os

from holdfast.cli import DONE, FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, listed, out, plain, quoted, talk
from holdfast.core.root_errors import SettingsError
from holdfast.gate.config import seals
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.config.settings import Settings
from holdfast.gate.door import bundle
from holdfast.gate.git.git_files import GitError
from holdfast.gate.install import (
    exec_form_check,
    git_part,
    install_plan,
    ledger_takeover,
)
from holdfast.gate.install.client_files import Change
from holdfast.gate.install.git_part import Touched
from holdfast.gate.install.hook_command import InstallError, own_command, probe
from holdfast.gate.install.install_record import load
from holdfast.gate.install.installed_clients import (
    CLIENTS,
    Client,
    client,
    git,
    git_folder,
    has_git,
    in_use,
    is_tracked,
    obstacles,
)
from holdfast.manager.files.paths import LEDGER_FOLDER, home_root
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.gate.install.install_plan import Plan


#: The beginning of git's line for the place of a worktree.
_PLACE = "worktree "
#: What would be done, and what was done.
_INFINITIVES = {
    "written": "write", "changed": "change", "removed": "remove", "put back": "restore",
}  # fmt: skip
_PAST = {"written": "wrote", "put back": "restored"}


def init(call: Call) -> int:
    """Do what the options say; without any, install the hooks."""
    _reject_both(call, "check", "undo", "dry-run")
    _reject_both(call, "git", "no-git")
    _reject_both(call, "check", "diff", "yes")
    root = _root(CommandContext(call))
    if call.flag("check"):
        return _check(call, root)
    return _undo(call, root) if call.flag("undo") else _install(call, root)


def _reject_both(call: Call, first: str, *others: str) -> None:
    for other in others:
        if call.flag(first) and call.flag(other):
            raise UsageError(
                f"--{first} and --{other} exclude each other", hint="leave one of them out"
            )


def _root(context: CommandContext) -> str:
    _reject_bare(context.folder)
    root = home_root(context.folder)
    is_known = has_git(root) or os.path.isdir(f"{root}/{LEDGER_FOLDER}")
    if not is_known and root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(
            f"{root} is not a repository, and hooks here would apply to everything below it",
            hint="change to the repository first, or name it: holdfast -C FOLDER init",
        )
    return root


def _reject_bare(folder: str) -> None:
    """No agent edits in a bare repository; its worktrees have clients and hooks."""
    if git(folder, "rev-parse", "--is-bare-repository") != "true":
        return
    common = git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir") or folder
    listed = git(folder, "worktree", "list", "--porcelain") or ""
    places = [line[len(_PLACE) :] for line in listed.splitlines() if line.startswith(_PLACE)]
    works = [place for place in places if place != common]
    if works:
        hint = f"run it in one of its worktrees: holdfast -C {quoted([works[0]])} init"
    else:
        make = f"git -C {quoted([common])} worktree add FOLDER"
        hint = f"add a worktree and run it there: {make}"
    raise UsageError(f"{common} is a bare repository, in which no agent edits anything", hint=hint)


# Which clients, and git


def _named(call: Call) -> list[Client] | None:
    """The clients named with `--client`; None without that option."""
    names = [name.strip() for text in call.many("client") for name in text.split(",")]
    if not call.flag("client"):
        return None
    found: list[Client] = []
    for name in dict.fromkeys(filter(None, names)):
        one = client(name)
        if one is None:
            raise UsageError(
                f"there is no client {name!r}",
                hint=f"choose from {', '.join(known.name for known in CLIENTS)}",
            )
        found.append(one)
    if not found:
        raise UsageError("--client names no client", hint="such as --client claude,codex")
    return found


def _wants_git(call: Call, root: str) -> bool:
    if call.flag("no-git"):
        return False
    if call.flag("git") and not has_git(root):
        raise UsageError(
            f"{root} is not a git work tree", hint="leave out --git, or make it one: git init"
        )
    # With named clients, git's hooks are installed only on request.
    return has_git(root) and (call.flag("git") or not call.flag("client"))


# Installing


def _install(call: Call, root: str) -> int:
    settings = Settings.load(root)
    found = in_use(root, os.environ)
    named = _named(call)
    clients = [one for one, _why in found] if named is None else named
    with_git = _wants_git(call, root)
    if not clients and not with_git:
        raise UsageError(
            "no client was found, neither here nor on this machine",
            hint="name the clients that you use: holdfast init --client claude,codex",
        )
    command = own_command()
    owned = ledger_takeover.to_take_over(root)
    made = install_plan.install(root, clients, command, settings)
    client_trouble = _tried(clients)
    git_done: list[Touched] = []
    git_trouble: list[str] = []
    try:
        git_done = git_part.to_install(git_folder(root), command.words()) if with_git else []
    except GitError as error:
        if call.flag("git"):
            raise
        # Git was found, not requested: the agents' hooks are useful without it.
        with_git, git_trouble = (
            False,
            [f"git's hooks were not installed: {error.message}", error.hint],
        )
    made.after.git = made.after.git or with_git
    changed = bool(made.to_do or git_done or owned)
    taken: list[str] = []
    if changed and _asks(call):
        _show(call, made, git_done, "init", dry=True)
        for checkout in owned:
            talk(f"would take over the ledger of {plain(os.path.relpath(checkout, root))}")
        if not _agrees():
            talk("nothing was written")
            return FAILED
    if not call.flag("dry-run"):
        if owned:
            taken = _take_over(root, owned)
            made = install_plan.install(root, clients, command, settings)
            made.after.git = made.after.git or with_git
        bundle.write_all(os.path.dirname(os.path.dirname(command.script)))
        for one in clients:
            probe(command.hook(one.name), root, settings.deadline_seconds)
        _write(root, made, command.words() if git_done else None)
    steps = [*taken, *git_trouble, *client_trouble, *_steps(root, clients, made, changed, with_git)]
    data = {
        "command": command.words(),
        "timeout_seconds": settings.timeout_seconds,
        "deadline_seconds": settings.deadline_seconds,
        "found": [{"client": one.name, "why": why} for one, why in found],
    }
    _tell(call, "init", made, git_done, steps, data)
    return DONE


def _take_over(root: str, owned: list[str]) -> list[str]:
    """The ledgers of worktrees become part of this one. Raises InstallError."""
    told = []
    for checkout in owned:
        count = ledger_takeover.take_over(root, checkout)
        leases = "1 lease" if count == 1 else f"{count} leases"
        where = os.path.relpath(checkout, root)
        told.append(f"the ledger of {where} is now part of this one ({leases} taken over)")
    return told


def _asks(call: Call) -> bool:
    """Whether to ask for confirmation: only at a terminal. Without one no person can answer, and a
    script that runs `init` means it."""
    has_said = any(call.flag(name) for name in ("yes", "dry-run", "json"))
    return not has_said and os.isatty(0) and os.isatty(2)


def _agrees() -> bool:
    import sys

    talk("Write this? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tried(clients: list[Client]) -> list[str]:
    """Warnings about a client that does not support the form of its hooks. Raises InstallError if
    no hook would run at all."""
    obeyed = (
        exec_form_check.tried(os.environ) if any(one.adapter.EXEC_FORM for one in clients) else None
    )
    if obeyed is None:
        return []
    if obeyed.problem and not obeyed.exec_form:
        raise InstallError(
            obeyed.problem, hint=f"{obeyed.fix}, or name only other clients with --client",
            path=obeyed.program,
        )  # fmt: skip
    if obeyed.why:
        return [f"cannot tell whether edits are refused if the hook fails: {obeyed.why}"]
    return [f"{obeyed.problem}; {obeyed.fix}"] if obeyed.problem else []


def _write(root: str, made: Plan, git_words: list[str] | None) -> None:
    """Carry out the plan, all or nothing."""
    with LockManager.open(root):  # the hooks' ledger; a root that cannot have one fails here
        if git_words is not None:
            git_part.install(git_folder(root), git_words)
        try:
            install_plan.carry_out(made)
            seals.seal_all(root)
        except BaseException:
            if git_words is not None and not load(root).git:
                git_part.uninstall(git_folder(root))
            raise


def _steps(
    root: str, clients: list[Client], made: Plan, changed: bool, with_git: bool
) -> list[str]:
    """What the person still has to do, and to know."""
    steps: list[str] = []
    if not clients:
        steps.append("no agent's client was found; name yours: holdfast init --client claude,codex")
    written = {change.client for change in made.to_do}
    if written & {one.name for one in clients}:
        steps.append("restart agents that are running: they read their hooks when they start")
    for one in clients:
        if one.adapter.TO_DO and one.name in written:
            steps.append(f"{one.title}: {one.adapter.TO_DO}")
        if has_git(root) and is_tracked(git_folder(root), one.file):
            steps.append(
                f"git tracks {one.file}, and the hooks work on this machine only: "
                "do not commit them"
            )
        steps += [f"{one.title}: {told}" for told in obstacles(one, root, os.environ)]
    steps += git_part.warnings(git_folder(root)) if with_git else []
    off = switched_off(root)
    if off is not None:
        steps.append(f"{off.sentence()}; switch it on: holdfast on")
    if changed:
        steps.append("check the hooks: holdfast init --check; undo: holdfast init --undo")
    return steps


# Removing


def _undo(call: Call, root: str) -> int:
    if not call.flag("dry-run"):
        from holdfast.cli.guarding.person import person_in

        person_in(root, "remove the hooks", "let a person do it", at_a_terminal=False)
    clients = _named(call)
    made = install_plan.undo(root, clients)
    with_git = not call.flag("no-git") and (call.flag("git") or clients is None)
    with_git = with_git and has_git(root)
    git_done = git_part.to_uninstall(git_folder(root)) if with_git else []
    if with_git:
        made.after.git = False
    known = load(root)
    if not call.flag("dry-run") and (made.to_do or git_done or not known.is_empty):
        if git_done:
            git_part.uninstall(git_folder(root))
        with LockManager.open(root):
            install_plan.carry_out(made)
            if clients is None:
                seals.unseal(root)
            else:
                seals.seal_all(root)
    changed = bool(made.to_do or git_done)
    steps = ["agents that are running may keep their hooks until they end"] if changed else []
    _tell(call, "undo", made, git_done, steps, {})
    return DONE


# Printing


def _tell(
    call: Call,
    what: str,
    made: Plan,
    git_done: list[Touched],
    steps: list[str],
    data: dict[str, Any],
) -> None:
    dry = call.flag("dry-run")
    if call.flag("json"):
        document(
            {
                "root": made.root,
                "action": what,
                "dry_run": dry,
                "changed": bool(made.to_do or git_done),
                "files": [
                    {
                        "client": change.client,
                        "file": change.name,
                        "changed": change.is_change,
                        "exists": change.new is not None,
                        "backup": made.backups.get(change.name) or None,
                        "diff": change.diff(),
                    }
                    for change in made.changes
                ],
                "git": [{"file": one.name, "done": one.verb} for one in git_done],
                "next": steps,
                **data,
            }
        )
        return
    _show(call, made, git_done, what, dry=dry)
    if dry and (made.to_do or git_done):
        more = "" if call.flag("diff") else "; --diff shows every line"
        steps = [f"nothing was written{more}"]
    for step in [*_kept(made), *steps]:
        talk(f"  -> {plain(step)}")


def _kept(made: Plan) -> list[str]:
    """Where the earlier versions of the files are."""
    kept = [path.removesuffix(f"/{name}") for name, path in made.backups.items() if path]
    return [f"backup of what changed: {os.path.relpath(kept[0], made.root)}"] if kept else []


def _show(call: Call, made: Plan, git_done: list[Touched], what: str, *, dry: bool) -> None:
    for change in made.to_do if call.flag("diff") else ():
        for line in change.diff().split("\n")[:-1]:
            out("\t".join(map(plain, line.split("\t"))))
    for line in _sentences(made, git_done, what, dry=dry, whole=call.flag("diff")):
        out(plain(line))


def _sentences(
    made: Plan, git_done: list[Touched], what: str, *, dry: bool, whole: bool
) -> list[str]:
    """A line for each file; git's hooks are one line, with all names if it is to be `whole`."""
    done: list[Touched] = []
    for change in made.to_do:
        verb = "written" if change.old is None else "removed" if change.new is None else "changed"
        done.append(Touched(verb, change.name, "" if made.undo else _purpose(change)))
    most = len(git_done) if whole else 1
    for one in _together(git_done, most):
        is_new = one.verb == "written" and not one.note
        done.append(Touched(one.verb, one.name, "the hooks of git") if is_new else one)
    lines = [_sentence(one, dry) for one in done]
    if not lines:
        there = "Holdfast has no hooks here" if what == "undo" else "all hooks are in place"
        lines.append(f"nothing to do: {there}")
    return lines


def _purpose(change: Change) -> str:
    """What a file that was written is for."""
    if change.client == install_plan.COMMANDS:
        return "runs the shell commands of agents"
    if change.client == install_plan.EXCLUDE:
        return "keeps git from listing these files"
    named = client(change.client)
    return f"the hooks of {change.client if named is None else named.title}"


def _together(touched: list[Touched], most: int) -> list[Touched]:
    """Those that were treated alike in one folder as one, of which the first `most` are named."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in touched:
        folder, name = os.path.split(one.name)
        groups.setdefault((one.verb, folder, one.note), []).append(name)
    return [
        Touched(verb, os.path.join(folder, listed(names, most)), note)
        for (verb, folder, note), names in groups.items()
    ]


def _sentence(one: Touched, dry: bool) -> str:
    verb = f"would {_INFINITIVES[one.verb]}" if dry else _PAST.get(one.verb, one.verb)
    return f"{verb} {one.name} ({one.note})" if one.note else f"{verb} {one.name}"


# Checking


def _check(call: Call, root: str) -> int:
    problems: list[dict[str, str]] = []

    def add(who: str, told: list[str]) -> None:
        problems.extend({"who": who, "problem": one} for one in told)

    known, named = load(root), _named(call)
    clients = install_plan.installed(root) if named is None else named
    with_git = _wants_git(call, root) if call.flag("git") else known.git and not named
    with_git = with_git and not call.flag("no-git")
    if not clients and not with_git:
        add("init", ["no hooks are installed here"])
    try:
        settings = Settings.load(root)
    except SettingsError as error:
        settings = Settings.load(root, lenient=True)
        add("settings", [error.message])
    try:
        command = own_command()
    except InstallError as error:
        command = None
        add("init", [error.message])
    for one in clients:
        add(one.name, install_plan.check(root, one, command, settings, os.environ))
        obeyed = exec_form_check.tried(os.environ) if one.adapter.EXEC_FORM else None
        add(one.name, [obeyed.problem] if obeyed is not None and obeyed.problem else [])
    if known.version and known.version != _version():
        add("init", [f"the hooks were written by version {known.version}, this is {_version()}"])
    if with_git:
        add(
            "git", git_part.problems(git_folder(root), None if command is None else command.words())
        )
    return _tell_check(call, root, [*(one.title for one in clients), *["git"] * with_git], problems)


def _version() -> str:
    import holdfast

    return holdfast.__version__


def _tell_check(call: Call, root: str, looked: list[str], problems: list[dict[str, str]]) -> int:
    off = switched_off(root)
    if off is not None:
        problems = [*problems, {"who": "gate", "problem": off.sentence()}]
    if call.flag("json"):
        document({"root": root, "ok": not problems, "looked_at": looked, "problems": problems,
                  "off": None if off is None else {"by": off.by, "at": off.at,
                                                   "reason": off.reason}})  # fmt: skip
    elif not problems:
        out(f"all hooks are in place: {', '.join(looked)}")
    else:
        for one in problems:
            out(plain(f"{one['who']}: {one['problem']}"))
    if off is not None and not call.flag("json"):
        talk("  -> switch the gate on: holdfast on")
    if len(problems) > (off is not None) and not call.flag("json"):
        talk("  -> holdfast init repairs what it can")
    return FAILED if problems else DONE
