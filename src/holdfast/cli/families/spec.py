"""spec …: who works on which spec."""

from __future__ import annotations

from holdfast.cli.commands import HOLDER, REASON, TEXT, Command, Option

COMMANDS = (
    Command("spec lock", "spec_commands", "NAME", "lock a spec for this machine",
            (REASON, Option("timeout", "HOURS", "how long until the lock is stale; default 24"),
             HOLDER), takes=TEXT,
            help="It lasts until it is released: neither time nor the end of a process frees it.",
            examples=('holdfast spec lock payments --reason "rewrite the flow"',
                      "holdfast spec lock checkout --timeout 8")),
    Command("spec unlock", "spec_commands", "NAME", "release a spec",
            (Option("force", "", "even if another holder locked it; not for agents"),
             HOLDER), takes=TEXT,
            examples=("holdfast spec unlock payments", "holdfast spec unlock checkout --force")),
    Command("spec status", "spec_commands", "[NAME]",
            "show which specs are locked, by whom and since when",
            takes=TEXT,
            examples=("holdfast spec status", "holdfast spec status payments --json")),
    Command("spec cleanup", "spec_commands", "",
            "remove the locks that have outlived their timeouts",
            examples=("holdfast spec cleanup", "holdfast spec cleanup --json")),
    Command("spec whoami", "spec_commands", "",
            "print this machine's id, and the owner and holder of new locks",
            (HOLDER,),
            examples=("holdfast spec whoami", "holdfast spec whoami --holder agent-2")),
)  # fmt: skip
