"""An agent outside of any sandbox whose ledger is on a server.

It has nothing that leads to the server, so the launcher answers for the ledger, at the socket that
a sandboxed agent has as well. Nothing else restricts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.gate.sandbox import SOCKET_VARIABLE
from holdfast.gate.sandbox.gaps.gap_records import GapRecorder
from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders
from holdfast.gate.sandbox.starting.restricted_start import start
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager


class OpenAgent:
    """The runner's part of a sandbox, without the sandbox."""

    #: No ruleset, and no listener for refused writes.
    ruleset = -1
    denied_writes = None

    def __init__(
        self, manager: LockManager, grant: LockGrant, runner_folders: RunnerFolders
    ) -> None:
        self._manager = manager
        self._runner_folders = runner_folders
        runner_folders.furnish({"gap": GapRecorder(grant)})

    def variables(self) -> dict[str, str]:
        """The variables that the agent gets."""
        return {SOCKET_VARIABLE: self._runner_folders.socket}

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        default: Iterable[int],
        prepare: Callable[[], None],
    ) -> int:
        """Start the agent; its pid. Raises as `restricted_start.start`."""
        return start(command, {**environment, **self.variables()}, prepare, default=default)

    def begin(self) -> None:
        """The agent has been started."""

    @property
    def first_request(self) -> int:
        """Readable when the first request comes; -1 once requests are answered."""
        return self._runner_folders.first_request

    def serve(self) -> None:
        """Answer requests, from now on."""
        self._runner_folders.serve(self._manager)

    def shut(self) -> None:
        """Stop answering."""
        self._runner_folders.stop_serving()

    def close(self) -> None:
        """Forget the agent, which has ended."""
        self._runner_folders.clear()
