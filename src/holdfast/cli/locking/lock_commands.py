"""lock, unlock, renew, steal: the commands that change which holder has what."""

from __future__ import annotations

import time

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext, nothing_held, tree_of
from holdfast.cli.parser import FOREVER_SECONDS, UsageError
from holdfast.cli.printing import document, listed, local, out, plain, quoted, talk
from holdfast.core import sentences
from holdfast.core.model import SECOND, TTL_DEFAULT_SECONDS, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call
    from holdfast.core.model import Grant, Holder
    from holdfast.manager.grants import GrantSnapshot, LockGrant
    from holdfast.manager.manager import LockManager
    from holdfast.manager.owners.identity import Self


def lock(call: Call) -> int:
    """Lock files for writing, and others for reading: all or none."""
    context = CommandContext(call)
    me, (reads, writes) = context.me(), _requested_paths(context)
    manager = context.open(writes + reads)
    me = _introduced(manager, me)
    ttl, reason = call.ttl(TTL_DEFAULT_SECONDS), call.text("reason") or ""
    grant = take(manager, me.holder, reads, writes, ttl=ttl, reason=reason, wait=call.wait())
    keep_beside(manager, me.holder, grant)
    _print_taken(call, "locked", grant, me)
    return DONE


def steal(call: Call) -> int:
    """Take over a lock whose lease has expired."""
    context = CommandContext(call)
    me, (reads, writes) = context.me(), _requested_paths(context)
    manager = context.open(writes + reads)
    me = _introduced(manager, me)
    grant = manager.steal(
        holder=me.holder,
        read_paths=reads,
        write_paths=writes,
        ttl=call.ttl(TTL_DEFAULT_SECONDS),
        reason=call.text("reason") or "",
    )
    keep_beside(manager, me.holder, grant)
    _print_taken(call, "stole", grant, me)
    return DONE


def keep_beside(manager: LockManager, owner: Holder, grant: LockGrant) -> None:
    """On a server's ledger, have a lease that lasts as long as its owner renewed by a keeper beside
    the owner's process: this command may end before it, or be killed while its children go on."""
    if manager.store.lease is None or grant.ttl_seconds is not None or owner.witness is None:
        return
    from holdfast.gate import client_keeper
    from holdfast.gate.rulebook.display_names import session_key

    key = session_key(owner) if owner.client else owner.key
    lease = manager.store.lease / SECOND
    client_keeper.start(tree_of(manager).root, key, owner.witness, lease, manager.store)


def _introduced(manager: LockManager, me: Self) -> Self:
    """The caller; an agent by its name in this ledger, which is registered if it is new."""
    if not me.holder.client:
        return me
    from holdfast.gate.people.agent_lookup import introduced

    return type(me)(introduced(manager, me.holder), me.how)


def take(
    manager: LockManager,
    holder: Holder,
    reads: list[str],
    writes: list[str],
    *,
    ttl: float | None,
    reason: str,
    wait: float | None,
) -> LockGrant:
    """Acquire all of it, immediately or after a wait. Raises the refusal."""
    if wait is None:
        outcome = manager.ask(holder, reads, writes, ttl=ttl, reason=reason)
        if isinstance(outcome, Refusal):
            raise sentences.refusal_error(outcome, now=manager.now(), requester=holder.id)
        return outcome
    _announce_wait(manager, holder, reads, writes, wait)
    return manager.acquire(
        holder=holder, read_paths=reads, write_paths=writes, timeout=wait, ttl=ttl, reason=reason
    )


def _announce_wait(
    manager: LockManager, holder: Holder, reads: list[str], writes: list[str], wait: float
) -> None:
    """Name the holders that we wait for, since a silent wait looks like a hang."""
    from holdfast.cli.command_context import view_of
    from holdfast.core import rules

    request = manager.request(holder, reads, writes)
    with view_of(manager) as view:
        conflicts, now = rules.look(view, request), view.now
    if conflicts and wait > 0:
        limit = "" if wait >= FOREVER_SECONDS else f" for up to {wait:g} s"
        talk(f"waiting{limit}: {plain(sentences.conflict_sentences(conflicts, now))}")


def _requested_paths(context: CommandContext) -> tuple[list[str], list[str]]:
    call = context.call
    reads, writes = context.places(call.many("read")), context.places(call.words)
    if not reads and not writes:
        raise UsageError(
            f"{call.command.name} needs at least one path",
            hint=f"holdfast {call.command.name} PATH…, or --read PATH",
        )
    return reads, writes


def _print_taken(call: Call, verb: str, grant: LockGrant, me: Self) -> None:
    if call.flag("json"):
        from holdfast.manager.plain_data import holder_data

        document({"grant": grant.to_dict(), "owner": holder_data(me.holder), "how": me.how})
        return
    mine, ttl = plain(me.holder.id), grant.ttl_seconds
    until = f"until {local(time.time() + ttl)}" if ttl is not None else "until it is released"
    out(f"{verb} {_paths(grant)} for {mine} {until}, token {grant.token}")
    talk(f"  {mine}: {plain(me.how)}")
    if ttl is None and me.holder.witness is None:
        talk("  nothing else ends it: it has no ttl and no owner process")
    talk(f"  release it: holdfast unlock {quoted(_way_back(call, grant))}")


def _way_back(call: Call, grant: LockGrant) -> list[str]:
    """The words for `unlock` that undo this call, typed in the same folder."""
    words = [word for folder in call.many("-C") for word in ("-C", folder)]
    for name in ("store", "holder"):
        value = call.text(name)
        words += [f"--{name}", value] if value else []
    names = [*call.words, *call.many("read")]
    if len(names) > 4:
        names = [grant.id]
    return [*words, *(["--"] if any(name.startswith("-") for name in names) else []), *names]


def _paths(grant: GrantSnapshot) -> str:
    """The paths of a grant, as text."""
    parts = []
    if grant.write_paths:
        parts.append(listed(grant.write_paths))
    if grant.read_paths:
        parts.append(f"{listed(grant.read_paths)} (to read)")
    return " and ".join(parts)


def unlock(call: Call) -> int:
    """Release grants, named by their ids or by their paths."""
    context = CommandContext(call)
    if call.flag("force"):
        return _force(context)
    if call.flag("reason"):
        raise UsageError("--reason needs --force", hint="leave it out: a release needs no reason")
    me = context.me().holder
    manager, grants = _owned(context, me, to_release=True)
    for grant in grants:
        manager.release(grant.id, holder=me)
    _print_released(call, grants)
    return DONE


def renew(call: Call) -> int:
    """Extend grants, named by their ids or by their paths."""
    context = CommandContext(call)
    ttl = call.ttl(None)
    if ttl is None and call.flag("ttl"):
        raise UsageError(
            "renew cannot make a lease endless",
            hint="lock it again with --ttl none, then unlock this",
        )
    me = context.me().holder
    manager, grants = _owned(context, me, to_release=False)
    renewed = [manager.renew(grant.id, holder=me, ttl=ttl) for grant in grants]
    for grant in renewed:
        keep_beside(manager, me, grant)
    if call.flag("json"):
        document({"renewed": [grant.to_dict() for grant in renewed]})
        return DONE
    for grant in renewed:
        end = grant.expires_at
        if grant.ttl_seconds is None and manager.store.lease is not None:
            end = None  # it lasts as long as its owner
        until = "it has no end" if end is None else f"until {local(end.timestamp())}"
        out(f"renewed {_paths(grant)}: {until}")
    return DONE


def _owned(
    context: CommandContext, me: Holder, *, to_release: bool
) -> tuple[LockManager, list[Grant]]:
    """The grants of the caller that the command line names."""
    from holdfast.cli.locking.grant_selection import owned

    names = _names(context)
    manager = context.find(names)
    if manager is None:
        raise nothing_held(context.call.words[0])
    if me.client:
        from holdfast.gate.people.agent_lookup import known_as

        me = known_as(manager, me)
    return manager, owned(manager, me, names, to_release=to_release)


def _names(context: CommandContext) -> list[str]:
    from holdfast.cli.locking.grant_selection import is_grant_id

    call = context.call
    if not call.words:
        raise UsageError(
            f"{call.command.name} needs a grant or a path",
            hint=f"holdfast {call.command.name} PATH…; holdfast status shows what is locked",
        )
    return [word if is_grant_id(word) else context.places([word])[0] for word in call.words]


def _force(context: CommandContext) -> int:
    """Take grants away from their holders."""
    from holdfast.cli.locking.grant_selection import held

    names = _names(context)
    manager = context.find(names)
    person, reason = _person(context, manager), (context.call.text("reason") or "").strip()
    if not reason:
        raise UsageError(
            "--force needs a reason", hint='say why; the log will show it: --reason "…"'
        )
    if manager is None:
        raise nothing_held(context.call.words[0])
    taken = [
        manager.force(grant.id, by=person, reason=" ".join(plain(reason).split()))
        for grant in held(manager, names)
    ]
    if context.call.flag("json"):
        document({"forced": [grant.to_dict() for grant in taken], "by": person.id})
        return DONE
    for one in taken:
        out(f"took {_paths(one)} away from {plain(one.holder)}, by {plain(person.id)}")
    talk("  writes with its token are refused from now on, wherever tokens are checked")
    return DONE


def _person(context: CommandContext, manager: LockManager | None) -> Holder:
    """The person who runs this. An agent that could use force would do so at every conflict."""
    from holdfast.cli.guarding.person import person

    if context.call.flag("holder"):
        raise UsageError("--force and --holder do not go together", hint="leave out --holder")
    return person(
        "take a lock away by force", "ask its holder, wait for it, or let a person do it",
        manager=manager,
    )  # fmt: skip


def _print_released(call: Call, grants: list[Grant]) -> None:
    from holdfast.manager.grants import GrantSnapshot

    shown = [GrantSnapshot(grant) for grant in grants]
    if call.flag("json"):
        document({"released": [{**grant.to_dict(), "released": True} for grant in shown]})
        return
    for grant in shown:
        out(f"released {_paths(grant)}")
