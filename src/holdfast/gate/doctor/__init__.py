"""`holdfast doctor`: whether the guard really holds, shown by trying what must not happen.

    finding    what was found: held, failed, worth knowing, or not tried
    scene      a throw-away repository in which somebody else holds a file, and how things run there
    rules      what clients do with the answer of a hook, by what was measured of them
    proving    the forbidden things, tried in the scene with the commands that are installed
    looking    what can be seen without trying: settings, hooks, leases, leftovers
    trust      whether Codex would run its hooks, by its own word
    fixing     what can be put right safely

Nothing of the user's is written unless that is asked for: what is tried, is tried elsewhere.

What this does not promise: that a client obeys its hooks as those did that the rules were learnt
from. And hooks of others, which run beside ours, are never started.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.gate.doctor import looking, proving, shell_commands
from holdfast.gate.doctor.finding import FAILED, Finding
from holdfast.gate.doctor.scene import PATIENCE_SECONDS, Scene
from holdfast.gate.install.finding import checkouts
from holdfast.gate.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Finding", "examine"]


def examine(
    root: str, environ: Mapping[str, str], *, patience_seconds: float = PATIENCE_SECONDS
) -> list[Finding]:
    """Everything that there is to say about the guard of a repository."""
    clients = looking.installed(root)
    found = looking.gate(root, environ)
    settings = Settings.load(root, lenient=True)
    if os.name != "posix":
        found.append(
            Finding("doctor", "proofs", FAILED, "hooks are run by a POSIX shell, and there is none")
        )
        return found
    try:
        with Scene(environ, settings, patience_seconds) as scene:
            for one in clients:
                found += looking.hooks_of(root, one, settings, environ)
                for checkout in checkouts(root, one)[:1]:
                    found += proving.client(scene, checkout, one, environ)
                    found += looking.trust_of(checkout, one, scene, environ)
                found += looking.failing(one, environ)
                found += shell_commands.examine(scene, root, one, settings, environ)
            found += looking.git(root)
            found += proving.git(scene, root)
            found += proving.sandbox(scene)
            found += proving.leases(scene)
    except (HoldfastError, OSError) as error:
        said = error.message if isinstance(error, HoldfastError) else str(error)
        fix = "TMPDIR must name a folder on a local disk that can be written"
        found.append(Finding("doctor", "proofs", FAILED, f"nothing can be tried: {said}", fix))
    return found + looking.others(root, clients, environ) + looking.ledger(root)
