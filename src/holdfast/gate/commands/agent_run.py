"""Runs a command below a broker, in an agent's name.

The command starts as soon as the repository is closed to it. The ledger is opened when it is
needed: a command that writes nothing in the repository does not wait for it.
"""

from __future__ import annotations

import gc
import os
import sys

from holdfast.core.errors import HoldfastError
from holdfast.gate.broker.command_start import Enclosure, demand, demand_network, socket_path
from holdfast.gate.broker.heard_calls import keep_own_umask
from holdfast.gate.broker.runner import Watch, run_below
from holdfast.gate.sandbox import SOCKET_VARIABLE, SandboxError
from holdfast.gate.sandbox.starting.signal_relay import SignalRelay
from holdfast.manager.ledger_location import for_agents_in, own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.gate.broker.calls.waiting_calls import Call
    from holdfast.gate.broker.leasing.agent_leases import AgentLeases
    from holdfast.gate.broker.runner import Link
    from holdfast.gate.commands.slips import Slip
    from holdfast.gate.sandbox.runner.ledger_socket import LedgerSocket
    from holdfast.manager.manager import LockManager

CANNOT_EXECUTE = 126


def run_for(slip: Slip, command: Sequence[str], *, is_server: bool = False) -> int:
    """Run a command in the name of a slip's agent; its exit code. `is_server`: all agents of the
    session use it. Raises SandboxError if no command can run below a broker here."""
    abi = demand(is_tried=True)  # `holdfast init` tried it
    demand_network(slip.root)
    with SignalRelay() as signals:
        return run_below(
            signals, say, lambda link: _Serving(slip, is_server).serve(command, abi, signals, link)
        )


class _Serving:
    """The broker's process."""

    def __init__(self, slip: Slip, is_server: bool) -> None:
        self._slip = slip
        self._is_server = is_server
        self._root = slip.root

    def serve(self, command: Sequence[str], abi: int, signals: SignalRelay, link: Link) -> int:
        try:
            enclosure = Enclosure(self._root, own_folder(self._root), abi)
            child = enclosure.start(
                command,
                {
                    **for_agents_in(self._root, os.environ),
                    SOCKET_VARIABLE: socket_path(self._root),
                },
                link.join,
                mask=signals.as_given,
                default=signals.ignored_by_python,
            )
        except (OSError, HoldfastError) as error:
            told = error.message if isinstance(error, HoldfastError) else str(error)
            say(f"not run: {told}")
            return CANNOT_EXECUTE
        link.started(child)
        watch = Watch(link, child)
        outside = enclosure.outside()
        first = outside.serve()
        if outside.is_over:
            watch.finish()
            return 0
        try:
            self._serve(enclosure, link, watch, first)
        except HoldfastError as error:
            say(f"the ledger cannot be used, so nothing can be written: {error.message}")
            say(f"  -> {error.hint}")
        except Exception as error:  # an agent reads one line, not a traceback
            say(f"internal error in the broker, so nothing can be written: {error!r}")
        return 0

    def _serve(self, enclosure: Enclosure, link: Link, watch: Watch, first: Call | None) -> None:
        from holdfast.manager.manager import LockManager

        with LockManager.open(self._root) as manager:
            leases = self._leases(manager)
            broker = enclosure.broker(manager, leases)
            keep_own_umask()
            watch.serve_with(broker)
            services: list[LedgerSocket] = []
            broker.when_quiet = lambda: services.extend(self._service(manager, leases))
            gc.enable()
            try:
                if first is not None:
                    broker.answer(first)
                broker.serve()
            finally:
                broker.let_go()
                watch.finish()
                broker.close()
                link.close()
                for service in services:
                    service.close()
                    _remove(service.path)

    def _leases(self, manager: LockManager) -> AgentLeases:
        from holdfast.gate.agents import place_of
        from holdfast.gate.broker.leasing.agent_leases import AgentLeases
        from holdfast.gate.config.settings import Settings
        from holdfast.gate.lease_gate import LeaseGate

        holder, home = self._slip.holder, self._slip.home
        gate = LeaseGate(
            manager, holder, Settings.load(self._root, lenient=True), hears=False,
            place=lambda: place_of(holder.witness, home),
        )  # fmt: skip
        return AgentLeases(manager, gate, say, is_server=self._is_server)

    def _service(self, manager: LockManager, leases: AgentLeases) -> Iterable[LedgerSocket]:
        """The socket for requests from below; none if this process may not have a socket, as in the
        sandbox of Codex. `runner_client` waits a moment for it; a command's writes do not."""
        from holdfast.gate.commands.inside_broker import questions
        from holdfast.gate.sandbox.runner.ledger_socket import LedgerSocket

        try:
            service = LedgerSocket(socket_path(self._root), questions(leases))
        except (SandboxError, OSError):
            return
        service.start(manager)
        yield service


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def say(line: str) -> None:
    """Print a line for the agent, in the output of its command."""
    text = line if line.startswith(" ") else f"holdfast: {line}"
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # the output is closed
