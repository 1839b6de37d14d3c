"""proof …: ledgers of events, and claims on the nodes of a proof."""

from __future__ import annotations

from holdfast.cli.commands import FOLDER, TEXT, Command, Option

_OWNER = Option("owner", "ID", "the owner of the claim, instead of the caller")
_TIMEOUT = Option(
    "timeout", "TIME", "how long the claim lasts, 1s to 1h, instead of the proof's own"
)

COMMANDS = (
    Command("proof init", "proof_commands", "[DIR]", "create a proof in a folder, or complete one",
            (Option("timeout", "TIME", "how long claims last here, 1s to 1h; default 5m"),
             Option("locks", "", "also write a file for each claim, in locks/")), takes=FOLDER,
            examples=("holdfast proof init proofs/sqrt2",
                      "holdfast proof init proofs/euclid --timeout 15m --locks")),
    Command("proof append", "proof_commands", "TYPE", "append an event to the ledger",
            (Option("data", "JSON", "its other fields as a JSON object; - reads standard input"),
             Option("if-sequence", "N", "append only if the last event has this number"),
             Option("owner", "ID", "append in this name, instead of the caller's"),
             Option("force", "", "even if another owner has claimed the node; not for agents")),
            takes=TEXT,
            help="Prints the number of the event, and adds its timestamp. An event about a node "
            "that another owner has claimed is refused.",
            examples=("holdfast proof append node_created --data '{\"node_id\": \"1.1\"}'",
                      "holdfast proof append node_closed --if-sequence 1 --data - < event.json")),
    Command("proof events", "proof_commands", "", "show the events, oldest first",
            (Option("follow", "", "keep printing events as they are appended", short="-f"),
             Option("after", "N", "only events after this number"),
             Option("number", "N", "only the last N events", short="-n"),
             Option("reverse", "", "newest first", short="-r")),
            help="With --follow, claims that expire meanwhile are reaped.",
            examples=("holdfast proof events --number 20 --reverse",
                      "holdfast proof events --after 120 --follow")),
    Command("proof agents", "proof_commands", "",
            "show the owners of claims, and what each has done so far",
            examples=("holdfast proof agents", "holdfast proof agents --json")),
    Command("proof claim", "proof_commands", "NODE", "claim a node that is free",
            (_OWNER, _TIMEOUT), takes=TEXT,
            help="A NODE is written as numbers with dots: 1, 1.2, 1.2.3.",
            examples=("holdfast proof claim 1.1",
                      "holdfast proof claim 1.2 --owner agent-7 --timeout 90s")),
    Command("proof refresh", "proof_commands", "NODE", "extend your claim, counting from now",
            (_OWNER, _TIMEOUT), takes=TEXT,
            examples=("holdfast proof refresh 1.1",
                      "holdfast proof refresh 1.2 --owner agent-7 --timeout 5m")),
    Command("proof release", "proof_commands", "NODE",
            "release your claim", (_OWNER,), takes=TEXT,
            examples=("holdfast proof release 1.1", "holdfast proof release 1.2 --owner agent-7")),
    Command("proof reap", "proof_commands", "",
            "record the claims that have expired; they are free either way",
            (Option("dry-run", "", "only print them"),),
            examples=("holdfast proof reap --dry-run", "holdfast proof reap")),
    Command("proof status", "proof_commands", "", "show who works on which node, and until when",
            (Option("all", "", "include claims that have expired but were not reaped"),),
            examples=("holdfast proof status", "holdfast proof status --all --json")),
    Command("proof verify", "proof_commands", "",
            "check every event; exit code 1 if any cannot be relied on",
            help="Reading finds gaps and broken events; a hash chain finds changed ones.",
            examples=("holdfast proof verify", "holdfast -C proofs/sqrt2 proof verify --json")),
    Command("proof doctor", "proof_commands", "",
            "report what is wrong with the proof, and repair it",
            (Option("fix", "", "repair what is safe to repair; no event is deleted"),
             Option("break-lock", "", "remove another program's ledger lock; not for agents")),
            examples=("holdfast proof doctor", "holdfast proof doctor --fix")),
)  # fmt: skip
