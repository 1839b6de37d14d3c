"""spec …: who works on which spec."""

from __future__ import annotations

from holdfast.cli.commands import HOLDER, REASON, TEXT, Command, Option

COMMANDS = (
    Command("spec lock", "spec_commands", "NAME", "lock a spec for this machine",
            (REASON, Option("timeout", "HOURS", "how long until the lock is stale; default 24"),
             HOLDER), takes=TEXT,
            help="It lasts until it is released: neither time nor the end of a process frees it."),
    Command("spec unlock", "spec_commands", "NAME", "release a spec",
            (Option("force", "", "even if another holder locked it; not for agents"),
             HOLDER), takes=TEXT),
    Command("spec status", "spec_commands", "[NAME]",
            "show which specs are locked, by whom and since when",
            takes=TEXT),
    Command("spec cleanup", "spec_commands", "",
            "remove the locks that have outlived their timeouts"),
    Command("spec whoami", "spec_commands", "",
            "print this machine's id, and the owner and holder of new locks",
            (HOLDER,)),
)  # fmt: skip
