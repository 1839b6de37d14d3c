"""spec …: who works on which spec."""

from __future__ import annotations

from holdfast.cli.commands import HOLDER, REASON, TEXT, Command, Option

COMMANDS = (
    Command("spec lock", "spec_commands", "NAME", "lock a spec for this machine",
            (REASON, Option("timeout", "HOURS", "when others may call it stale: 24 if not given"),
             HOLDER), takes=TEXT,
            help="It stays until it is given back: no time, and no process's end, frees it."),
    Command("spec unlock", "spec_commands", "NAME", "give a spec back",
            (Option("force", "", "whoever has locked it; not for agents"), HOLDER), takes=TEXT),
    Command("spec status", "spec_commands", "[NAME]",
            "show which specs are locked, by whom and since when",
            takes=TEXT),
    Command("spec cleanup", "spec_commands", "",
            "remove the locks that are older than their timeouts"),
    Command("spec whoami", "spec_commands", "",
            "say which machine this is, and whose name locks get",
            (HOLDER,)),
)  # fmt: skip
