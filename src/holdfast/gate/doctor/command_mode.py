"""How an agent's shell commands are kept from others' files: which mode is in force, and why.

Where they are leased at the write, a forbidden write is attempted through the very program that
the client starts in front of its commands.
"""

from __future__ import annotations

import os

from holdfast.core.model import Holder, agent_key
from holdfast.gate.commands import lease_mode, prefix_script, slips
from holdfast.gate.commands.slips import Slip
from holdfast.gate.config.settings import GUARD, OFF
from holdfast.gate.doctor.finding import FAILED, HELD, NOTE, SKIPPED, Finding
from holdfast.gate.doctor.forbidden_writes import PUT_RIGHT
from holdfast.gate.doctor.trial_repository import HELD as HELD_FILE
from holdfast.gate.doctor.trial_repository import MINE
from holdfast.gate.install import client_files, shell_prefix
from holdfast.gate.install.client_hooks import Unusable
from holdfast.gate.install.hook_command import InstallError
from holdfast.manager.owners.liveness import own_witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gate.config.settings import Settings
    from holdfast.gate.doctor.trial_repository import Scene
    from holdfast.gate.install.installed_clients import Client

MODE = "shell commands"
_SESSION = "doctor-commands"
_MADE = "made-by-a-program"


def examine(
    scene: Scene, root: str, one: Client, settings: Settings, environ: Mapping[str, str]
) -> list[Finding]:
    """The mode in force for one client."""
    if settings.shell == OFF:
        told = 'not checked: gate.shell = "off" in holdfast.toml'
        return [Finding(one.name, MODE, SKIPPED, told)]
    if settings.shell == GUARD:
        told = 'guarded, not leased: gate.shell = "guard" in holdfast.toml'
        return [Finding(one.name, MODE, NOTE, told)]
    lacks = lease_mode.can_lease()
    if lacks:
        return [Finding(one.name, MODE, NOTE, f"guarded, not leased: {lacks}")]
    if one.name == lease_mode.CLAUDE and lease_mode.has_own_sandbox(root, environ):
        told = "guarded, not leased: Claude Code's own sandbox is on, and no broker works inside it"
        return [Finding(one.name, MODE, NOTE, told, "switch off one of the two")]
    problem = _problem(root, one)
    if problem:
        return [Finding(one.name, MODE, FAILED, problem, PUT_RIGHT)]
    return [_fired(scene, root, one)]


def _problem(root: str, one: Client) -> str:
    """Why the commands of a client are not leased although they should be."""
    if not one.adapter.SHELL_PREFIX:
        path = prefix_script.path_of(root)
        return "" if os.path.lexists(path) else f"guarded, not leased: there is no {path}"
    try:
        text = (client_files.read(f"{root}/{one.file}", one.file) or "").removeprefix("\ufeff")
        found = shell_prefix.problems(root, text, one.adapter.SHELL_PREFIX, None)
    except (Unusable, InstallError) as error:
        return f"{one.file}: {error}"
    return found[0] if found else ""


def _fired(scene: Scene, root: str, one: Client) -> Finding:
    """A command that writes a held file and a free one, run as the client would run it."""
    scene.put(f"{scene.root}/{HELD_FILE}", MINE)
    command = f"echo x > {_MADE}; echo x > {HELD_FILE}; rm -f {HELD_FILE}; true"
    key = agent_key("claude", _SESSION)
    holder = Holder(id=key, key=key, witness=own_witness(), client="claude", session=_SESSION)
    folder = os.path.dirname(prefix_script.path_of(root))
    slips.leave(folder, Slip(holder, scene.root, "fired", scene.root), command)
    env = scene.environment(
        CLAUDE_PID=str(os.getpid()), CLAUDE_CODE_SESSION_ID=_SESSION, SHELL="/bin/sh"
    )
    line = f"true && eval '{command}' < /dev/null"
    ran = scene.run([prefix_script.path_of(root), line], cwd=scene.root, env=env)
    slips.withdraw(folder, key, "fired")
    if scene.text(HELD_FILE) != MINE:
        told = "a program could write a file that another process holds"
        return Finding(one.name, MODE, FAILED, told, PUT_RIGHT)
    if scene.text(_MADE) != "x\n":
        told = f"a command could not write a free file: {ran.told()}"
        return Finding(one.name, MODE, FAILED, told, PUT_RIGHT)
    return Finding(one.name, MODE, HELD, "leased at the write: a forbidden write was refused")
