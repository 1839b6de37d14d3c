"""The commands and their options, as one table.

The parser, `--help`, the completions and the guide's list of commands are all read from here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: What a value is, which is how it is completed.
FILE = "file"
FOLDER = "folder"
TEXT = "text"


class Option:
    """One option. Without a placeholder it is a switch; `maybe` if its value may be left out."""

    __slots__ = ("help", "many", "maybe", "name", "placeholder", "short", "value")

    def __init__(
        self,
        name: str,
        placeholder: str,
        help: str,
        *,
        value: str = TEXT,
        many: bool = False,
        maybe: bool = False,
        short: str = "",
    ) -> None:
        self.name: Final = name
        self.placeholder: Final = placeholder
        self.help: Final = help
        self.value: Final = value
        self.many: Final = many
        self.maybe: Final = maybe
        self.short: Final = short

    @property
    def spelled(self) -> str:
        """As it is written: `--ttl TIME`, `--wait [TIME]`."""
        names = f"{self.short}, --{self.name}" if self.short and self.name else ""
        names = names or self.short or f"--{self.name}"
        if not self.placeholder:
            return names
        return f"{names} [{self.placeholder}]" if self.maybe else f"{names} {self.placeholder}"


class Command:
    """One command: the words that it takes, its options, and where it lives.

    One of a family has the family's name before its own: `spec lock`.
    """

    __slots__ = ("help", "module", "name", "note", "options", "summary", "takes", "words")

    def __init__(
        self,
        name: str,
        module: str,
        words: str,
        summary: str,
        options: tuple[Option, ...] = (),
        *,
        takes: str = "",
        help: str = "",
        note: str = "",
    ) -> None:
        """`help` stands above the options, and `note` below them."""
        self.name: Final = name
        self.module: Final = module
        self.words: Final = words
        self.summary: Final = summary
        self.options: Final = options
        self.takes: Final = takes
        self.help: Final = help
        self.note: Final = note

    @property
    def function(self) -> str:
        """What runs it, in its module."""
        found = (self.name.partition(" ")[2] or self.name).replace(" ", "_")
        return "import_" if found == "import" else found  # a word of the language


class Family:
    """Commands of one kind, under one first word; their table is read when that word is typed."""

    __slots__ = ("name", "summary")

    def __init__(self, name: str, summary: str) -> None:
        self.name: Final = name
        self.summary: Final = summary

    @property
    def commands(self) -> tuple[Command, ...]:
        """Its commands, each with the family's name before its own."""
        home = __import__(f"holdfast.cli.families.{self.name}", fromlist=["COMMANDS"])
        found: tuple[Command, ...] = home.COMMANDS
        return found


READ = Option("read", "PATH", "also lock this for reading; a folder covers all in it",
              value=FILE, many=True)  # fmt: skip
WRITE = Option("write", "PATH", "lock this for writing", value=FILE, many=True)
HOLDER = Option("holder", "ID", "whose lock it is, instead of whoever calls")
TTL = Option("ttl", "TIME", "how long it lasts unless renewed: 90s, 30m, 2h, 1d, none")
REASON = Option("reason", "TEXT", "what for; others see it")
WAIT = Option("wait", "TIME", "wait in line until it is free, or for this long", maybe=True)

#: These may stand before the command or after it.
GLOBALS = (
    Option("json", "", "print one JSON document instead of words"),
    Option("store", "URL", "the store to use, instead of the repository's own (HOLDFAST_STORE)"),
    Option("", "DIR", "as if called from this folder", value=FOLDER, short="-C"),
    Option("help", "", "say how it is used", short="-h"),
    Option("version", "", "say which version this is"),
)

COMMANDS = (
    Command("init", "guarding.init", "",
            "guard this repository: hooks for the agents' clients and for git",
            (Option("client", "LIST", "these clients, instead of those found: claude,codex"),
             Option("git", "", "git's hooks too, though clients are named"),
             Option("no-git", "", "leave git's hooks alone"),
             Option("dry-run", "", "only say what would be written"),
             Option("diff", "", "show every line that changes"),
             Option("yes", "", "write without asking, at a terminal too"),
             Option("undo", "", "take away exactly what was put in; only a person may"),
             Option("check", "", "say what is no longer as it should be; exit code 1 if anything")),
            help="Merges into what is there, keeps a backup, and asks first at a terminal."),
    Command("doctor", "guarding.doctor", "", "try whether the guard holds, and say what does not",
            (Option("fix", "", "put right what is safe: hooks, ended leases, leftovers"),),
            help="Fires what is forbidden at the installed hooks, in a throw-away repository."),
    Command("off", "guarding.off_and_on", "",
            "let everything pass until switched on; only a person may",
            (Option("reason", "TEXT", "why; status and every agent's start will say so"),)),
    Command("on", "guarding.off_and_on", "", "guard again; only a person may"),
    Command("blockers", "guarding.gate_commands", "",
            "show which agents were stopped, by whom and since when"),
    Command("resume", "guarding.gate_commands", "[AGENT]",
            "let a blocked agent go on; only a person may",
            takes=TEXT),
    Command("undo", "guarding.gate_commands", "ID",
            "put back what a command changed that another agent holds",
            takes=TEXT),
    Command("hook", "guarding.gate_commands", "CLIENT",
            "answer a client's hook; init puts in a quicker way to it",
            takes="claude codex"),
    Command("lock", "locking.lock_commands", "PATH…", "lock files for writing, all or none",
            (READ, HOLDER, TTL, REASON, WAIT), takes=FILE,
            help="A PATH may also be a resource: port:5432, db:test, git:index, res:anything."),
    Command("unlock", "locking.lock_commands", "GRANT|PATH…", "give back what you have locked",
            (HOLDER, Option("force", "", "take it away from its holder; only a person may"),
             Option("reason", "TEXT", "why it is taken away; its holder and the log will say so")),
            takes=FILE),
    Command("renew", "locking.lock_commands", "GRANT|PATH…",
            "extend what you have locked", (HOLDER, TTL),
            takes=FILE),
    Command("steal", "locking.lock_commands", "PATH…",
            "take over what has expired and was not given back",
            (READ, HOLDER, TTL, REASON), takes=FILE),
    Command("check", "locking.check_commands", "PATH…",
            "say what would be in the way, without locking",
            (READ, HOLDER), takes=FILE),
    Command("status", "locking.status", "", "show what is locked, and who waits",
            (Option("all", "", "also what has ended but was not cleared away, and all details"),
             Option("watch", "", "draw it again whenever something changes"))),
    Command("log", "locking.log_commands", "", "show what happened, oldest first",
            (Option("follow", "", "go on with what happens from now on", short="-f"),
             Option("since", "SEQ", "only what came after the event of this number"))),
    Command("whoami", "locking.check_commands", "", "say whose lock it would be", (HOLDER,)),
    Command("run", "locking.run_command", "-- COMMAND…",
            "lock, run a command, give back when it ends",
            (WRITE, READ, HOLDER, REASON, WAIT,
             Option("lease", "", "lease each file when the command first writes it; an "
                    "error if the kernel cannot"),
             Option("until-commit", "", "with --lease: release each file once it is committed"),
             Option("sandbox", "=best-effort", "let it write only what it locked; refuse if the "
                    "kernel cannot, unless with best effort", maybe=True),
             Option("git", "", "with --sandbox: open .git too, for commits; no security boundary")),
            takes="command"),
    Command("write", "locking.write_command", "PATH",
            "replace a file with the standard input, under a grant",
            (Option("grant", "ID", "the grant that covers it (or HOLDFAST_GRANT)"),
             Option("token", "N", "the token that came with the grant")), takes=FILE,
            help="The file is replaced whole or not at all, and only while the grant lives."),
    Command("plan", "dispatch.plan_command", "[LIST]",
            "show what the tasks of a list exclude, before any agent "
            "is sent out",
            (Option("task", "PROMPT", "a task of its own, in place of a list", many=True),),
            takes=FILE,
            help="LIST is a file such as tasks.toml, or a Markdown checklist such as TODO.md.",
            note="For screens: LIST is their manifest (.json), and the plan is what they share."),
    Command("dispatch", "dispatch.dispatch_command", "[LIST]",
            "do a list of tasks with agents in parallel, each task whole or not at all",
            (Option("task", "PROMPT", "a task of its own, in place of a list",
                    many=True),
             Option("slots", "N", "how many agents work at once"),
             Option("only", "NAME", "only this task of the list", many=True),
             Option("retry-failed", "", "try again what failed or was skipped"),
             Option("keep-failed", "", "keep the changes of failed tasks as patches"),
             Option("review", "", "a person approves each task: holdfast decide"),
             Option("resume", "", "go on with what an earlier dispatcher left"),
             Option("amend", "", "only for screens, see below"),
             Option("forget", "", "forget what was done, of a list or of everything"),
             Option("sandbox", "=best-effort", "every agent has one, whether this is given or not",
                    maybe=True),
             Option("serve", "PORT", "show it in a browser meanwhile, as serve does", maybe=True)),
            takes=FILE,
            help="LIST is a file such as tasks.toml, or a Markdown checklist such as TODO.md.",
            note="For screens: LIST is their manifest (.json), --review has a person approve each "
                 "merge, --amend\ngives agents the files that analyses had missed, and --sandbox "
                 "allows a best effort."),
    Command("decide", "dispatch.dispatch_command", "[NAME] [approve|reject]",
            "show what a task has changed, and approve or reject it", takes=TEXT,
            help="Without NAME it lists what waits for a decision."),
    Command("serve", "watching.serve_command", "",
            "show all of it live in a browser, and to other programs",
            (Option("port", "N", "where to listen, instead of 4747; 0 is any that is free"),
             Option("host", "H", "other than this machine alone; then a token is asked for"),
             Option("token", "T", "what to ask for, instead of one that is made up"))),
    Command("top", "watching.top", "",
            "show all of it live in this terminal; arrow keys scroll, q quits"),
    Command("gaps", "dispatch.dispatch_command", "",
            "show what agents wanted to write and were not given"),
    Command("reap", "locking.log_commands", "", "clear away what has ended; nothing depends on it"),
    Command("trim", "locking.log_commands", "", "forget old history; what is locked stays",
            (Option("before", "SEQ", "forget the events before this number"),
             Option("keep", "N", "keep the last N events"))),
    Command("demo", "demo.demo_command", "",
            "watch agents do a list of tasks in a made-up repository",
            (Option("screens", "", "show the dispatcher for screens instead, for half a minute"),
             Option("keep", "", "keep the made-up repository, to look at"))),
    Command("completion", "completion", "bash|zsh|fish", "print the completions for a shell",
            takes="bash zsh fish"),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    Family("spec", "spec locks: which machine works on which spec"),
    Family("proof", "proof ledgers: events in files, and who works on which node"),
    Family("tree", "worktrees with one writer each, and snapshots that are whole or not there"),
)

#: What `--help` and `--version` run.
HELP = Command("usage", "help", "", "")
VERSION = Command("version", "help", "", "")

#: The environment that the commands read.
VARIABLES = (
    ("HOLDFAST_STORE", "the store to use, as with --store"),
    ("HOLDFAST_HOLDER", "whose lock it is, as a runner of agents tells them"),
    ("HOLDFAST_SERVE_TOKEN", "the token of serve, where others cannot see it"),
    ("MAX_CLAUDE_CONCURRENCY", "how many agents run at once, instead of work.slots"),
    ("NO_COLOR", "no colours, whatever the terminal can do"),
)


def everything() -> tuple[Command, ...]:
    """All commands, those of the families too."""
    return (*COMMANDS, *(command for family in FAMILIES for command in family.commands))
