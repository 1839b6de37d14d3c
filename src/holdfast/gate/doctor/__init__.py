"""`holdfast doctor`: tests the guard by attempting forbidden writes.

    finding            one finding: held, failed, a note, or skipped
    trial_repository   a throw-away repository in which another process holds a file
    forbidden_writes   forbidden writes, tried there with the installed commands
    client_rules       what each client does with a hook's answer, as measured
    codex_trust        whether Codex would run its hooks
    command_mode       whether shell commands are leased or guarded, and why
    inspection         what can be seen without a trial: settings, hooks, leases, leftovers
    server_access      who else can reach a ledger that is on a server
    fixes              what can be repaired safely

The doctor writes none of the user's files unless a repair is requested: all attempts happen in the
throw-away repository.

What this does not promise: that a client treats hooks as the measured versions did. Hooks of other
programs, which run beside ours, are never started.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.gate.config.settings import Settings
from holdfast.gate.doctor import command_mode, forbidden_writes, inspection
from holdfast.gate.doctor.finding import FAILED, Finding
from holdfast.gate.doctor.trial_repository import PATIENCE_SECONDS, Scene
from holdfast.gate.install.installed_clients import client_checkouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Finding", "examine"]


def examine(
    root: str, environ: Mapping[str, str], *, patience_seconds: float = PATIENCE_SECONDS
) -> list[Finding]:
    """All findings on the guard of a repository."""
    clients = inspection.installed(root)
    found = inspection.gate(root, environ)
    settings = Settings.load(root, lenient=True)
    if os.name != "posix":
        found.append(
            Finding("doctor", "proofs", FAILED, "hooks need a POSIX shell, and there is none")
        )
        return found
    try:
        with Scene(environ, settings, patience_seconds) as scene:
            for one in clients:
                found += inspection.hooks_of(root, one, settings, environ)
                for checkout in client_checkouts(root, one)[:1]:
                    found += forbidden_writes.client(scene, checkout, one, environ)
                    found += inspection.trust_of(checkout, one, scene, environ)
                found += inspection.failing(one, environ)
                found += command_mode.examine(scene, root, one, settings, environ)
            found += inspection.git(root)
            found += forbidden_writes.git(scene, root)
            found += forbidden_writes.sandbox(scene)
            found += forbidden_writes.leases(scene)
    except (HoldfastError, OSError) as error:
        said = error.message if isinstance(error, HoldfastError) else str(error)
        fix = "set TMPDIR to a writable folder on a local disk"
        found.append(Finding("doctor", "proofs", FAILED, f"nothing could be tried: {said}", fix))
    return found + inspection.others(root, clients, environ) + inspection.ledger(root, environ)
