"""store …: a ledger moves to another store, and whether a store is in order."""

from __future__ import annotations

from holdfast.cli import DONE, FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.guarding.person import person_in
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, out, plain, quoted, talk
from holdfast.core.sentences import duration
from holdfast.manager import ledger_move, store_check
from holdfast.manager.ledger_location import store_of
from holdfast.store.check_finding import BAD
from holdfast.store.store_url import is_server, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call
    from holdfast.manager.ledger_move import Copied


def copy(call: Call) -> int:
    """Move a ledger to another store."""
    context = CommandContext(call)
    if len(call.words) != 2:
        raise UsageError(
            "store copy needs two stores", hint="holdfast store copy FROM TO; see help store copy"
        )
    person_in(
        context.root(), "move a ledger", "ask the person whom you work for", at_a_terminal=False
    )
    source, target = (ledger_move.url_of(word, context.folder) for word in call.words)
    done = ledger_move.copy(source, target)
    if call.flag("json"):
        document({
            "outcome": done.outcome, "from": done.source, "to": done.target,
            "events": done.events, "ahead_seconds": done.ahead / 1_000_000,
        })  # fmt: skip
        return DONE
    _tell(done)
    return DONE


def _tell(done: Copied) -> None:
    source, target = plain(done.source), plain(done.target)
    if done.outcome == ledger_move.UNDONE:
        out(f"undone: {target} can be used as before, and {source} stays empty")
        return
    if done.outcome == ledger_move.ALREADY:
        out(f"already: {source} was moved to {target}")
    else:
        many = f"{done.events} events, " if done.events else ""
        out(f"moved {source} to {target}: {many}and nothing can be locked at the old place now")
    if done.ahead:
        talk(f"  its time is {duration(done.ahead)} ahead of the server's clock: until that has "
             "caught up, leases there end late")  # fmt: skip
    if is_server(done.target):
        talk("  every clone has to name it now: store in holdfast.toml, or")
        talk(f"  export HOLDFAST_STORE={quoted([done.target])}")
    elif is_server(done.source):
        talk(
            "  it is used where no server is named: see HOLDFAST_STORE, and store in holdfast.toml"
        )
    talk(f"  undo it: holdfast store copy {quoted([done.target, done.source])}")


def check(call: Call) -> int:
    """Show whether a store can be used."""
    context = CommandContext(call)
    if len(call.words) > 1:
        raise UsageError("store check takes one store", hint="holdfast store check URL")
    if call.words:
        url = ledger_move.url_of(call.words[0], context.folder)
    else:
        url = context.store or store_of(context.root())
    findings = list(store_check.check(url))
    works = all(finding.level != BAD for finding in findings)
    if call.flag("json"):
        document({
            "url": without_password(url),
            "ok": works,
            "findings": [
                {"about": one.about, "level": one.level, "said": one.said, "hint": one.hint,
                 **one.facts}
                for one in findings
            ],
        })  # fmt: skip
        return DONE if works else FAILED
    out(f"{plain(without_password(url))} {'can be used' if works else 'cannot be used'}")
    for one in findings:
        out(f"  {one.level:<8}{one.about:<13}{plain(one.said)}")
    for one in findings:
        if one.hint:
            talk(f"  {plain(one.about)} -> {plain(one.hint)}")
    return DONE if works else FAILED
