"""The folders of a runner around a command's sandbox: the scratch folder, with the socket in it.

Most runners have one command. A runner that has many, one after the other, keeps its folders:
creating and removing them costs as much as the rest of a sandbox. Nothing of a command remains for
the next one: the scratch folder is emptied, and open connections are closed.
"""

from __future__ import annotations

import os

from holdfast.gate.sandbox.runner.ledger_socket import LedgerSocket
from holdfast.gate.sandbox.runner.scratch_folder import ScratchFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.model import Holder
    from holdfast.gate.sandbox.kernel.open_places import Created
    from holdfast.gate.sandbox.runner.ledger_socket import Question
    from holdfast.manager.manager import LockManager


class RunnerFolders:
    """For each command, if they are ready: `furnish`, `serve` if requests are to be answered, and
    `clear`. `close` after the last one."""

    __slots__ = ("_holder", "_is_clear", "_noted", "_scratch", "_service")

    def __init__(self, holder: Holder) -> None:
        """`holder` is the runner's: its process and its marks are the same for all commands."""
        self._holder = holder
        self._is_clear = True
        self._noted = False
        self._scratch = ScratchFolder(holder)
        try:
            self._service = LedgerSocket(f"{self._scratch.folder}/socket")
        except BaseException:
            self._scratch.remove()
            raise

    @property
    def folder(self) -> str:
        """The outer folder, closed to the command except for its scratch folder."""
        return self._scratch.folder

    @property
    def tmp(self) -> str:
        """The command's folder for temporary files."""
        return self._scratch.tmp

    @property
    def socket(self) -> str:
        """The socket for requests from inside."""
        return self._service.path

    @property
    def is_ready(self) -> bool:
        """Whether the next command may start: nothing is left of the last one, and the folders
        still exist. The system may remove old temporary files."""
        return self._is_clear and os.path.isdir(self.tmp) and os.path.exists(self.socket)

    @property
    def first_request(self) -> int:
        """Readable when a process inside sends the first request; -1 once requests are served."""
        return self._service.first_request

    def note(self, made: Iterable[Created]) -> None:
        """Record what has to be removed after us, in case we are killed."""
        found = list(made)
        if found or self._noted:
            self._scratch.note(self._holder, found)
            self._noted = bool(found)

    def furnish(self, questions: Mapping[str, Question]) -> None:
        """Set the requests of the next command besides the usual ones."""
        self._is_clear = False
        self._service.questions = questions

    def serve(self, manager: LockManager) -> None:
        """Answer requests from inside, from now on."""
        self._service.start(manager)

    def stop_serving(self) -> bool:
        """Stop answering. False if an answer is in progress and does not finish."""
        return self._service.rest()

    def clear(self) -> bool:
        """Remove everything of a command, which has ended and whose files are removed. False if
        that fails: then no other command may start here."""
        self._is_clear = self.stop_serving() and self._scratch.empty() and self._forget()
        return self._is_clear

    def _forget(self) -> bool:
        # Another run may create the files that we created and removed, with the same properties.
        try:
            self.note(())
        except OSError:
            return False
        return True

    def close(self) -> bool:
        """Remove the folders. False if that fails, because a process still writes there, say."""
        self._service.close()
        return self._scratch.remove()
