"""The commands of `holdfast tree`."""

from __future__ import annotations

from holdfast.cli.commands import HOLDER, TEXT, Command, Option

WORKTREE = Option("worktree", "NAME", "this worktree, instead of the one you are in")
TOKEN = Option("token", "N", "only while this is the lock's token (HOLDFAST_TREE_TOKEN)")
LEASE = Option("lease", "TIME", "how long it lasts unless renewed: 90s, 5m, 1h; 5m if not given")
REASON = Option("reason", "TEXT", "why; the audit log will say so")
ENGINE = Option("engine", "copy|reflink-copy", "how to copy, instead of the best that works here")
FORCE = "force"

COMMANDS = (
    Command("tree init", "tree.tree_worktrees", "[PATH]",
            "make a repository of trees, with a worktree main",
            takes=TEXT, help="In a folder that is there already, main/ becomes the worktree; the "
            "rest stays as it is."),
    Command("tree info", "tree.tree_worktrees", "",
            "show the repository, the worktree you are in and its lock",
            (WORKTREE,)),
    Command("tree create", "tree.tree_worktrees", "NAME",
            "make a worktree, empty or from a snapshot",
            (Option("from", "SNAPSHOT", "fill it with this snapshot"),
             Option("isolation", "exclusive|shared", "one writer by a lock, or anybody; exclusive "
                    "if not given"), ENGINE), takes=TEXT),
    Command("tree list", "tree.tree_listing", "",
            "show all worktrees, and who may write into them"),
    Command("tree path", "tree.tree_listing", "[NAME]", "print where a worktree is", takes=TEXT),
    Command("tree remove", "tree.tree_worktrees", "[NAME]", "remove a worktree; its snapshots stay",
            (Option(FORCE, "", "though it has what no snapshot has"), HOLDER, TOKEN), takes=TEXT,
            help="An exclusive worktree needs its lock, forced or not."),
    Command("tree lock acquire", "tree.tree_locks", "", "become the one who may write",
            (LEASE, WORKTREE, HOLDER)),
    Command("tree lock renew", "tree.tree_locks", "", "extend your lease", (LEASE, WORKTREE, HOLDER,
            TOKEN)),
    Command("tree lock release", "tree.tree_locks", "",
            "give the lock back", (WORKTREE, HOLDER, TOKEN)),
    Command("tree lock steal", "tree.tree_locks", "", "take over a lock whose lease has run out",
            (LEASE, REASON, WORKTREE, HOLDER)),
    Command("tree lock status", "tree.tree_locks", "", "show who may write, and until when",
            (WORKTREE, HOLDER)),
    Command("tree run", "tree.tree_running", "-- COMMAND…",
            "run a command under the lock, and renew it meanwhile",
            (LEASE, WORKTREE, HOLDER), takes="command",
            help="Uses the lock if you have it; else takes it, and gives it back in the end."),
    Command("tree snapshot", "tree.tree_snapshots", "[NOTE]", "keep the payload as it is now",
            (Option("consistency", "quiesced|best_effort", "fail if anything changes meanwhile, "
                    "or go on and say what; quiesced if not given"),
             Option("tag", "NAME", "give it this name"), ENGINE, WORKTREE, HOLDER, TOKEN),
            takes=TEXT),
    Command("tree history", "tree.tree_snapshots", "[SNAPSHOT]",
            "show the snapshots of a worktree, latest first",
            (Option("limit", "N", "only the latest N"),
             Option("all", "", "those of all worktrees"), WORKTREE), takes=TEXT,
            help="With a snapshot: that one, and those before it."),
    Command("tree diff", "tree.tree_diff", "A B", "show what is different between two snapshots",
            (Option("stat", "", "only which files, and how much"),), takes=TEXT),
    Command("tree restore", "tree.tree_snapshots", "SNAPSHOT",
            "make a new worktree from a snapshot, or put it in the place of this one",
            (Option("name", "NAME", "what to call the new worktree"),
             Option("inplace", "", "in the place of the payload; what no snapshot has is lost"),
             Option(FORCE, "", "really, with --inplace"), REASON, ENGINE, WORKTREE, HOLDER, TOKEN),
            takes=TEXT,
            help="A snapshot is named by its id or the beginning of it, a tag, or a note."),
    Command("tree tag add", "tree.tree_tags", "NAME [SNAPSHOT]",
            "give a snapshot a name; gc keeps it",
            (Option("move", "", "though another snapshot has that name"), WORKTREE), takes=TEXT),
    Command("tree tag list", "tree.tree_tags", "", "show all tags"),
    Command("tree tag remove", "tree.tree_tags", "NAME", "take a name away; the snapshot stays",
            takes=TEXT),
    Command("tree gc plan", "tree.tree_gc", "", "show which snapshots nothing needs any more",
            (Option("keep-last", "N", "for this plan: the latest N of each worktree stay"),
             Option("keep-days", "N", "for this plan: what is younger than N days stays"),
             Option("no-ancestors", "", "for this plan: what needed ones came from need not stay")),
            help="Heads, tags and what an operation uses always stay."),
    Command("tree gc run", "tree.tree_gc", "PLAN", "remove what a plan names and nothing needs",
            takes=TEXT),
    Command("tree gc settings", "tree.tree_gc", "[KEY=VALUE…]", "show or change what gc keeps",
            takes=TEXT, help="keep_ancestors=true|false, keep_last=N, keep_days=N."),
    Command("tree import", "tree.tree_import", "PATH",
            "bring over the snapshots of a jvs repository",
            (ENGINE,), takes=TEXT, help="That repository is only read. Each snapshot is verified."),
    Command("tree doctor", "tree.tree_health", "", "look for damage, and say what to do about it",
            (Option("strict", "", "also every byte of every snapshot, and the whole audit log"),
             Option("clean", "", "remove what is certainly nobody's"))),
    Command("tree verify", "tree.tree_health", "[SNAPSHOT]", "check a snapshot byte by byte",
            (Option("all", "", "check all of them"), WORKTREE), takes=TEXT),
)  # fmt: skip
