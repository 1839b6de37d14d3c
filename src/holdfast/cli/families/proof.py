"""proof …: ledgers of events, and claims on the nodes of a proof."""

from __future__ import annotations

from holdfast.cli.commands import FOLDER, TEXT, Command, Option

_OWNER = Option("owner", "ID", "whose claim it is, instead of whoever calls")
_TIMEOUT = Option("timeout", "TIME", "how long it lasts, 1s to 1h, instead of the proof's own: 5m")

COMMANDS = (
    Command("proof init", "proof_commands", "[DIR]", "make a proof in a folder, or complete one",
            (Option("timeout", "TIME", "how long claims last here, 1s to 1h: 5m if not given"),
             Option("locks", "", "also keep a file for each claim, in locks/")), takes=FOLDER),
    Command("proof append", "proof_commands", "TYPE", "append an event to the ledger",
            (Option("data", "JSON", "its other fields, as an object; - reads the standard input"),
             Option("if-sequence", "N", "only if the last event has this number"),
             Option("owner", "ID", "in whose name, instead of whoever calls"),
             Option("force", "", "also about a node that another has claimed; not for agents")),
            takes=TEXT,
            help="Prints the number of the event. Its timestamp is filled in. An event about a "
            "node that another has claimed is refused."),
    Command("proof events", "proof_commands", "", "show the events, oldest first",
            (Option("follow", "", "go on with what is appended from now on", short="-f"),
             Option("after", "N", "only what came after the event of this number"),
             Option("number", "N", "only the last so many", short="-n"),
             Option("reverse", "", "newest first", short="-r")),
            help="While it follows it also reaps the claims that expire."),
    Command("proof agents", "proof_commands", "",
            "show who claims nodes, and what each did so far"),
    Command("proof claim", "proof_commands", "NODE", "claim a node that nobody works on",
            (_OWNER, _TIMEOUT), takes=TEXT, help="A NODE is numbers with dots: 1, 1.2, 1.2.3."),
    Command("proof refresh", "proof_commands", "NODE", "extend your claim from now on",
            (_OWNER, _TIMEOUT), takes=TEXT),
    Command("proof release", "proof_commands", "NODE",
            "give your claim back", (_OWNER,), takes=TEXT),
    Command("proof reap", "proof_commands", "",
            "record which claims have expired; nothing depends on it",
            (Option("dry-run", "", "only say which"),)),
    Command("proof status", "proof_commands", "", "show who works on which node, and until when",
            (Option("all", "", "also claims that have expired and were not reaped"),)),
    Command("proof verify", "proof_commands", "",
            "look at every event; exit code 1 if any cannot be relied "
            "on", help="Finds gaps and broken events by themselves, changed ones by a hash chain."),
    Command("proof doctor", "proof_commands", "",
            "say what is wrong with the proof, and put it right",
            (Option("fix", "", "put right what is safe; nothing that was an event is deleted"),
             Option("break-lock", "", "take away another program's ledger lock; not for agents"))),
)  # fmt: skip
