"""run --lease: a command whose files are leased when it first writes them.

Three processes (`holdfast.gate.broker.runner`): this one, the runner; the broker, which starts the
command and serves it; and the command.

The broker reports what goes wrong before the command starts, and exits with its code.
"""

from __future__ import annotations

import os

from holdfast.cli import DONE
from holdfast.cli.command_context import STORE_VARIABLE, CommandContext, tree_of
from holdfast.cli.locking.lock_commands import take
from holdfast.cli.locking.run_command import (
    CANNOT_EXECUTE,
    NOT_FOUND,
    cannot_start,
    release,
    runner,
)
from holdfast.cli.printing import complain, plain, talk
from holdfast.gate.sandbox.starting.signal_relay import SignalRelay
from holdfast.manager.ledger_location import folder_of, for_agents_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.core.model import Holder
    from holdfast.gate.broker.runner import Link
    from holdfast.gate.sandbox.kernel.open_places import OpenPlaces
    from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders
    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager


def run_leased(call: Call) -> int:
    """Run the command below a broker. The exit code is that of the command, once it has started."""
    from holdfast.gate.broker.command_start import demand
    from holdfast.gate.broker.runner import run_below

    abi = demand()
    with SignalRelay() as signals:
        return run_below(signals, _say_line, lambda link: _serve(call, abi, signals, link))


# In the broker's process


def _serve(call: Call, abi: int, signals: SignalRelay, link: Link) -> int:
    from holdfast.gate.broker.assembly import questions
    from holdfast.gate.broker.command_start import Enclosure, demand_network, socket_path
    from holdfast.gate.broker.heard_calls import keep_own_umask
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.runner import Watch
    from holdfast.gate.people.ledger_picture import QUESTIONS
    from holdfast.gate.sandbox import SOCKET_VARIABLE
    from holdfast.gate.sandbox.runner.ledger_socket import LedgerSocket

    context = CommandContext(call)
    writes, reads = context.places(call.many("write")), context.places(call.many("read"))
    demand_network(context.root())
    manager = context.open(writes + reads)
    holder, variables = runner(call.text("holder"))
    grant = _locked(call, manager, holder, reads, writes)
    runner_folders: RunnerFolders | None = None
    open_places: Callable[[OpenPlaces], None] | None = None
    if call.flag("sandbox"):
        runner_folders, open_places = _runner_folders(manager, holder)
    root, wait = tree_of(manager).root, call.wait()
    ledger = folder_of(manager.store.url, root)
    enclosure = Enclosure(
        root, ledger, abi, until_commit=call.flag("until-commit"), places=open_places
    )
    leases = Leases(manager, holder, _say)
    service = LedgerSocket(socket_path(root), {**QUESTIONS, **questions(leases, wait)})
    environment = {**for_agents_in(root, os.environ), **variables, SOCKET_VARIABLE: service.path}
    if runner_folders is not None:
        environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), runner_folders.tmp)
    if context.store:
        environment[STORE_VARIABLE] = context.store
    command = call.words
    try:
        child = enclosure.start(
            command,
            environment,
            link.join,
            mask=signals.as_given,
            default=signals.ignored_by_python,
        )
    except (OSError, ValueError) as error:
        complain(cannot_start(command[0], error), call.flag("json"))
        _leave(manager, grant, holder, service, runner_folders)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    broker = enclosure.broker(manager, leases, wait=wait)
    link.started(child)
    service.start(manager)
    keep_own_umask()
    watch = Watch(link, child)
    watch.serve_with(broker)
    try:
        broker.serve()
    finally:
        broker.let_go()
        watch.finish()
        broker.close()
        _leave(manager, grant, holder, service, runner_folders)
        link.close()
        manager.close()  # else the next command reads the whole log of what was leased here
    return DONE


def _locked(
    call: Call, manager: LockManager, holder: Holder, reads: list[str], writes: list[str]
) -> LockGrant | None:
    if not (reads or writes):
        return None
    reason = call.text("reason") or f"running {os.path.basename(call.words[0])}"
    return take(manager, holder, reads, writes, ttl=None, reason=reason, wait=call.wait())


def _runner_folders(
    manager: LockManager, holder: Holder
) -> tuple[RunnerFolders, Callable[[OpenPlaces], None]]:
    """The places outside of the repository that a sandbox may write."""
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.git.git_control_files import controls_of
    from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders

    root = tree_of(manager).root
    runner_folders = RunnerFolders(holder)

    def opened(places: OpenPlaces) -> None:
        listed = Settings.load(root).sandbox_write
        places.add_listed(root, listed, controls_of(root), keep=[runner_folders.folder])
        places.add_folder(runner_folders.tmp)
        places.add_devices()
        places.add_streams()

    return runner_folders, opened


def _leave(
    manager: LockManager,
    grant: LockGrant | None,
    holder: Holder,
    service: Any,
    runner_folders: RunnerFolders | None,
) -> None:
    service.close()
    try:
        os.unlink(service.path)
    except OSError:
        pass
    if runner_folders is not None:
        runner_folders.close()
    if grant is not None:
        release(manager, grant, holder)


def _say(sentence: str) -> None:
    talk(f"holdfast: {plain(sentence)}")


def _say_line(line: str) -> None:
    talk(line if line.startswith(" ") else f"holdfast: {line}")
