"""run --sandbox: the command can write what it locked, and nothing else."""

from __future__ import annotations

import errno
import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Terminal
from helpers_sandbox import NEEDS_LANDLOCK, OLD_KERNEL, Room, without_call
from holdfast.gate.sandbox.kernel import landlock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

CREATE_RULESET = 444


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    assert made.left_over() == [], "the scratch folder is gone"
    assert made.held() == [], "the lock is given back"


# Locked files can be written


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo new >app/x.rb", "new\n"),
        ("echo new >>app/x.rb", "old\nnew\n"),
        ("echo new >new; :", "old\n"),
        ("cp $TMPDIR/new app/x.rb", "from tmp\n"),
        ("cat $TMPDIR/new | tee app/x.rb", "from tmp\n"),
        ("tee -a app/x.rb <$TMPDIR/new", "old\nfrom tmp\n"),
        (f"{sys.executable} -c \"open('app/x.rb', 'w').write('new')\"", "new"),
        (f"{sys.executable} -c \"open('app/x.rb', 'r+').write('new')\"", "new\n"),
        ("truncate -s 1 app/x.rb", "o"),
        ("dd if=$TMPDIR/new of=app/x.rb status=none", "from tmp\n"),
        ("sh -c 'sh -c \"echo deep >app/x.rb\"'", "deep\n"),
        ("setsid sh -c 'echo away >app/x.rb'", "away\n"),
    ],
)
def test_what_is_locked_can_be_written(room: Room, script: str, text: str) -> None:
    room.shell(f"echo from tmp >$TMPDIR/new; {script}")
    assert room.text("app/x.rb") == text


#: Each of them changes app/y.rb, which is not locked, or its folder.
FORBIDDEN = {
    "redirection": "echo new >app/y.rb",
    "appending": "echo new >>app/y.rb",
    "cp": "cp app/x.rb app/y.rb",
    "tee": "echo new | tee app/y.rb",
    "python": f"{sys.executable} -c \"open('app/y.rb', 'w')\"",
    "python in place": f"{sys.executable} -c \"open('app/y.rb', 'r+')\"",
    "truncate": "truncate -s 0 app/y.rb",
    "truncating without opening to write": (
        f"{sys.executable} -c \"import os; os.open('app/y.rb', os.O_RDONLY | os.O_TRUNC)\""
    ),
    "truncating by its name": f"{sys.executable} -c \"import os; os.truncate('app/y.rb', 0)\"",
    "rm": "rm -f app/y.rb",
    "mv away": "mv app/y.rb app/z.rb",
    "mv to scratch": "mv app/y.rb $TMPDIR/",
    "mv over it": "echo new >$TMPDIR/y && mv -f $TMPDIR/y app/y.rb",
    "mv what is locked over it": "mv -f app/x.rb app/y.rb",
    "a link to it": "ln -s $PWD/app/y.rb $TMPDIR/y && echo new >$TMPDIR/y",
    "another name of it": "ln app/y.rb $TMPDIR/y && echo new >$TMPDIR/y",
    "another name over it": "ln -f app/x.rb app/y.rb",
    "a link in its place": "ln -sf x.rb app/y.rb",
    "the folder": "mv app gone",
    "a child of a child": "sh -c 'sh -c \"echo new >app/y.rb\"'",
    "a child in a session of its own": "setsid -w sh -c 'echo new >app/y.rb'",
    "from another folder": "cd / && echo new >$OLDPWD/app/y.rb",
    "through proc": "echo new >/proc/self/cwd/app/y.rb",
    "git": "git checkout -- app/y.rb",
    "a new file": "echo new >app/new.rb",
    "a new folder": "mkdir app/new",
    "a new pipe": "mkfifo app/new",
    "what is locked under another name": "mv app/x.rb app/new.rb",
    "removing what is locked": "rm -f app/x.rb",
    "the ledger": "echo new >>.holdfast/ledger.db",
    "the settings": "echo '[sandbox]' >holdfast.toml",
    "outside": "echo new >../outside",
}


#: Tries them one after the other, each with an empty folder for temporary files.
TRIES = """
import json, subprocess, sys
told = {}
for name, script in json.loads(sys.argv[1]).items():
    done = subprocess.run(["sh", "-c", f"( {script} ) 2>/dev/null"], stdout=subprocess.DEVNULL)
    told[name] = done.returncode, _tree(Path.cwd().parent)
    for left in Path(os.environ["TMPDIR"]).iterdir():
        left.unlink()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, dict[str, object]]]:
    """For each of them its exit code and the files afterwards; without a name, the files before."""
    made = Room(tmp_path_factory.mktemp("tried"))
    before = _tree(made.root.parent)
    text = f"import os\nfrom pathlib import Path\n\n\n{inspect.getsource(_tree)}{TRIES}"
    answer = made.run("--", sys.executable, "-c", text, json.dumps(FORBIDDEN))
    assert answer.code == 0, answer
    assert made.left_over() == [], "the scratch folder is gone"
    assert made.held() == [], "the lock is given back"
    return {**json.loads(answer.out), "": (0, before)}


@NEEDS_LANDLOCK
@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_not_locked_cannot_be_written(
    tried: dict[str, tuple[int, dict[str, object]]], name: str
) -> None:
    code, after = tried[name]
    _, before = tried[""]
    assert code != 0
    assert after == before


@NEEDS_LANDLOCK
def test_the_same_commands_work_without_the_sandbox(room: Room) -> None:
    # Otherwise the test above would prove nothing.
    for name in ("redirection", "rm", "mv away", "a new file", "truncating by its name"):
        (room.root / "app/y.rb").write_text("old\n")
        before = _tree(room.root)
        script = ["sh", "-c", FORBIDDEN[name]]
        assert room.repo.hold("run", "--write", "app/x.rb", "--", *script).code == 0
        assert _tree(room.root) != before, name


def _tree(root: Path) -> dict[str, object]:
    """Everything below a folder, except the files of git and of the ledger."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".git", ".holdfast", "t")]
        for name in (*names, *files):
            path = Path(folder, name)
            found[str(path)] = path.read_text() if path.is_file() else "folder"
    return found


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    ("tool", "script"),
    [
        ("sed -i", "sed -i s/old/new/ app/x.rb"),
        ("patch", "patch app/x.rb <../p"),
        ("git apply", "git apply ../p"),
        ("git checkout", "git checkout -- app/x.rb"),
    ],
)
def test_tools_that_rename_in_the_folder_are_refused_though_the_file_is_locked(
    room: Room, tool: str, script: str
) -> None:
    room.plainly("git", "add", ".")
    diff = "--- a/app/x.rb\n+++ b/app/x.rb\n@@ -1 +1 @@\n-old\n+new\n"
    (room.root.parent / "p").write_text(diff)
    if tool == "git checkout":
        (room.root / "app/x.rb").write_text("dirty\n")
    before = _tree(room.root)
    answer = room.shell(script)
    assert answer.code != 0, answer
    assert _tree(room.root) == before
    assert room.plainly("sh", "-c", script).code == 0, "outside it works"
    assert _tree(room.root) != before
    guide = Path(__file__).parents[2] / "docs/sandbox.md"
    assert f"`{tool}" in guide.read_text(), "the guide says so"


@NEEDS_LANDLOCK
def test_another_name_of_what_is_locked_is_the_same_file(room: Room) -> None:
    os.link(room.root / "app/x.rb", room.root / "app/alias.rb")
    assert room.shell("echo new >app/alias.rb").code == 0
    assert room.text("app/x.rb") == "new\n"


@NEEDS_LANDLOCK
def test_a_link_is_followed_to_the_file_that_is_locked(room: Room) -> None:
    (room.root / "link.rb").symlink_to("app/y.rb")
    answer = room.shell("echo new >link.rb && echo new >app/y.rb", write=["link.rb"])
    assert answer.code == 0, answer
    assert (room.root / "link.rb").is_symlink()
    assert room.text("app/y.rb") == "new\n"


@NEEDS_LANDLOCK
def test_a_read_lock_opens_nothing(room: Room) -> None:
    answer = room.shell("cat app/y.rb && echo new >app/y.rb", "--read", "app/y.rb")
    assert answer.code != 0
    assert answer.out == "old\n"
    answer = room.shell("echo new >app/x.rb", "--read", "app/y.rb", write=[])
    assert answer.code != 0
    assert room.text("app/x.rb") == "old\n"


@NEEDS_LANDLOCK
def test_resources_are_locked_beside_files(room: Room) -> None:
    answer = room.shell("echo new >app/x.rb", write=["app/x.rb", "port:5432"])
    assert answer.code == 0, answer
    assert room.text("app/x.rb") == "new\n"


# Files that do not exist yet


@NEEDS_LANDLOCK
def test_a_new_file_can_be_written_and_stays(room: Room) -> None:
    answer = room.shell("echo new >app/new.rb", write=["app/new.rb"])
    assert answer.code == 0, answer
    assert room.text("app/new.rb") == "new\n"
    umask = os.umask(0o022)
    os.umask(umask)
    assert (room.root / "app/new.rb").stat().st_mode & 0o777 == 0o666 & ~umask


@NEEDS_LANDLOCK
def test_a_new_file_in_new_folders_can_be_written(room: Room) -> None:
    answer = room.shell("echo new >a/b/new.rb; mkdir a/c", write=["a/b/new.rb", "a/d/other.rb"])
    assert room.text("a/b/new.rb") == "new\n"
    assert "a/c" in answer.err
    assert os.listdir(room.root / "a") == ["b"], "folders that were not needed are removed again"


@NEEDS_LANDLOCK
def test_a_new_file_that_was_not_written_is_removed_again(room: Room) -> None:
    answer = room.shell("test -e app/new.rb && exit 9", write=["app/new.rb", "lib/other.rb"])
    assert answer.code == 9, "it exists while the command runs"
    assert not (room.root / "app/new.rb").exists()
    assert not (room.root / "lib/other.rb").exists()


@NEEDS_LANDLOCK
@pytest.mark.parametrize("how", ["touch new.rb", ": >new.rb", "cp /dev/null new.rb"])
def test_a_new_file_that_is_meant_to_be_empty_stays(room: Room, how: str) -> None:
    assert room.shell(how, write=["new.rb"]).code == 0
    assert (room.root / "new.rb").stat().st_size == 0


@NEEDS_LANDLOCK
def test_an_empty_file_that_was_there_before_stays(room: Room) -> None:
    (room.root / "app/empty.rb").touch()
    assert room.shell("true", write=["app/empty.rb"]).code == 0
    assert (room.root / "app/empty.rb").exists()


# Scratch, devices, the list


@NEEDS_LANDLOCK
def test_the_scratch_folder_takes_everything_and_is_removed(room: Room) -> None:
    script = """
    set -e
    cd "$TMPDIR"; test "$TMP" = "$TMPDIR"; test "$TEMP" = "$TMPDIR"
    case $(mktemp) in "$TMPDIR"/*) ;; *) exit 8 ;; esac
    mkdir -p a/b; echo x >a/b/x; mv a/b/x y; ln y z; ln -s y s; mkfifo p; rm z; rmdir a/b
    sed -i s/x/new/ y; cat y; mkdir shut; echo x >shut/x; chmod 0 shut
    """
    answer = room.shell(script)
    assert (answer.code, answer.out) == (0, "new\n"), answer


@NEEDS_LANDLOCK
def test_only_the_command_s_own_part_of_the_scratch_folder_is_open(room: Room) -> None:
    answer = room.shell("cd $TMPDIR/.. && ls && (rm -f owner; rm -f socket; echo x >x); ls; ls tmp")
    assert answer.out.split() == ["owner", "socket", "tmp"] * 2


@NEEDS_LANDLOCK
def test_devices_that_store_nothing_are_open(room: Room) -> None:
    answer = room.shell("echo x >/dev/null && echo said >/dev/stdout && echo err >/dev/stderr")
    assert (answer.code, answer.out, answer.err) == (0, "said\n", "err\n")


@NEEDS_LANDLOCK
def test_output_that_the_caller_redirected_goes_there(room: Room) -> None:
    path = room.root / "said"
    with path.open("w") as file:
        words = room.line("--", "sh", "-c", "echo one; echo two >>/dev/stdout; echo no >said2")
        room.repo.hold(*words, env=room.env, stdout=file)
    assert path.read_text() == "one\ntwo\n"


@NEEDS_LANDLOCK
def test_a_terminal_is_open(room: Room) -> None:
    terminal = Terminal(room.repo, **room.env)
    try:
        line = "sh -c 'echo seen >/dev/tty; echo again >$(tty); exit 6'"
        terminal.type(f"{' '.join([*COMMAND, *room.line('--')])} {line}; echo code:$?\n")
        terminal.shows("code:6")
        assert b"seen\r\nagain\r\n" in terminal.screen
    finally:
        terminal.close()


@NEEDS_LANDLOCK
def test_what_the_settings_list_is_open(room: Room) -> None:
    (room.root / "build").mkdir()
    (room.root / "log.txt").touch()
    room.set("build", "log.txt", f"{room.root.parent}/cache/", "absent")
    answer = room.shell(
        "set -e; mkdir build/a; sed -n p app/x.rb >build/a/x; echo x >>log.txt; rm -r build/a;"
        "echo x >../cache/x; ! echo x >absent; ! rm log.txt; ! rmdir build"
    )
    assert answer.code == 0, answer
    assert (room.root.parent / "cache/x").read_text() == "x\n"
    assert "absent does not exist, so it stays closed" in answer.err


@NEEDS_LANDLOCK
@pytest.mark.parametrize("entry", [".", "/", "..", ".holdfast", ".holdfast/ledger.db", "app/.."])
def test_a_list_that_would_open_everything_or_the_ledger_is_refused(room: Room, entry: str) -> None:
    room.set(entry)
    words = room.line("--json", "--", "touch", "started")
    answer = room.repo.hold(*words, env=room.env)
    assert (answer.code, answer.error["code"]) == (1, "E_SANDBOX")
    assert "sandbox.write" in answer.error["message"]
    assert not (room.root / "started").exists()


@NEEDS_LANDLOCK
def test_settings_that_cannot_be_read_are_told_and_nothing_is_started(room: Room) -> None:
    (room.root / "holdfast.toml").write_text("[sandbox]\nwrite = 5\n")
    answer = room.shell("touch app/x.rb")
    assert answer.code == 2
    assert "write" in answer.err


# git


@NEEDS_LANDLOCK
@pytest.mark.parametrize("linked", [False, True])
def test_git_is_closed_unless_it_is_asked_for(room: Room, linked: bool) -> None:
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q"]
    room.plainly("git", "add", ".")
    room.plainly("git", *commit, "-m", "first")
    where = room.root
    if linked:
        where = room.root.parent / "linked"
        room.plainly("git", "worktree", "add", "-q", where)
    script = f"echo new >app/x.rb; git add app/x.rb && git {' '.join(commit)} -m second"
    words = room.line("--", "sh", "-c", script)
    answer = room.repo.hold(*words, env=room.env, cwd=where)
    assert answer.code != 0
    assert room.plainly("git", "-C", where, "log", "--format=%s").out == "first\n"
    answer = room.repo.hold(*words[:2], "--git", *words[2:], env=room.env, cwd=where)
    assert answer.code == 0, answer
    assert room.plainly("git", "-C", where, "log", "--format=%s").out == "second\nfirst\n"
    assert room.plainly("git", "-C", where, "status", "--short", "app").out == ""
    assert room.shell("echo new >app/y.rb", "--git").code != 0


@NEEDS_LANDLOCK
def test_git_without_a_repository_is_an_error(room: Room, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    answer = room.repo.hold(
        "run", "--sandbox", "--git", "--json", "--write", "x", "--", "true",
        cwd=tmp_path / "plain", env=room.env,
    )  # fmt: skip
    assert (answer.code, answer.error["code"]) == (1, "E_SANDBOX")
    assert os.listdir(tmp_path / "plain") == [".holdfast"], "created files are removed again"


# Kernels that cannot do this


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSYS, "this kernel has no Landlock"),
        (errno.EOPNOTSUPP, "switched off at boot"),
        (errno.EPERM, "forbids Landlock"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_without_landlock_it_is_refused_and_says_what_is_missing(
    room: Room, number: int, told: str
) -> None:
    command = [*COMMAND, *room.line("--json", "--", "touch", "started")]
    answer = room.plainly(*without_call(CREATE_RULESET, number, *command))
    assert (answer.code, answer.error["code"]) == (1, "E_SANDBOX")
    assert told in answer.error["message"]
    assert "--sandbox=best-effort" in answer.error["hint"]
    assert not (room.root / "started").exists()
    assert not (room.root / ".holdfast").exists(), "nothing was locked"


def test_with_best_effort_it_goes_on_without_and_says_so(room: Room) -> None:
    command = [*COMMAND, *room.line("--", "sh", "-c", "echo new >app/y.rb; exit 4")]
    command[command.index("--sandbox")] = "--sandbox=best-effort"
    answer = room.plainly(*without_call(CREATE_RULESET, errno.ENOSYS, *command))
    assert answer.code == 4
    assert answer.err.startswith("holdfast: the command runs without a sandbox: this kernel has no")
    assert room.text("app/y.rb") == "new\n"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("abi", [1, 2])
def test_an_older_landlock_is_refused_or_used_as_far_as_it_goes(room: Room, abi: int) -> None:
    script = "mkdir $TMPDIR/a; echo new >app/x.rb; echo new >app/y.rb; rm app/y.rb;"
    script += "echo x >$TMPDIR/x; truncate -s 0 lib/z.rb"
    command = [sys.executable, "-c", OLD_KERNEL, abi, *room.line("--", "sh", "-c", script)]
    answer = room.plainly(*command)
    assert answer.code == 1
    assert f"version {abi}" in answer.err
    assert "Linux 6.2" in answer.err
    command[command.index("--sandbox")] = "--sandbox=best-effort"
    answer = room.plainly(*command)
    assert "in an incomplete sandbox" in answer.err
    assert (room.text("app/x.rb"), room.text("app/y.rb")) == ("new\n", "old\n")


@NEEDS_LANDLOCK
def test_best_effort_is_the_whole_sandbox_where_the_kernel_can(room: Room) -> None:
    words = room.line("--", "sh", "-c", "echo new >app/y.rb")
    words[words.index("--sandbox")] = "--sandbox=best-effort"
    answer = room.repo.hold(*words, env=room.env)
    assert answer.code != 0
    assert "holdfast:" not in answer.err
    assert room.text("app/y.rb") == "old\n"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("number", [445, 446])
def test_a_kernel_that_refuses_half_way_starts_nothing(room: Room, number: int) -> None:
    command = [*COMMAND, *room.line("--json", "--", "touch", "app/x.rb", write=["app/new.rb"])]
    answer = room.plainly(*without_call(number, errno.EPERM, *command))
    assert (answer.code, answer.error["code"]) == (1, "E_SANDBOX")
    assert not (room.root / "app/new.rb").exists()


def test_invalid_sandbox_options_are_usage_errors(room: Room) -> None:
    for words in (["--sandbox=maybe"], ["--git"], ["--sandbox="]):
        answer = room.repo.hold("run", *words, "--json", "--write", "app/x.rb", "--", "true")
        assert (answer.code, answer.error["code"]) == (2, "E_USAGE"), words


# Signals


NEEDS_SCOPES = pytest.mark.skipif(
    landlock.support().abi < landlock.ABI_OF_SCOPES,
    reason="needs a Landlock that scopes signals (Linux 6.12)",
)
#: Signals a child of its own, then the runner above it.
SIGNALS = "sleep 600 & kill $! && wait $!; echo $? >app/x.rb; kill -0 $PPID && echo out >>app/x.rb"


@NEEDS_SCOPES
def test_a_signal_reaches_processes_inside_and_no_others(room: Room) -> None:
    room.shell(SIGNALS)
    assert room.text("app/x.rb") == "143\n", "its child was ended, and its runner not signalled"


@NEEDS_LANDLOCK
def test_where_the_kernel_cannot_keep_signals_inside_all_else_is_as_usual(room: Room) -> None:
    command = [sys.executable, "-c", OLD_KERNEL, 5, *room.line("--", "sh", "-c", SIGNALS)]
    answer = room.plainly(*command)
    assert answer.code == 0
    assert "holdfast:" not in answer.err
    assert room.text("app/x.rb") == "143\nout\n"


# Secrets


@NEEDS_LANDLOCK
def test_no_secret_and_no_store_of_ours_is_inherited(room: Room) -> None:
    (room.root / "show").write_text("env | sort >app/x.rb; cat </proc/$PPID/fd/1 && echo seen\n")
    given = {
        "HOLDFAST_SERVE_TOKEN": "open-sesame", "HOLDFAST_TREE_TOKEN": "main:1",
        "HOLDFAST_STORE": f"sqlite://{room.root}/.holdfast/ledger.db", "OPENAI_API_KEY": "a-key",
        **room.env,
    }  # fmt: skip
    answer = room.repo.hold(*room.line("--", "sh", "show"), env=given)
    found = dict(line.partition("=")[::2] for line in room.text("app/x.rb").splitlines())
    ours = sorted(name for name in found if name.startswith("HOLDFAST_"))
    assert ours == [
        "HOLDFAST_GRANT", "HOLDFAST_HOLDER", "HOLDFAST_OWNER", "HOLDFAST_SOCKET", "HOLDFAST_TOKEN",
    ]  # fmt: skip
    assert found["OPENAI_API_KEY"] == "a-key", "what is the user's stays"
    assert "seen" not in answer.out, "nor can the runner's open descriptors be used"
