"""The hooks' answers before and after an agent's command that is leased at the write.

Before the command, its line is parsed to refuse early and clearly: a write to a file that another
holder has, a git verb that would destroy others' work, a file that switches the gate off. Nothing
is leased or remembered here: the broker leases the files that the command actually writes.
"""

from __future__ import annotations

from holdfast.gate import guard
from holdfast.gate.commands import slips
from holdfast.gate.commands.slips import Slip
from holdfast.gate.intent import DENY, HALT, Answer, with_context, with_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.intent import Intent
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.gate.shell import Reading
    from holdfast.manager.ledger import Ledger

_EXCEPTED = (
    "holdfast: {0} cannot run below a broker, so the files that this command writes are not "
    "leased, only checked afterwards (gate.lease_except)."
)
_NOT_CLAIMED = (
    "holdfast: a shell command ran without leases: Holdfast's program in front of it was not "
    "started. Run: holdfast doctor"
)


class HookAnswers:
    """One command of an agent, in its session's repository.

    `folder` is where its slip is left, `home` is the session's folder.
    """

    __slots__ = ("_gate", "_home", "_intent", "_manager", "_settings", "folder")

    def __init__(
        self,
        intent: Intent,
        gate: LeaseGate,
        manager: Ledger,
        settings: Settings,
        folder: str,
        home: str,
    ) -> None:
        self._intent = intent
        self._gate = gate
        self._manager = manager
        self._settings = settings
        self.folder = folder
        self._home = home

    @property
    def _call(self) -> str:
        return self._intent.call or slips.digest(self._intent.command)

    def before(self, line: Reading | None) -> tuple[Answer, bool]:
        """The answer to a command that is about to run, and whether it is leased."""
        intent = self._intent
        if guard.is_own(intent.command):
            return guard.around(intent, self._gate, self._manager, self._settings, line), False
        reading = line or guard.read_line(intent)
        excepted = sorted(reading.programs.intersection(self._settings.lease_except))
        if excepted:
            said = guard.around(intent, self._gate, self._manager, self._settings, reading)
            return with_context(said, self._told_of(excepted)), False
        from holdfast.gate.guard.before_command import before_leased

        said = before_leased(intent, self._gate, self._manager, reading)
        if said.kind in (DENY, HALT):
            return said, False
        tree = self._manager.tree
        assert tree is not None
        slip = Slip(self._gate.holder, tree.root, self._call, self._home)
        slips.leave(self.folder, slip, intent.command)
        return said, True

    def _told_of(self, programs: list[str]) -> str:
        """A note that a command is only watched: once for each program and agent."""
        from holdfast.gate.guard.unclaimed_changes import news

        assert self._manager.tree is not None
        names = {f"lease_except {name}": name for name in programs}
        new = news(self._manager.tree.root, self._gate.holder.key, list(names))
        return _EXCEPTED.format(", ".join(names[one] for one in new)) if new else ""

    def after(self) -> Answer:
        """The answer when a command has returned, or was left running."""
        intent, key = self._intent, self._gate.holder.key
        if intent.background:  # it may be about to claim its slip
            is_leased = slips.is_left(self.folder, key, self._call)
        else:
            is_leased = slips.withdraw(self.folder, key, self._call)
        if is_leased is None:
            return guard.around(intent, self._gate, self._manager, self._settings)
        said = self._gate.live_on(is_tail=True)
        return said if is_leased or intent.background else with_user(said, _NOT_CLAIMED)
