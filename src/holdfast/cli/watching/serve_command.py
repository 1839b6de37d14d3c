"""serve: the page, and the interface for other programs."""

from __future__ import annotations

import os
import signal
import threading

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.guarding.person import person
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import document, out, plain, talk
from holdfast.manager.manager import LockManager
from holdfast.manager.owners import variables
from holdfast.manager.owners.identity import user_name
from holdfast.server.server import HOST, PORT, Server
from holdfast.work.screens.pipeline import Pipeline

TOKEN_VARIABLE = variables.SERVE_TOKEN
PORT_MAX = 65535


def serve(call: Call) -> int:
    """Show the repository to browsers, until the command is interrupted."""
    context = CommandContext(call)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with (
        _manager(context) as manager,
        open_server(call, manager, port=_port(call, "port")) as server,
    ):
        if call.flag("json"):
            document({"url": server.url, "root": server.root})
        else:
            out(plain(server.url))
            talk(f"  {plain(server.root)}; interrupt to stop")
        over.wait()
    return DONE


def beside(call: Call, manager: LockManager, pipeline: Pipeline | None) -> Server:
    """The page of a dispatcher in the same process. It opens the ledger separately, so that the
    dispatcher never waits for readers of the page."""
    assert manager.tree is not None
    server = open_server(
        call, LockManager.open(manager.tree.root), port=_port(call, "serve"),
        pipeline=pipeline,
    )  # fmt: skip
    server.start()
    talk(f"holdfast: watch it at {plain(server.url)}")
    return server


def open_server(
    call: Call,
    manager: LockManager,
    *,
    port: int,
    pipeline: Pipeline | None = None,
) -> Server:
    """A server with the options of the command."""
    token = call.text("token") or os.environ.get(TOKEN_VARIABLE, "")
    if token and not (token.isascii() and token.replace("-", "").replace("_", "").isalnum()):
        raise UsageError("a token consists of letters, digits, - and _", hint="choose another")
    return Server(
        manager, host=call.text("host") or HOST, port=port, token=token,
        by=f"{user_name()}, on the page", changes=_by_person(manager), pipeline=pipeline,
    )  # fmt: skip


def _by_person(manager: LockManager) -> bool:
    """Whether a person started the command. To an agent it must not print the secret."""
    try:
        person("decide on a page", "", at_a_terminal=False, manager=manager)
    except UsageError as error:
        talk(f"holdfast: the page is read only: {plain(error.message)}")
        return False
    return True


def _manager(context: CommandContext) -> LockManager:
    found = context.find([])
    if found is not None:
        return found
    if not os.path.lexists(f"{context.root()}/.git"):
        raise UsageError("there is no ledger here", hint="run it in a repository")
    return context.open([])


def _port(call: Call, name: str) -> int:
    port = call.number(name)
    if port is not None and port > PORT_MAX:
        raise UsageError(f"there is no port {port}", hint=f"give one from 0 to {PORT_MAX}")
    return PORT if port is None else port
