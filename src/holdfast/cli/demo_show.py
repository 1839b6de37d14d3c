"""What a demo prints: one calm line for what the ledger says, as it says it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from holdfast.cli.demo_audit import ENDS, Held, clash, held
from holdfast.cli.printing import colours, listed, out, plain
from holdfast.cli.tables import BOLD, DIM, RED, YELLOW
from holdfast.core.model import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.cli.demo_audit import Finding
    from holdfast.core.model import Event

GREEN = "32"
WIDTH = 80
INDENT = " " * 8


class Show:
    """Follows the ledger, and counts what it sees on the way."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._colours = not quiet and colours()
        self._begin = 0
        self._live: dict[str, Held] = {}
        self._asked: dict[str, int] = {}
        self.seen = 0
        self.waits = 0
        self.refusals = 0
        self.given_back = 0
        self.reaped: dict[str, str] = {}

    # What happens

    def tell(self, events: Iterable[Event]) -> None:
        """Print what is worth a line."""
        for event in events:
            self.seen = event.seq
            self._begin = self._begin or event.at
            if event.type == "lock_acquired":
                self._acquired(event)
            elif event.type == "ticket_added":
                self._added(event)
            elif event.type in ENDS:
                self._ended(event)
            elif event.type == "lock_refused":
                self.refusals += 1

    def _acquired(self, event: Event) -> None:
        one = held(event)
        self._live[event.data["id"]] = one
        asked = self._asked.pop(event.data["id"], None)
        seconds = 0.0 if asked is None else (event.at - asked) / SECOND
        waited = f" (waited {seconds:.1f} s)" if seconds >= 0.05 else ""
        self._line(event, one.holder, f"has {_covered(one)}{waited}")

    def _added(self, event: Event) -> None:
        self.waits += 1
        data = event.data
        self._asked[data["id"]] = event.at
        wanted = Held(
            data["holder"]["id"], 0, tuple(data["keys"]), data["modes"], tuple(data["paths"])
        )
        behind = {
            other.holder: path
            for other in self._live.values()
            if other.holder != wanted.holder and (path := clash(other, wanted))
        }
        who = ", ".join(f"{holder} ({path})" for holder, path in behind.items())
        self._line(event, wanted.holder, f"waits for {who or 'those before it'}", YELLOW)

    def _ended(self, event: Event) -> None:
        one = self._live.pop(event.data["grant"], None)
        if event.type == "lock_released":
            self.given_back += 1
        elif one is not None:
            why = event.data.get("why", event.type)
            self.reaped[one.holder] = why
            self._line(event, one.holder, f"lost {_covered(one)}: {why}", RED)

    # How it is said

    def title(self, text: str) -> None:
        """Begin something new."""
        self._print("")
        self._print(self._painted(text, BOLD))

    def say(self, text: str) -> None:
        """Words of our own."""
        for line in _wrapped(text, WIDTH - 2):
            self._print(f"  {line}")

    def paste(self, text: str) -> None:
        """Words that somebody may copy: in one piece, however long."""
        self._print(f"  {text}")

    def note(self, text: str) -> None:
        """What is done to the agents from outside."""
        for line in _wrapped(text, WIDTH - len(INDENT)):
            self._print(f"{INDENT}{self._painted(line, DIM)}")

    def refusal(self, name: str, answer: Mapping[str, Any]) -> None:
        """What somebody was told instead of getting what it wanted."""
        if "refused" not in answer:
            self.note(f"{name} was not refused")
            return
        first, *rest = _wrapped(f"{answer['refused']}: {answer['why']}", WIDTH - 22)
        self._print(f"{INDENT}{name:<5} {self._painted('is told', YELLOW)} {first}")
        for line in rest:
            self._print(f"{INDENT}      {line}")

    def _line(self, event: Event, name: str, text: str, colour: str = "") -> None:
        at = f"{(event.at - self._begin) / SECOND:6.2f}"
        name = f"{plain(name):<5}"
        first, *rest = _wrapped(text, WIDTH - 10 - len(name))
        verb, _, more = first.partition(" ")
        self._print(f"{self._painted(at, DIM)}  {name} {self._painted(verb, colour)} {more}")
        for line in rest:
            self._print(f"{INDENT}      {line}")

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and colour and text else text

    def _print(self, text: str) -> None:
        if not self._quiet:
            out(text)

    # The end

    def report(self, result: Mapping[str, Any], findings: Sequence[Finding], files: int) -> None:
        """What came of it, and whether it was as promised."""
        self.title("What happened")
        for name, text in _facts(result, files):
            self._print(f"  {name:<16}{text}")
        self.title(f"Checked by reading {result['events']} events and {files} files again")
        for finding in findings:
            mark = self._painted("ok", GREEN) if finding.passed else self._painted("NO", RED)
            first, *rest = _wrapped(f"{finding.question} ({finding.detail})", WIDTH - 6)
            self._print(f"  {mark}  {first}")
            for line in rest:
                self._print(f"      {line}")
        self._print("")
        if not result["passed"]:
            self.say("Not everything was as promised: please report this.")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(plain(text), width, break_on_hyphens=False) or [""]


def _covered(one: Held) -> str:
    reads = dict.fromkeys(_paths(one, "r"))
    writes = dict.fromkeys(_paths(one, "w"))
    parts = [listed(writes)] if writes else []
    return " and ".join([*parts, f"{listed(reads)} (to read)"] if reads else parts)


def _paths(one: Held, mode: str) -> list[str]:
    return [path for path, held_mode in zip(one.paths, one.modes, strict=True) if held_mode == mode]


def _facts(result: Mapping[str, Any], files: int) -> list[tuple[str, str]]:
    """Only of the scenes that were played."""
    facts = [("edits", f"{result['edits']} in {files} files")]
    if "tasks" in result:
        tasks, wall, work = result["tasks"], result["wall_seconds"], result["work_seconds"]
        facts += [
            ("at once", f"{result['agents_at_once']} agents at the busiest moment"),
            ("time", f"{tasks} tasks in {wall:.1f} s; one after the other they take {work:.1f} s"),
        ]
    avoided = result["conflicts_avoided"]
    facts.append(("conflicts", f"{avoided} avoided: those agents waited or were told"))
    if "crash" in result:
        facts.append(("crashed", f"eve; its locks were reaped: {result['crash']['why'] or 'not'}"))
    if "pause" in result:
        refused = result["pause"]["refused"]
        facts.append(("fenced", f"ben, who came too late: {refused or 'it was let through'}"))
    return facts
