"""What a runner has beside a command's sandbox: the scratch folder, and the socket in it.

Most runners have one command. One that has many, one after the other, keeps its quarters: to make
and remove them costs as much as all the rest of a sandbox. Nothing of a command is left in them for
the next one: the scratch folder is emptied, whoever still asks is hung up on.
"""

from __future__ import annotations

import os

from holdfast.gate.sandbox.ledger_socket import Service
from holdfast.gate.sandbox.scratch_folder import Scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.model import Holder
    from holdfast.gate.sandbox.ledger_socket import Question
    from holdfast.gate.sandbox.open_places import Made
    from holdfast.manager.manager import LockManager


class Quarters:
    """For each command, if they are ready: `furnish`, `serve` if somebody is to be answered, and
    `clear`. `close` when there is none any more."""

    __slots__ = ("_holder", "_is_clear", "_noted", "_scratch", "_service")

    def __init__(self, holder: Holder) -> None:
        """`holder` is who runs the commands: its process and its marks are the same for all."""
        self._holder = holder
        self._is_clear = True
        self._noted = False
        self._scratch = Scratch(holder)
        try:
            self._service = Service(f"{self._scratch.folder}/socket")
        except BaseException:
            self._scratch.remove()
            raise

    @property
    def folder(self) -> str:
        """All of it, closed to the command but for its scratch folder."""
        return self._scratch.folder

    @property
    def tmp(self) -> str:
        """The command's folder for temporary files."""
        return self._scratch.tmp

    @property
    def socket(self) -> str:
        """Where those inside can ask."""
        return self._service.path

    @property
    def is_ready(self) -> bool:
        """Whether a command may move in: nothing is left of the last one, and nobody has tidied up
        behind our back, as is done with what lies among temporary files for long."""
        return self._is_clear and os.path.isdir(self.tmp) and os.path.exists(self.socket)

    @property
    def knock(self) -> int:
        """Ready to be read when somebody inside asks for the first time; -1 from then on."""
        return self._service.knock

    def note(self, made: Iterable[Made]) -> None:
        """Write down what has to be removed after us, before somebody can kill us."""
        found = list(made)
        if found or self._noted:
            self._scratch.note(self._holder, found)
            self._noted = bool(found)

    def furnish(self, questions: Mapping[str, Question]) -> None:
        """What the next command can ask beside the usual."""
        self._is_clear = False
        self._service.questions = questions

    def serve(self, manager: LockManager) -> None:
        """Answer those inside, from now on."""
        self._service.start(manager)

    def quieten(self) -> bool:
        """Answer nobody any more. False if somebody is still being answered and does not end."""
        return self._service.rest()

    def clear(self) -> bool:
        """Leave nothing of a command, which has ended and whose files are unmade. False if that
        cannot be: then nobody else may move in."""
        self._is_clear = self.quieten() and self._scratch.empty() and self._forget()
        return self._is_clear

    def _forget(self) -> bool:
        # What we made and unmade may be made again by another one, and look the same in all.
        try:
            self.note(())
        except OSError:
            return False
        return True

    def close(self) -> bool:
        """Remove all of it. False if something in it resists, such as somebody who still writes."""
        self._service.close()
        return self._scratch.remove()
