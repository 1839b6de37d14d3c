"""store …: where a ledger is kept, and whether that is in order."""

from __future__ import annotations

from holdfast.cli.commands import FILE, Command

COMMANDS = (
    Command("store copy", "store_commands", "FROM TO",
            "move a ledger with its history to another store; only a person may",
            takes=FILE,
            help="FROM and TO are URLs, files of ledgers, or folders of repositories. FROM must "
                 "not be in use, and TO must be empty. Afterwards only TO can be used.",
            note="If it is interrupted, type it again. To undo it, copy in the other direction.",
            examples=("holdfast store copy . ../elsewhere/ledger.db",
                      "holdfast store copy ../elsewhere/ledger.db . --json")),
    Command("store check", "store_commands", "[URL]",
            "show whether a store can be used, and how good it is",
            takes=FILE,
            help="Without URL it is the store of this repository. It creates nothing.",
            examples=("holdfast store check", "holdfast store check . --json")),
)  # fmt: skip
