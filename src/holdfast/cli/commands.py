"""The commands and their options, as one table.

The parser, `--help`, the completions and the guide's list of commands are all read from here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The kind of a value, by which shells complete it.
FILE = "file"
FOLDER = "folder"
TEXT = "text"
NAME = "name of a command"


class Option:
    """One option. Without a placeholder it is a switch; with `maybe` its value may be omitted."""

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
        """How help shows it: `--ttl TIME`, `--wait [TIME]`."""
        names = f"{self.short}, --{self.name}" if self.short and self.name else ""
        names = names or self.short or f"--{self.name}"
        if not self.placeholder:
            return names
        return f"{names} [{self.placeholder}]" if self.maybe else f"{names} {self.placeholder}"


#: The headings under which `holdfast --help` and the guide list the commands, in this order.
EVERY_DAY = "every day"
LOCKS = "locks and the ledger"
AGENTS = "agents and the guard"
TASKS = "lists of tasks"
REST = "also"
GROUPS = (EVERY_DAY, LOCKS, AGENTS, TASKS, REST)


class Command:
    """One command: the words that it takes, its options, and where it lives.

    One of a family has the family's name before its own: `spec lock`.
    """

    __slots__ = (
        "aliases", "examples", "group", "help", "module", "name", "note", "options", "summary",
        "takes", "words",
    )  # fmt: skip

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
        group: str = "",
        examples: tuple[str, ...] = (),
        aliases: tuple[str, ...] = (),
    ) -> None:
        """`help` is printed above the options, and `note` below them.

        `group` is one of GROUPS, or empty in a family. Each of the two `examples` is a line as it
        is typed in a shell.
        """
        self.name: Final = name
        self.module: Final = module
        self.words: Final = words
        self.summary: Final = summary
        self.options: Final = options
        self.takes: Final = takes
        self.help: Final = help
        self.note: Final = note
        self.group: Final = group
        self.examples: Final = examples
        self.aliases: Final = aliases

    @property
    def function(self) -> str:
        """The name of the function that runs it, in its module."""
        found = (self.name.partition(" ")[2] or self.name).replace(" ", "_")
        return "import_" if found == "import" else found  # a keyword of Python


class Family:
    """Commands that share a first word; their table is imported when that word is typed."""

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
HOLDER = Option("holder", "ID", "the name of the holder, instead of the caller's own")
TTL = Option("ttl", "TIME", "how long it lasts unless renewed: 90s, 30m, 2h, 1d, none")
REASON = Option("reason", "TEXT", "why; other holders see it")
WAIT = Option("wait", "TIME", "wait in line until it is free, or for at most this long", maybe=True)

#: These may come before the command or after it.
GLOBALS = (
    Option("json", "", "print one JSON document instead of text"),
    Option("store", "URL", "use this store instead of the repository's own (HOLDFAST_STORE)"),
    Option("", "DIR", "run as if started in this folder", value=FOLDER, short="-C"),
    Option("help", "", "show this help", short="-h"),
    Option("version", "", "print the version", short="-V"),
)

COMMANDS = (
    Command("init", "guarding.init", "",
            "guard this repository: hooks for the agents' clients and for git",
            (Option("client", "LIST", "guard these clients, not those found: claude,codex"),
             Option("git", "", "install git's hooks too, even if clients are named"),
             Option("no-git", "", "leave git's hooks alone"),
             Option("dry-run", "", "only print what would be written"),
             Option("diff", "", "show every line that changes"),
             Option("yes", "", "write without asking, at a terminal too"),
             Option("undo", "", "remove exactly what was installed; only a person may"),
             Option("check", "", "print what has been changed or removed since; exit code 1 if "
                    "anything")),
            help="Merges into existing files, keeps a backup, and asks first at a terminal.",
            group=EVERY_DAY,
            examples=("holdfast init --dry-run --diff", "holdfast init --client claude --yes")),
    Command("status", "locking.status", "", "show what is locked, and who waits",
            (Option("all", "", "add grants that have ended but were not reaped, and all details"),
             Option("watch", "", "redraw whenever something changes")),
            group=EVERY_DAY, aliases=("ps",),
            examples=("holdfast status", "holdfast status --all --json")),
    Command("lock", "locking.lock_commands", "PATH…", "lock files for writing, all or none",
            (READ, HOLDER, TTL, REASON, WAIT), takes=FILE,
            help="A PATH may also be a resource: port:5432, db:test, git:index, res:anything.",
            group=EVERY_DAY,
            examples=('holdfast lock app/x.rb --read lib/ --reason "fix the parser"',
                      "holdfast lock db/schema.rb port:5432 --ttl 30m --wait 5m")),
    Command("unlock", "locking.lock_commands", "GRANT|PATH…", "release what you have locked",
            (HOLDER, Option("force", "", "take the lock away from its holder; only a person may"),
             Option("reason", "TEXT", "why it is taken away; shown to its holder and in the log")),
            takes=FILE, group=EVERY_DAY,
            examples=("holdfast unlock app/x.rb lib/",
                      'holdfast unlock db/schema.rb --force --reason "its agent hangs"')),
    Command("run", "locking.run_command", "-- COMMAND…",
            "lock, run a command, release when it ends",
            (WRITE, READ, HOLDER, REASON, WAIT,
             Option("lease", "", "lease each file when the command first writes it; fail "
                    "if the kernel cannot"),
             Option("until-commit", "", "with --lease: release each file once it is committed"),
             Option("sandbox", "=best-effort", "let it write only what it has locked; if the "
                    "kernel cannot enforce that, fail (best-effort: run anyway)", maybe=True),
             Option("git", "", "with --sandbox: open .git too, for commits; no security boundary")),
            takes="command", group=EVERY_DAY,
            examples=("holdfast run --write db/schema.rb --read app/ -- rake db:migrate",
                      "holdfast run --lease --wait 5m -- make test")),
    Command("log", "locking.log_commands", "", "show what happened, oldest first",
            (Option("follow", "", "continue with new events as they happen", short="-f"),
             Option("number", "N", "only the last N events", short="-n"),
             Option("reverse", "", "newest first", short="-r"),
             Option("since", "SEQ", "only events after the one with this number")),
            group=EVERY_DAY,
            examples=("holdfast log -n 20 --reverse", "holdfast log --since 17 --json")),
    Command("blockers", "guarding.gate_commands", "",
            "show which agents were stopped, by which holder and since when",
            group=EVERY_DAY, examples=("holdfast blockers", "holdfast blockers --json")),
    Command("dispatch", "dispatch.dispatch_command", "[LIST]",
            "run a list of tasks with agents in parallel, each task whole or not at all",
            (Option("task", "PROMPT", "one task, given here in place of a list",
                    many=True),
             Option("slots", "N", "how many agents work at once"),
             Option("only", "NAME", "only this task of the list", many=True),
             Option("retry-failed", "", "retry the tasks that failed or were skipped"),
             Option("keep-failed", "", "keep the changes of failed tasks as patches"),
             Option("review", "", "a person approves each task: holdfast decide"),
             Option("resume", "", "continue what an earlier dispatcher left"),
             Option("amend", "", "only for screens, see below"),
             Option("forget", "", "forget the records of a list, or of all work"),
             Option("sandbox", "=best-effort", "not needed for tasks: agents always have one",
                    maybe=True),
             Option("serve", "PORT", "show the progress in a browser, as serve does", maybe=True)),
            takes=FILE,
            help="LIST is a file such as tasks.toml, or a Markdown checklist such as TODO.md.",
            note="For screens: LIST is their manifest (.json), --review has a person approve each "
                 "merge, --amend gives agents the files that the analyses missed, and --sandbox "
                 "allows a best effort.",
            group=EVERY_DAY,
            examples=("holdfast dispatch tasks.toml --slots 4",
                      'holdfast dispatch --task "add tests for app/x.rb" --task "update TODO.md"')),
    Command("top", "watching.top", "",
            "show everything live in this terminal; arrow keys scroll, q quits",
            group=EVERY_DAY, examples=("holdfast top", "holdfast top --json")),
    Command("doctor", "guarding.doctor", "",
            "test whether the guard holds, and print what does not",
            (Option("fix", "", "repair what is safe to repair: hooks, ended leases, leftovers"),),
            help="Tries forbidden writes against the installed hooks, in a throw-away repository.",
            group=EVERY_DAY, examples=("holdfast doctor", "holdfast doctor --fix")),

    Command("check", "locking.check_commands", "PATH…",
            "show what would be in the way, without locking",
            (READ, HOLDER), takes=FILE, group=LOCKS,
            examples=("holdfast check app/x.rb", "holdfast check db/schema.rb --read app/ --json")),
    Command("renew", "locking.lock_commands", "GRANT|PATH…",
            "extend what you have locked", (HOLDER, TTL),
            takes=FILE, group=LOCKS,
            examples=("holdfast renew app/x.rb", "holdfast renew db/schema.rb --ttl 2h")),
    Command("steal", "locking.lock_commands", "PATH…",
            "take over a lock whose lease has expired",
            (READ, HOLDER, TTL, REASON), takes=FILE, group=LOCKS,
            examples=("holdfast steal app/x.rb",
                      'holdfast steal db/schema.rb --ttl 30m --reason "finish the migration"')),
    Command("write", "locking.write_command", "PATH",
            "replace a file with the standard input, under a grant",
            (Option("grant", "ID", "the grant that covers it (or HOLDFAST_GRANT)"),
             Option("token", "N", "the token that came with the grant")), takes=FILE,
            help="The file is replaced whole or not at all, and only while the grant is current.",
            group=LOCKS,
            examples=('holdfast write app/x.rb --grant "$HOLDFAST_GRANT" < new.rb',
                      'holdfast write app/x.rb --token "$HOLDFAST_TOKEN" < new.rb')),
    Command("whoami", "locking.check_commands", "", "show which holder your locks would have",
            (HOLDER,), group=LOCKS,
            examples=("holdfast whoami", "holdfast whoami --holder nightly --json")),
    Command("reap", "locking.log_commands", "",
            "remove grants that have ended; nothing depends on it",
            group=LOCKS, examples=("holdfast reap", "holdfast reap --json")),
    Command("trim", "locking.log_commands", "", "forget old history; what is locked stays",
            (Option("before", "SEQ", "forget the events before this number"),
             Option("keep", "N", "keep the last N events")),
            group=LOCKS, examples=("holdfast trim --keep 10000", "holdfast trim --before 500")),

    Command("resume", "guarding.gate_commands", "[AGENT]",
            "let a blocked agent continue; only a person may",
            takes=TEXT, group=AGENTS,
            examples=("holdfast resume", "holdfast resume claude@pts/3:faf2")),
    Command("gaps", "dispatch.dispatch_command", "",
            "show which files agents wanted to write and had not declared",
            group=AGENTS, examples=("holdfast gaps", "holdfast gaps --json")),
    Command("undo", "guarding.gate_commands", "ID",
            "restore what a command changed although another agent holds it",
            takes=TEXT, group=AGENTS,
            examples=("holdfast undo 9c41d07e", "holdfast undo 9c41d07e --json")),
    Command("off", "guarding.off_and_on", "",
            "stop guarding until switched on again; only a person may",
            (Option("reason", "TEXT", "why; shown by status and to every agent that starts"),),
            group=AGENTS,
            examples=("holdfast off", 'holdfast off --reason "rebase of the whole branch"')),
    Command("on", "guarding.off_and_on", "", "guard again; only a person may",
            group=AGENTS, examples=("holdfast on", "holdfast -C ../other on")),
    Command("hook", "guarding.gate_commands", "CLIENT",
            "answer a client's hook; init installs a faster way to call it",
            takes="claude codex", group=AGENTS,
            examples=("holdfast hook claude < event.json", "holdfast hook codex < event.json")),
    Command("snippet", "guarding.agent_lines", "",
            "print a paragraph about Holdfast for AGENTS.md and CLAUDE.md",
            group=AGENTS,
            examples=("holdfast snippet >> AGENTS.md", "holdfast snippet --json")),
    Command("statusline", "guarding.agent_lines", "",
            "print one line about a session of Claude Code, for its statusLine setting",
            help="Reads the JSON that Claude Code passes on standard input.", group=AGENTS,
            examples=("holdfast statusline < session.json",
                      "holdfast statusline --json < session.json")),
    Command("plan", "dispatch.plan_command", "[LIST]",
            "show which tasks of a list exclude each other, before any agent starts",
            (Option("task", "PROMPT", "one task, given here in place of a list", many=True),),
            takes=FILE,
            help="LIST is a file such as tasks.toml, or a Markdown checklist such as TODO.md.",
            note="For screens: LIST is their manifest (.json), and the plan is what they share.",
            group=TASKS, examples=("holdfast plan tasks.toml", "holdfast plan TODO.md --json")),
    Command("decide", "dispatch.dispatch_command", "[NAME] [approve|reject]",
            "show what a task has changed, and approve or reject it", takes=TEXT,
            help="Without NAME it lists the tasks that wait for a decision.", group=TASKS,
            examples=("holdfast decide", "holdfast decide parser approve")),

    Command("serve", "watching.serve_command", "",
            "show everything live in a browser, and to other programs",
            (Option("port", "N", "where to listen, instead of 4747; 0 for any free port"),
             Option("host", "H", "listen on this address; then every request needs a token"),
             Option("token", "T", "the token to require, instead of a generated one")),
            group=REST, examples=("holdfast serve", "holdfast serve --port 0 --host 0.0.0.0")),
    Command("demo", "demo.demo_command", "",
            "watch agents work through a list of tasks in a made-up repository",
            (Option("screens", "", "show the dispatcher for screens instead, for half a minute"),
             Option("keep", "", "keep the made-up repository for inspection")),
            group=REST, examples=("holdfast demo", "holdfast demo --screens --keep")),
    Command("completion", "completion", "bash|zsh|fish", "print the completions for a shell",
            takes="bash zsh fish", group=REST,
            examples=("source <(holdfast completion bash)",
                      "holdfast completion zsh > ~/.zfunc/_holdfast")),
    Command("help", "help", "[COMMAND]", "show how to use Holdfast, or one command",
            takes=NAME, group=REST, examples=("holdfast help lock", "holdfast help spec lock")),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    Family("store", "where the ledger is kept: on disk or on a server"),
    Family("spec", "spec locks: which machine works on which spec"),
    Family("proof", "proof ledgers: events in files, and who works on which node"),
    Family("tree", "worktrees with one writer each, and atomic snapshots"),
)

#: Run by `holdfast` without a command, by `--help` and by `--version`.
OVERVIEW = Command("overview", "overview", "", "")
HELP = Command("usage", "help", "", "")
VERSION = Command("version", "help", "", "")

#: The environment variables that the commands read.
VARIABLES = (
    ("HOLDFAST_STORE", "the store to use, as with --store"),
    ("HOLDFAST_HOLDER", "the name of the holder, set by a program that runs agents"),
    ("HOLDFAST_SERVE_TOKEN", "the token of serve, hidden from other users"),
    ("MAX_CLAUDE_CONCURRENCY", "how many agents run at once, instead of work.slots"),
    ("NO_COLOR", "no colours, even if the terminal supports them"),
    ("COLUMNS", "how wide help and tables may be"),
)


def everything() -> tuple[Command, ...]:
    """All commands, including those of the families."""
    return (*COMMANDS, *(command for family in FAMILIES for command in family.commands))
