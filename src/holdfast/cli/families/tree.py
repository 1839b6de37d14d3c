"""The commands of `holdfast tree`."""

from __future__ import annotations

from holdfast.cli.commands import HOLDER, TEXT, Command, Option

WORKTREE = Option("worktree", "NAME", "use this worktree, instead of the one you are in")
TOKEN = Option("token", "N", "fail unless this is still the lock's token (HOLDFAST_TREE_TOKEN)")
LEASE = Option("lease", "TIME", "how long the lock lasts unless renewed: 90s, 5m, 1h; default 5m")
REASON = Option("reason", "TEXT", "why; recorded in the audit log")
ENGINE = Option("engine", "copy|reflink-copy", "how to copy; default the best that works here")
FORCE = "force"

COMMANDS = (
    Command("tree init", "tree.tree_worktrees", "[PATH]",
            "create a repository of trees, with a worktree main",
            takes=TEXT, help="In an existing folder, main/ becomes the worktree; the rest stays "
            "as it is."),
    Command("tree info", "tree.tree_worktrees", "",
            "show the repository, the worktree you are in and its lock",
            (WORKTREE,)),
    Command("tree create", "tree.tree_worktrees", "NAME",
            "create a worktree, empty or from a snapshot",
            (Option("from", "SNAPSHOT", "fill it with this snapshot"),
             Option("isolation", "exclusive|shared", "one writer at a time, by a lock, or any "
                    "number; default exclusive"), ENGINE), takes=TEXT),
    Command("tree list", "tree.tree_listing", "",
            "show all worktrees, and who may write to them"),
    Command("tree path", "tree.tree_listing", "[NAME]", "print where a worktree is", takes=TEXT),
    Command("tree remove", "tree.tree_worktrees", "[NAME]", "remove a worktree; its snapshots stay",
            (Option(FORCE, "", "even if it has content that is in no snapshot"), HOLDER, TOKEN),
            takes=TEXT, help="An exclusive worktree requires its lock, even with --force."),
    Command("tree lock acquire", "tree.tree_locks", "", "acquire the lock, to be the only writer",
            (LEASE, WORKTREE, HOLDER)),
    Command("tree lock renew", "tree.tree_locks", "", "extend your lock", (LEASE, WORKTREE, HOLDER,
            TOKEN)),
    Command("tree lock release", "tree.tree_locks", "",
            "release the lock", (WORKTREE, HOLDER, TOKEN)),
    Command("tree lock steal", "tree.tree_locks", "", "take over a lock that has expired",
            (LEASE, REASON, WORKTREE, HOLDER)),
    Command("tree lock status", "tree.tree_locks", "", "show who may write, and until when",
            (WORKTREE, HOLDER)),
    Command("tree run", "tree.tree_running", "-- COMMAND…",
            "run a command under the lock, renewing it meanwhile",
            (LEASE, WORKTREE, HOLDER), takes="command",
            help="Uses the lock if you hold it; else acquires it, and releases it at the end."),
    Command("tree snapshot", "tree.tree_snapshots", "[NOTE]",
            "take a snapshot of the payload as it is now",
            (Option("consistency", "quiesced|best_effort", "fail if anything changes meanwhile, "
                    "or continue and list what changed; default quiesced"),
             Option("tag", "NAME", "give the snapshot this name"), ENGINE, WORKTREE, HOLDER, TOKEN),
            takes=TEXT),
    Command("tree history", "tree.tree_snapshots", "[SNAPSHOT]",
            "show the snapshots of a worktree, latest first",
            (Option("limit", "N", "only the latest N"),
             Option("all", "", "the snapshots of all worktrees"), WORKTREE), takes=TEXT,
            help="With SNAPSHOT: that one, and those before it."),
    Command("tree diff", "tree.tree_diff", "A B", "show the differences between two snapshots",
            (Option("stat", "", "only the paths, and how much changed"),), takes=TEXT),
    Command("tree restore", "tree.tree_snapshots", "SNAPSHOT",
            "create a worktree from a snapshot, or replace this one with it",
            (Option("name", "NAME", "the name of the new worktree"),
             Option("inplace", "", "replace the payload; work that is in no snapshot is lost"),
             Option(FORCE, "", "required by --inplace"), REASON, ENGINE, WORKTREE, HOLDER, TOKEN),
            takes=TEXT,
            help="A snapshot is named by its id or the beginning of it, a tag, or a note."),
    Command("tree tag add", "tree.tree_tags", "NAME [SNAPSHOT]",
            "give a snapshot a name; gc keeps it",
            (Option("move", "", "even if another snapshot has that name"), WORKTREE), takes=TEXT),
    Command("tree tag list", "tree.tree_tags", "", "show all tags"),
    Command("tree tag remove", "tree.tree_tags", "NAME", "remove a tag; the snapshot stays",
            takes=TEXT),
    Command("tree gc plan", "tree.tree_gc", "", "show the snapshots that nothing needs any more",
            (Option("keep-last", "N", "for this plan: keep the latest N of each worktree"),
             Option("keep-days", "N", "for this plan: keep snapshots younger than N days"),
             Option("no-ancestors", "", "for this plan: do not keep ancestors of needed ones")),
            help="Heads, tagged snapshots and those in use by an operation are always kept."),
    Command("tree gc run", "tree.tree_gc", "PLAN",
            "remove the snapshots of a plan that nothing needs",
            takes=TEXT),
    Command("tree gc settings", "tree.tree_gc", "[KEY=VALUE…]", "show or change what gc keeps",
            takes=TEXT, help="keep_ancestors=true|false, keep_last=N, keep_days=N."),
    Command("tree import", "tree.tree_import", "PATH",
            "import the snapshots of a jvs repository",
            (ENGINE,), takes=TEXT, help="That repository is only read. Each snapshot is verified."),
    Command("tree doctor", "tree.tree_health", "", "look for damage, and report how to repair it",
            (Option("strict", "", "check every byte of every snapshot, and the whole audit log"),
             Option("clean", "", "remove leftovers that are certainly unused"))),
    Command("tree verify", "tree.tree_health", "[SNAPSHOT]", "check a snapshot byte by byte",
            (Option("all", "", "check all of them"), WORKTREE), takes=TEXT),
)  # fmt: skip
