"""Before a command runs: whether it may, and what has to be recorded."""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value
from holdfast.core.sentences import duration
from holdfast.gate import pending_writes
from holdfast.gate.guard import edit_marks
from holdfast.gate.guard.held_by_others import is_near, look
from holdfast.gate.guard.switch_files import (
    BY_EDITING,
    COMMAND_REFUSED,
    kept_from,
    switches_off,
    write_down,
)
from holdfast.gate.guard.tool_caches import is_cache
from holdfast.gate.intent import (
    ALLOW,
    DENY,
    QUIET,
    SPEC_WORDS,
    Answer,
    joined,
    leads_into_spec,
    with_context,
)
from holdfast.manager.files.paths import LEDGER_FOLDER, checkout_of, file_of
from holdfast.manager.files.realpath import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from holdfast.gate.guard.held_by_others import Held, Sight
    from holdfast.gate.intent import Intent
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.gate.shell import Reading, TreeVerb
    from holdfast.manager.files.paths import Place, Tree
    from holdfast.manager.ledger import Ledger

#: What to do instead of changing the whole tree.
_INSTEAD = {
    "stash": "Stash your own files only: git stash push -- YOUR FILES",
    "reset": "Put your own files back only: git checkout HEAD -- YOUR FILES",
    "checkout": "Name your own files, or use another folder: git worktree add ../NAME BRANCH",
    "switch": "Work on the other branch in another folder: git worktree add ../NAME BRANCH",
    "restore": "Name your own files: git restore YOUR FILES",
    "clean": "Name your own files: git clean -f -- YOUR FILES",
}
#: What to do instead of removing files that the gate needs.
_SPARING = {
    "clean": "Exclude it: git clean … -e '/{0}', with -X: -e '!/{0}' -e '!/{0}/**'. ",
    "stash": "Exclude it: -u instead of --all, or name your own files after `--`. ",
}
_WAIT = "Wait until they have committed, or use another folder: git worktree add ../NAME BRANCH"
LISTED_MAX = 10


class Inside(Value):
    """What a command writes in one ledger's tree. All paths are absolute: `files`, `folders` with
    everything below them, and `ours`, files that switch the gate off and that no one may lock.
    `places` has the place of each file."""

    __slots__ = ("files", "folders", "ours", "places")

    def __init__(
        self, files: list[str], folders: list[str], ours: list[str], places: dict[str, Place]
    ) -> None:
        self.files: Final = files
        self.folders: Final = folders
        self.ours: Final = ours
        self.places: Final = places


def inside(writes: Iterable[str], tree: Tree) -> Inside:
    """Those of some paths that belong to a ledger. Paths that no lease can name are left out: a
    path elsewhere, a name that cannot be encoded, git's own files."""
    files: list[str] = []
    folders: list[str] = []
    ours: list[str] = []
    places: dict[str, Place] = {}
    own = f"{tree.root}/{LEDGER_FOLDER}"
    for text in writes:
        try:
            real = resolve(text, text)[0]
            if f"{real}/".startswith(f"{own}/"):
                ours.append(text)
                continue
            if text.endswith("/") and f"{tree.root}/".startswith(f"{real.rstrip('/')}/"):
                folders.append(f"{real.rstrip('/')}/")  # the tree itself, or a folder around it
                continue
            place = tree.place(text)
        except HoldfastError:
            continue
        if not place.real:
            continue
        if ".git" in place.path.split("/"):
            if switches_off(tree.root, [_real(text)]):
                ours.append(text)
            continue
        if place.folder:
            folders.append(f"{place.real.rstrip('/')}/")
        elif text not in places:
            files.append(text)
            places[text] = place
    return Inside(files, folders, ours, places)


def before(intent: Intent, gate: LeaseGate, manager: Ledger, reading: Reading) -> Answer:
    """The answer to a command that is about to run."""
    assert manager.tree is not None
    writes = inside(reading.writes, manager.tree)
    gate.introduce()
    sight = look(manager, gate.holder)
    refused = _refused(manager, gate, intent, reading, writes, sight)
    if refused is not None:
        return refused
    answer = _leased(gate, manager, writes, sight, reading.absent)
    if answer.kind not in (ALLOW, QUIET):
        return answer
    root = manager.tree.root
    trees = [verb for verb in reading.trees if is_near(os.path.realpath(verb.folder), root)]
    unsure = reading.unsure or bool(trees or writes.folders)
    if writes.files:
        pending_writes.begin_command(
            root, gate.holder.key, [place.key for place in writes.places.values()]
        )
    edit_marks.note_writes(
        root, gate.holder.key, (edit_marks.ANYTHING,) if unsure else reading.writes
    )
    fleeting = [text for text in writes.files if text in reading.fleeting]
    if unsure or fleeting or sight.others:
        return _watched(answer, manager, gate, intent, sight, unsure=unsure, fleeting=fleeting)
    return answer


def before_leased(intent: Intent, gate: LeaseGate, manager: Ledger, reading: Reading) -> Answer:
    """The answer to a command that will run below a broker: nothing is leased here. If it plainly
    writes a file that another holder has, or contains a git verb with which others would lose work,
    it is refused before it begins, so that it does not fail half-way."""
    assert manager.tree is not None
    writes = inside(reading.writes, manager.tree)
    gate.introduce()
    sight = look(manager, gate.holder)
    refused = _refused(manager, gate, intent, reading, writes, sight)
    if refused is not None:
        return refused
    theirs = {one.path for one in sight.others}
    folders = tuple(writes.folders)
    held = [place for place in writes.places.values() if place.path in theirs]
    below = [
        one.file for one in sight.others
        if not one.folder and folders and one.file.startswith(folders)
    ]  # fmt: skip
    return gate.permit([*held, *below]) if held or below else gate.live_on()


def _refused(
    manager: Ledger, gate: LeaseGate, intent: Intent, reading: Reading, writes: Inside, sight: Sight
) -> Answer | None:
    """The refusal of a command that must not run at all; None if it may."""
    refused = (
        _blocked(gate, reading, sight)
        or _switching_off(manager, gate, intent, writes)
        or _in_specs(manager, gate, writes)
        or _losing(manager, gate, intent, reading, sight)
    )
    if refused is None:
        return None
    said = gate.live_on() if refused.kind == DENY else refused
    return with_context(refused, said.context)


def before_own(intent: Intent, gate: LeaseGate, manager: Ledger) -> Answer:
    """The answer to a line that only calls Holdfast: if the agent was stopped, only commands that
    read pass."""
    halted = gate.blocked()
    if halted is not None:
        from holdfast.gate.guard.own_commands import only_looks

        if not only_looks(intent.command):
            return halted
    return gate.live_on()


def _watched(
    answer: Answer,
    manager: Ledger,
    gate: LeaseGate,
    intent: Intent,
    sight: Sight,
    *,
    unsure: bool,
    fleeting: list[str],
) -> Answer:
    from holdfast.gate.guard.file_watch import remember

    assert manager.tree is not None
    try:
        remember(
            manager.tree.root, gate.holder, intent.command, sight.others,
            unsure=unsure, fleeting=fleeting,
        )  # fmt: skip
    except OSError as error:  # to refuse it would punish a command that may never do harm
        why = error.strerror or type(error).__name__
        told = f"holdfast: this command could not be watched: {why}. Run: holdfast doctor"
        return joined(answer, Answer(QUIET, user=told))
    return answer


# What is refused


def _blocked(gate: LeaseGate, reading: Reading, sight: Sight) -> Answer | None:
    """The refusal, for an agent that was stopped, of a line that is not proven only to read; it
    holds until a person tells the agent to go on."""
    if sight.blocked is None or reading.only_reads:
        return None
    return gate.blocked()


def _switching_off(
    manager: Ledger, gate: LeaseGate, intent: Intent, writes: Inside
) -> Answer | None:
    assert manager.tree is not None
    if not (writes.ours or writes.files or writes.folders):
        return None
    root = manager.tree.root
    found = switches_off(root, [*map(_real, writes.ours), *map(_real, writes.files),
                                *writes.folders])  # fmt: skip
    if found is None:
        return None
    instead = BY_EDITING if found[0].endswith((".json", ".toml")) else ""
    return _kept_from(manager, gate, intent, *found, instead)


def _kept_from(
    manager: Ledger, gate: LeaseGate, intent: Intent, path: str, why: str, instead: str
) -> Answer:
    from holdfast.gate.guard.file_watch import shown

    what = {"command": shown(intent.command)}
    return kept_from(gate, path, why, instead, event=COMMAND_REFUSED, what=what)


def _in_specs(manager: Ledger, gate: LeaseGate, writes: Inside) -> Answer | None:
    """The refusal of files in specs that others have locked, leased or not."""
    assert manager.tree is not None
    root = manager.tree.root
    paths = [place.path for place in writes.places.values()]
    files = [file_of(root, path) for path in paths if leads_into_spec(path)]
    folders = [one for one in writes.folders if leads_into_spec(one) or _has_specs(one)]
    if not (files or folders):
        return None
    from holdfast.gate import locked_specs

    return locked_specs.refusal(gate.holder, files, folders)


def _has_specs(folder: str) -> bool:
    """Whether a folder contains specs, or is the home of all of them."""
    if folder.endswith(("/.kiro/", "/.sce/")):
        return True
    return any(os.path.isdir(folder + words) for words in SPEC_WORDS)


def _real(text: str) -> str:
    return resolve(text, text)[0] + ("/" if text.endswith("/") else "")


def _losing(
    manager: Ledger, gate: LeaseGate, intent: Intent, reading: Reading, sight: Sight
) -> Answer | None:
    """The refusal of a verb on the whole tree with which others would lose something."""
    if not reading.trees:
        return None
    assert manager.tree is not None
    root = manager.tree.root
    from holdfast.gate.guard.git_queries import GIT_SECONDS
    from holdfast.gate.guard.tree_verbs import losses

    found = losses(reading.trees, sight.others, root, gate.at_most(GIT_SECONDS))
    if found is None:
        return None
    verb, lost = found.verb, found.held
    if found.ours:
        instead = _SPARING.get(verb.verb, "").format(os.path.relpath(found.ours, root))
        return _kept_from(manager, gate, intent, found.ours, found.why, instead)
    from holdfast.gate.guard.file_watch import shown

    data = {"command": shown(intent.command), "paths": [one.path for one in lost]}
    write_down(gate, COMMAND_REFUSED, data)
    gate.limit([one.grant for one in lost])
    now = manager.now()
    return Answer(DENY, _said(verb, lost, now), user=_said_to_user(gate.holder.id, verb, lost))


def _said(verb: TreeVerb, lost: Sequence[Held], now: int) -> str:
    lines = [
        f"  {one.path}  {one.owner}, who has held it for {duration(now - one.since)}"
        for one in lost[:LISTED_MAX]
    ]
    if len(lost) > LISTED_MAX:
        lines.append(f"  and {len(lost) - LISTED_MAX} more")
    return (
        f"Refused: `git {_line(verb)}` would change files that others are working on:\n"
        + "\n".join(lines)
        + f"\nNothing was changed. {_INSTEAD.get(verb.verb, _WAIT)}"
    )


def _said_to_user(agent: str, verb: TreeVerb, lost: Sequence[Held]) -> str:
    who = ", ".join(sorted({one.owner for one in lost}))
    return (
        f"holdfast: {agent} may not run `git {_line(verb)}` now: it would change "
        f"{len(lost)} file{'s' if len(lost) > 1 else ''} that {who} holds."
    )


def _line(verb: TreeVerb) -> str:
    from holdfast.gate.guard.file_watch import shown

    return shown(" ".join((verb.verb, *verb.argv)))


# What is leased


def _leased(
    gate: LeaseGate, manager: Ledger, writes: Inside, sight: Sight, absent: frozenset[str]
) -> Answer:
    """Lease the files that are plainly written. For a folder, the files that others hold below it
    decide. No lease is kept on a file that is removed and did not exist: it would only block
    others."""
    if not (writes.files or writes.folders):
        return gate.live_on()
    theirs = {one.path: one for one in sight.others}
    below = [
        one.file
        for one in sight.others
        if not one.folder and one.file.startswith(tuple(writes.folders))
    ]
    paths = {text: place.path for text, place in writes.places.items()}
    new = [text for text in writes.files if paths[text] not in sight.mine]
    free = [text for text in new if paths[text] not in theirs]
    passing = {text for text in free if text in absent or is_cache(paths[text])}
    passing |= _ignored(gate, manager, [text for text in free if text not in passing])
    wanted = [writes.places[text] for text in writes.files if text not in passing]
    return gate.permit([*wanted, *below]) if wanted or below else gate.live_on()


def _ignored(gate: LeaseGate, manager: Ledger, paths: list[str]) -> set[str]:
    """Those that git ignores and no one holds: build output and logs, which all agents write with
    the same commands. No agent keeps a lease on them, or the next test run would be refused."""
    if not paths:
        return set()
    from holdfast.gate.guard.git_queries import GIT_SECONDS, Git, ignored

    assert manager.tree is not None
    # `build/` ignores a folder only, and a path that does not exist yet may become one
    asked = {path: path for path in paths}
    asked.update({f"{path}/": path for path in paths if not os.path.lexists(path)})
    end = monotonic() + gate.at_most(GIT_SECONDS)
    checkout = checkout_of(manager.tree.root, os.path.dirname(paths[0]))
    found = ignored(Git(checkout, end), asked)
    return {asked[path] for path in found if path in asked}
