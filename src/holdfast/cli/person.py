"""Whether a person asks, at a terminal and in nobody else's name."""

from __future__ import annotations

import os

from holdfast.cli.parser import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Holder


def person(may: str, hint: str, *, at_a_terminal: bool = True) -> Holder:
    """The person who types. Raises UsageError if it is somebody, or something, else.

    An agent that could do what is in its way would do it. `may` is what only a person may.
    """
    from holdfast.manager.identity import whoami

    def refuse(why: str) -> UsageError:
        who = "a person at a terminal" if at_a_terminal else "a person"
        return UsageError(f"only {who} may {may}: {why}", hint=hint)

    me = whoami(os.environ).holder
    for name in ("HOLDFAST_GRANT", "HOLDFAST_HOLDER"):
        if os.environ.get(name):
            raise refuse(f"this runs for somebody else ({name} is set)")
    if me.client:
        raise refuse(f"this runs under an agent, {me.id}")
    if at_a_terminal and not os.isatty(0):
        raise refuse("the standard input is no terminal")
    return me
