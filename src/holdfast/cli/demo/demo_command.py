"""demo: a list of tasks, or the screens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.cli.command_context import CommandContext
from holdfast.cli.demo import demo_screens, demo_tasks
from holdfast.cli.demo.demo_process import DemoError
from holdfast.cli.printing import plain, talk
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError

if TYPE_CHECKING:
    from holdfast.cli.parser import Call


def demo(call: Call) -> int:
    """Play a demo. The exit code is 1 if a check failed."""
    if sys.platform != "linux":
        raise DemoError(
            "the demo runs the dispatcher, which needs Linux", hint="see holdfast lock --help"
        )
    CommandContext(call)  # puts a server that --store names into the environment
    if call.flag("screens"):
        return demo_screens.play(call)
    try:
        demand()
    except SandboxError as error:
        talk(f"holdfast: tasks cannot be dispatched on this machine ({error.code}): "
             f"{plain(error.message)}")  # fmt: skip
        talk("  -> showing the demo of screens instead, which needs less")
        return demo_screens.play(call)
    return demo_tasks.play(call)
