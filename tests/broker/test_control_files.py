"""Control files below a broker: never handed out writable, and checked before a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers_broker import NEEDS_BROKER, Site, until
from holdfast.gate.broker.control.git_settings import danger

pytestmark = NEEDS_BROKER


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# Git's settings

_BEFORE = b'[core]\n\tbare = false\n[branch "main"]\n\tremote = origin\n'


@pytest.mark.parametrize(
    "more",
    [
        b"[core]\n\thooksPath = /tmp/evil\n", b"[core]\n\tfsmonitor = /tmp/evil\n",
        b"[core]\n\tsshCommand = evil\n", b"[core]\n\teditor = evil\n", b"[alias]\n\tx = !evil\n",
        b"[include]\n\tpath = /tmp/evil\n", b"[includeIf \"gitdir:/\"]\n\tpath = /tmp/evil\n",
        b"[filter \"x\"]\n\tsmudge = evil\n", b"[diff \"x\"]\n\ttextconv = evil\n",
        b"[diff]\n\texternal = evil\n", b"[merge \"x\"]\n\tdriver = evil\n",
        b"[credential]\n\thelper = !evil\n", b"[gpg]\n\tprogram = evil\n",
        b"[submodule \"x\"]\n\tupdate = !evil\n", b"[remote \"o\"]\n\tuploadpack = evil\n",
        b"[core]\n\tworktree = /elsewhere\n", b"[url \"ext::evil\"]\n\tinsteadOf = https://x\n",
        b"[pager]\n\tlog = evil\n", b"[hook \"x\"]\n\tcommand = evil\n", b"[core\n",
        b"[gc]\n\trecentObjectsHook = evil\n", b"[lfs \"customtransfer.x\"]\n\tpath = evil\n",
    ],
)  # fmt: skip
def test_settings_that_execute_something_are_refused(more: bytes) -> None:
    assert danger(_BEFORE, _BEFORE + more)


@pytest.mark.parametrize(
    "more",
    [
        b"[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n", b"[user]\n\tname = a\n",
        b"[remote \"o\"]\n\turl = https://x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n",
        b"[submodule \"x\"]\n\tactive = true\n\turl = https://x\n", b"[push]\n\tdefault = simple\n",
        b"[core]\n\tautocrlf = input\n", b"[git-town]\n\tmain = x\n", b"",
    ],
)  # fmt: skip
def test_settings_that_execute_nothing_pass(more: bytes) -> None:
    assert not danger(_BEFORE, _BEFORE + more)


def test_what_was_dangerous_before_may_stay_but_not_go() -> None:
    old = b"[core]\n\thooksPath = ours\n"
    assert not danger(old, old + b"[user]\n\tname = x\n")
    assert danger(old, b"[user]\n\tname = x\n")


@pytest.mark.parametrize("name", ["core.hooksPath", "core.fsmonitor", "alias.x", "include.path"])
def test_git_cannot_be_told_to_execute_something(site: Site, name: str) -> None:
    before = site.text(".git/config")
    done = site.lease(f"git config {name} '!evil'")
    assert done.returncode != 0
    assert site.text(".git/config") == before
    assert name.lower() in done.stderr


def test_git_s_settings_written_in_place_are_checked_too(site: Site) -> None:
    before = site.text(".git/config")
    done = site.lease("printf '[core]\\n\\thooksPath = /evil\\n' >>.git/config")
    assert "hookspath" in done.stderr
    assert site.text(".git/config") == before
    site.lease("printf '[user]\\n\\temail = new@b\\n' >>.git/config")
    until(lambda: site.text(".git/config") != before, "the change")
    assert site.text(".git/config") == before + "[user]\n\temail = new@b\n"


def test_a_file_that_was_renamed_over_settings_cannot_be_written_afterwards(site: Site) -> None:
    site.python(
        "import os\n"
        "text = open('.git/config').read()\n"
        "file = open('.git/config.lock', 'w')\n"
        "file.write(text); file.flush()\n"
        "os.rename('.git/config.lock', '.git/config')\n"
        "file.write('[core]\\n\\thooksPath = /evil\\n'); file.close()\n"
    )
    assert "evil" not in site.text(".git/config")


@pytest.mark.parametrize(
    "line",
    [
        "echo evil >.git/hooks/pre-commit", "cp a.txt .git/hooks/post-checkout",
        "ln -s ../../a.txt .git/hooks/pre-push", "ln a.txt .git/hooks/pre-rebase",
        "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
        "mkdir x; echo e >x/pre-commit; rm -r .git/hooks; mv x .git/hooks",
        "mv .git/hooks .git/old; ln -s /evil .git/hooks",
        "echo '{}' >.mcp.json", "mkdir .claude; echo '{\"hooks\":{}}' >.claude/settings.json",
        "mkdir c; echo '{\"hooks\":{}}' >c/settings.json; mv c .claude", "ln -s /tmp .claude",
        "mkdir -p .claude/hooks; echo x >.claude/hooks/x.sh", "echo x >holdfast.toml",
        "mkdir .husky; echo x >.husky/pre-commit", "echo x >.holdfast/x", "rm -r .holdfast",
        "mv .holdfast x", "rm .git/config", "mv .git x", "mkdir s; echo 'gitdir: /evil' >s/.git",
        "mkdir s; echo 'gitdir: /evil' >s/x; mv s/x s/.git",
    ],
)  # fmt: skip
def test_no_way_leads_into_a_control_file(site: Site, line: str) -> None:
    watched = (
        ".git/config", ".git/hooks", ".mcp.json", ".claude/settings.json", ".claude/hooks/x.sh",
        "holdfast.toml", ".husky/pre-commit", ".holdfast/x", "s/.git",
    )  # fmt: skip
    site.lease("true")

    def seen() -> dict[str, object]:
        found: dict[str, object] = {}
        for name in watched:
            path = site.root / name
            if path.is_dir() and not path.is_symlink():
                found[name] = sorted(
                    one.name for one in path.iterdir() if not one.name.endswith(".sample")
                )
            else:
                found[name] = path.read_bytes() if path.is_file() else path.is_symlink() or []
        return {**found, "ledger": (site.root / ".holdfast/ledger.db").is_file()}

    before = seen()
    site.lease(line)
    assert seen() == before


# What has to work


def test_git_push_u_works(site: Site) -> None:
    site.git("init", "-q", "--bare", f"{site.flags}/origin")
    site.git("remote", "add", "origin", f"{site.flags}/origin")
    done = site.lease("git push -qu origin HEAD")
    assert done.returncode == 0, done.stderr
    assert "remote = origin" in site.text(".git/config")


def test_git_worktree_add_works_inside_and_outside(site: Site) -> None:
    done = site.lease(
        "git worktree add -q inner && git worktree add -q ../outer && git -C inner log"
    )
    assert done.returncode == 0, done.stderr
    assert (site.root / "inner" / "a.txt").exists()
    assert len(site.git("worktree", "list").splitlines()) == 3


def test_git_submodule_add_works(site: Site, tmp_path: Path) -> None:
    other = Site(tmp_path / "second")
    done = site.lease(
        f"git -c protocol.file.allow=always submodule add -q {other.root} sub && git commit -qm sub"
    )
    assert done.returncode == 0, done.stderr
    assert (site.root / "sub" / "a.txt").exists()
    assert "sub" in site.git("submodule", "status")


def test_git_init_inside_detects_the_same_as_without_holdfast(site: Site) -> None:
    site.lease("git init -q one")
    site.git("init", "-q", "two")
    assert site.text("one/.git/config") == site.text("two/.git/config")


def test_a_client_s_settings_may_be_rewritten_with_the_same_meaning(site: Site) -> None:
    (site.root / ".claude").mkdir()
    settings = site.root / ".claude" / "settings.json"
    settings.write_text('{"model": "x"}')
    text = json.dumps({"model": "x"}, indent=2)
    done = site.lease(f"echo '{text}' >.claude/new && mv .claude/new .claude/settings.json")
    assert done.returncode == 0, done.stderr
    assert json.loads(settings.read_text()) == {"model": "x"}
    assert settings.read_text() != '{"model": "x"}'


def test_settings_that_another_holds_are_not_written_in_place(site: Site) -> None:
    (site.root / ".claude").mkdir()
    settings = site.root / ".claude" / "settings.json"
    settings.write_text('{"model": "x"}')
    site.holdfast("lock", "--holder", "other", ".claude/settings.json")
    done = site.lease("""echo '{"model":   "x"}' >.claude/settings.json""")
    assert done.returncode != 0
    assert settings.read_text() == '{"model": "x"}'


def test_a_staged_copy_is_not_published_through_a_link(site: Site) -> None:
    before = site.text(".git/config")
    done = site.lease(
        "mkdir -p n; git init -q n; exec 3>>n/.git/config; mv n gone; ln -s . n; "
        "printf '[user]\\n\\tname = evil\\n' >&3; exec 3>&-"
    )
    assert site.text(".git/config") == before, done.stderr


def test_a_client_s_hook_inside_answers_for_the_broker(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    line = (
        "import json, subprocess, sys\n"
        "def ask(name):\n"
        "    event = {'hook_event_name': 'PreToolUse', 'session_id': 's', 'cwd': sys.argv[1],"
        " 'tool_name': 'Write', 'tool_input': {'file_path': sys.argv[1] + '/' + name,"
        " 'content': 'x'}, 'transcript_path': '', 'permission_mode': 'default'}\n"
        "    done = subprocess.run([sys.executable, '-m', 'holdfast', 'hook', 'claude'],"
        " input=json.dumps(event), text=True, capture_output=True)\n"
        "    print(name, done.returncode, 'other' in done.stdout + done.stderr)\n"
        "ask('a.txt'); ask('b.txt')\n"
    )
    script = site.flags / "ask.py"
    script.write_text(line)
    import sys

    done = site.lease(f"{sys.executable} {script} {site.root}")
    held, free = (one.split() for one in done.stdout.splitlines())
    assert held[2] == "True", done.stdout
    assert free == ["b.txt", "0", "False"]
