"""proof …: events and claims of a proof.

The proof is the nearest folder, from the current one upwards, with a `ledger/` and a `meta.json`;
the current one needs only the ledger, since other programs may omit the rest.
"""

from __future__ import annotations

import json
import os
import sys
import time

from holdfast.cli import DONE, FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import colours, document, local, out, plain, quoted, talk
from holdfast.cli.terminal.tables import (
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_width,
)
from holdfast.core.errors import LockTimeoutError, StoreError
from holdfast.core.sentences import duration
from holdfast.manager.owners.identity import whoami
from holdfast.proof import Claims, Finding, ProofLedger, ledger_lock, make_proof
from holdfast.proof import agents as _agents
from holdfast.proof.dialects import proof_codec
from holdfast.proof.dialects.dialect import AF
from holdfast.proof.health import proof_repair
from holdfast.proof.health.audit_finding import ERROR, NOTE, WARNING
from holdfast.proof.health.proof_audit import verify as _verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.proof import Claim, ProofEvent

_LOOK_SECONDS = 2.0
_LINES_AT_ONCE = 500
#: How often a long-running command reaps.
_REAP_SECONDS = 30.0
_EXAMPLE = """--data '{"node_id": "1.2"}'"""


def _folder(context: CommandContext) -> str:
    """The folder of the proof."""
    here = context.folder
    if os.path.lexists(os.path.join(here, proof_codec.LEDGER)):
        return here
    folder = here
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        if all(
            os.path.lexists(os.path.join(folder, one))
            for one in (proof_codec.LEDGER, proof_codec.META)
        ):
            return folder
    return here


def _open(call: Call) -> ProofLedger:
    return ProofLedger(_folder(CommandContext(call)))


def _word(call: Call, what: str) -> str:
    if len(call.words) != 1:
        raise UsageError(
            f"{call.command.name} takes one {what}", hint=f"holdfast {call.command.name} --help"
        )
    return call.words[0]


def _owner(call: Call) -> str:
    given = call.text("owner")
    return whoami(os.environ).holder.id if given is None else given


# Events


def init(call: Call) -> int:
    """Create a proof."""
    context = CommandContext(call)
    if len(call.words) > 1:
        raise UsageError("proof init takes one folder", hint="holdfast proof init DIR")
    path = os.path.join(context.folder, *call.words)
    make_proof(path, timeout=call.text("timeout") or "", claim_files=call.flag("locks"))
    ledger = ProofLedger(path)
    if call.flag("json"):
        document({"proof": ledger.folder.root, "head": ledger.head,
                  "lock_timeout_seconds":
                      ledger.folder.timeout() / proof_codec.SECOND})  # fmt: skip
    else:
        whose = " of af" if ledger.folder.dialect is AF else ""
        out(f"{plain(ledger.folder.root)} is a proof{whose} with {_count(ledger.head, 'event')}")
    return DONE


def append(call: Call) -> int:
    """Append an event, and print its number."""
    type, ledger = _word(call, "TYPE"), _open(call)
    if type in ledger.folder.dialect.claim_types:
        raise UsageError(
            f"{type} events are appended by the commands for claims",
            hint="holdfast proof claim, refresh, release, reap",
        )
    event = {"type": type, **_data(call)}
    force = call.flag("force")
    if force:
        _person(
            "append an event about a node that another owner has claimed", "wait for its release"
        )
    number = Claims(ledger).append(
        event, owner=_owner(call), if_sequence=call.number("if-sequence"), force=force
    )
    if call.flag("json"):
        document({"sequence": number, "file": ledger.folder.event_name(number)})
    else:
        out(str(number))
    return DONE


def _data(call: Call) -> dict[str, Any]:
    text = call.text("data")
    if text is None:
        return {}
    try:
        data = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--data is not JSON: {error}", hint=_EXAMPLE) from error
    if not isinstance(data, dict) or "type" in data:
        raise UsageError(
            "--data must be an object with the event's fields, except its type",
            hint=_EXAMPLE,
        )
    return data


def events(call: Call) -> int:
    """Show the events; with --follow, also those that are appended later."""
    if call.flag("follow") and call.flag("reverse"):
        raise UsageError(
            "--follow and --reverse exclude each other", hint="leave out one of the two"
        )
    ledger, after, most = _open(call), call.number("after") or 0, call.number("number")
    if most is not None:
        after = max(after, ledger.head - most)
    if call.flag("reverse"):
        _show(call, reversed(list(ledger.read(after))))
        return DONE
    after = _print(call, ledger, after)
    if call.flag("follow"):
        _follow(call, ledger, after)
    return DONE


def _follow(call: Call, ledger: ProofLedger, after: int) -> None:
    """Show events as they are appended, and reap claims that expire meanwhile."""
    from holdfast.cli.locking.status import reader_is_gone

    claims, reap_at = Claims(ledger), time.monotonic()
    while not reader_is_gone():
        if time.monotonic() >= reap_at:
            reap_at = time.monotonic() + _REAP_SECONDS
            _reap_quietly(claims)
        if ledger.wait(after, _LOOK_SECONDS):
            after = _print(call, ledger, after)


def _reap_quietly(claims: Claims) -> None:
    """Reap if that is possible now. Reading needs neither the lock nor write permission."""
    try:
        claims.reap()
    except (LockTimeoutError, StoreError):
        return


def _print(call: Call, ledger: ProofLedger, after: int) -> int:
    """Show the events after a number; returns the number of the last."""
    return _show(call, ledger.read(after)) or after


def _show(call: Call, events: Iterable[ProofEvent]) -> int:
    lines: list[str] = []
    last = 0
    for event in events:
        last = event.sequence
        if call.flag("json"):
            document(event.to_dict())
            continue
        lines.append(_line(event))
        if len(lines) >= _LINES_AT_ONCE:
            out("\n".join(lines))
            lines.clear()
    if lines:
        out("\n".join(lines))
    return last


def _line(event: ProofEvent) -> str:
    rest = {name: value for name, value in event.data.items() if name not in ("type", "timestamp")}
    facts = "  ".join(f"{name}={_short(value)}" for name, value in rest.items())
    return plain(f"{event.sequence:>6}  {event.timestamp:<27}  {event.type}  {facts}").rstrip()


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


# Claims


def claim(call: Call) -> int:
    """Claim a node."""
    return _taken(call, "claimed", Claims.claim)


def refresh(call: Call) -> int:
    """Extend a claim."""
    return _taken(call, "refreshed", Claims.refresh)


def _taken(call: Call, verb: str, take: Any) -> int:
    node, owner = _word(call, "NODE"), _owner(call)
    found: Claim = take(Claims(_open(call)), node, owner=owner, timeout=call.text("timeout"))
    if call.flag("json"):
        document({"claim": found.to_dict()})
        return DONE
    assert found.expires_at is not None
    until = local(found.expires_at / proof_codec.SECOND)
    out(f"{verb} {found.node} for {plain(owner)} until {until}")
    if verb == "claimed":
        again = quoted(["refresh", found.node, *(["--owner", owner] if call.flag("owner") else [])])
        talk(f"  extend it before then: holdfast proof {again}")
    return DONE


def release(call: Call) -> int:
    """Release a claim."""
    node, owner = _word(call, "NODE"), _owner(call)
    ended = Claims(_open(call)).release(node, owner=owner)
    if call.flag("json"):
        document({"released": ended.to_dict()})
    else:
        out(f"released {ended.node}")
    return DONE


def reap(call: Call) -> int:
    """Record the claims that have expired."""
    dry = call.flag("dry-run")
    found = Claims(_open(call)).reap(dry_run=dry)
    if call.flag("json"):
        document({"reaped": [one.to_dict() for one in found], "dry_run": dry})
        return DONE
    for one in found:
        out(f"{'would reap' if dry else 'reaped'} the claim of {plain(one.owner)} on {one.node}")
    if not found:
        talk("no claim has expired")
    return DONE


def status(call: Call) -> int:
    """Show who works on which node."""
    ledger = _open(call)
    claims, now = Claims(ledger).known(), ledger.now()
    if not call.flag("all"):
        claims = [one for one in claims if one.is_live(now)]
    if call.flag("json"):
        shown = [{**one.to_dict(), "state": _state(one, now)} for one in claims]
        document({"proof": ledger.folder.root, "head": ledger.head, "claims": shown})
        return DONE
    count = _count(len(claims), "claim") if claims else "no claims"
    out(f"{count} in {plain(ledger.folder.root)}, {_count(ledger.head, 'event')}")
    if claims:
        columns = [Column("NODE", 8), Column("WHO", 10), Column("FOR"), Column("UNTIL"),
                   Column("STATE")]  # fmt: skip
        rows = [_row(one, now) for one in claims]
        out("\n" + "\n".join(render(columns, rows, width=terminal_width(), colours=colours())))
    return DONE


def _row(claim: Claim, now: int) -> list[Cell]:
    since, until = claim.acquired_at, claim.expires_at
    state = _state(claim, now)
    return [
        Cell(claim.node),
        Cell(claim.owner),
        Cell("" if since is None else duration(max(0, now - since) // 1000)),
        Cell("its release" if until is None else local(until / proof_codec.SECOND)),
        Cell("" if state == "live" else state, RED),
    ]


def _state(claim: Claim, now: int) -> str:
    return "live" if claim.is_live(now) else "expired"


def agents(call: Call) -> int:
    """Show the owners of claims, and what each has done so far."""
    ledger = _open(call)
    found = _agents(ledger)
    if call.flag("json"):
        document({"proof": ledger.folder.root, "agents": [one.to_dict() for one in found]})
        return DONE
    if not found:
        out("no node has ever been claimed")
        return DONE
    columns = [Column("AGENT", 10), Column("HAS", 8), Column("CLAIMED"), Column("REFRESHED"),
               Column("RELEASED"), Column("EXPIRED"), Column("LAST")]  # fmt: skip
    rows = [
        [Cell(one.owner), Cell(" ".join(one.nodes)), *map(_number, (one.claimed, one.refreshed)),
         *map(_number, (one.released, one.expired)), Cell(one.last)]
        for one in found
    ]  # fmt: skip
    out("\n".join(render(columns, rows, width=terminal_width(), colours=colours())))
    return DONE


def _number(count: int) -> Cell:
    return Cell(str(count) if count else "")


# Health


def verify(call: Call) -> int:
    """Check every event."""
    ledger = _open(call)
    found = _verify(ledger)
    if call.flag("json"):
        document(_report(ledger, found))
        return _code(found)
    _tell(found)
    bad = sum(one.severity == ERROR for one in found)
    told = f"{bad} cannot be relied on" if bad else "all well"
    out(f"{_count(len(ledger.folder.sequences()), 'event')}: {told}")
    return _code(found)


def doctor(call: Call) -> int:
    """Report all problems of the proof, after the requested repairs."""
    ledger = _open(call)
    done: list[str] = []
    if call.flag("break-lock"):
        done += _broken(ledger)
    if call.flag("fix"):
        done += proof_repair.fix(ledger)
    found = proof_repair.examine(ledger)
    if call.flag("json"):
        document({**_report(ledger, found), "done": done})
        return _code(found)
    for one in done:
        out(plain(one))
    _tell(found)
    if all(one.severity == NOTE for one in found):
        out("nothing is wrong")
    return _code(found)


def _broken(ledger: ProofLedger) -> list[str]:
    _person("break a ledger's lock", "wait for it, or let a person do it")
    found = ledger_lock.break_lock(ledger.folder, ledger.now())
    if found is None:
        return ["there is no lock to break"]
    return [f"took the ledger's lock from {found.holder()}"]


def _person(may: str, hint: str) -> None:
    from holdfast.cli.guarding.person import person

    person(may, hint, at_a_terminal=False)


def _report(ledger: ProofLedger, found: Sequence[Finding]) -> dict[str, Any]:
    return {
        "proof": ledger.folder.root,
        "ok": _code(found) == DONE,
        "findings": [one.to_dict() for one in found],
    }


def _code(found: Sequence[Finding]) -> int:
    return FAILED if any(one.severity == ERROR for one in found) else DONE


def _tell(found: Sequence[Finding]) -> None:
    marks = {ERROR: RED, WARNING: YELLOW}
    for one in found:
        mark = marks.get(one.severity, "")
        severity = f"\x1b[{mark}m{one.severity}\x1b[0m" if colours() and mark else one.severity
        out(f"{severity} {one.code}: {plain(one.detail)}")
        if one.repair:
            out(f"  -> {plain(one.repair)}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
