"""Programs below `run --lease` that try to change what controls git or a client."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_siege import X86_64, Siege

pytestmark = [LINUX_ONLY, NEEDS_LANDLOCK, X86_64]

PYTHON = f"{sys.executable} -c"
#: Creates a file without a name, and gives it one.
NAMELESS = (
    "import ctypes, os; fd = os.open('.', os.O_TMPFILE | os.O_WRONLY); "
    "name = lambda: ctypes.CDLL(None).linkat(-100, b'/proc/self/fd/%d' % fd, -100, b'.mcp.json', "
    "0x400)"
)
#: The paths that are checked afterwards. A folder includes all files in it.
CONTROLS = [
    ".claude", ".mcp.json", ".codex", ".husky", "holdfast.toml", ".git/config", ".git/hooks",
    ".git/commondir", ".git/config.worktree", "nested/.git/hooks", "nested/.git/config",
    "nested/.claude", "team.cfg",
]  # fmt: skip

#: Each of these writes `evil` into a control file, or removes one.
ATTACKS = {
    "in place": "echo evil >.claude/settings.json",
    "appended": "echo evil >>.claude/settings.json",
    "emptied": ": >.claude/settings.json",
    "truncated": "truncate -s 1 .claude/settings.json",
    "removed": "rm -f .claude/settings.json",
    "renamed over": "mv -f evil.json .claude/settings.json",
    "renamed away": "mv .claude/settings.json gone.json",
    "exchanged": "mv --exchange evil.json .claude/settings.json || "
    f"{PYTHON} \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'evil.json', -100, "
    "b'.claude/settings.json', 2)\"",
    "linked over": "ln -f evil.json .claude/settings.json",
    "symlinked over": "ln -sf ../evil.json .claude/settings.json",
    "through a link": "ln -s settings.json .claude/link && echo evil >.claude/link",
    "through a link to its folder": "ln -s .claude link && echo evil >link/settings.json",
    "through another name": "ln .claude/settings.json name && echo evil >name",
    "through what is open": f"{PYTHON} \"import os; fd = os.open('.claude/settings.json', 0); "
    "open(f'/proc/self/fd/{fd}', 'w').write('evil')\"",
    "its folder replaced": "mv .claude gone && mv x .claude",
    "its folder replaced by a link": "mv .claude gone && ln -s x .claude",
    "its folder exchanged": f"{PYTHON} \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'x', "
    "-100, b'.claude', 2)\"",
    "its folder merged": "mv x/settings.json .claude/settings.local.json",
    "a folder that becomes one": "mkdir -p y/hooks && echo evil >y/hooks/h && mv y .codex",
    "a folder above": "mkdir -p z/.claude && echo evil >z/.claude/settings.json && mv z nested",
    "a new one": "echo evil >.mcp.json",
    "a new one by a rename": "mv evil.json .mcp.json",
    "a new one by a link": "ln evil.json .mcp.json",
    "a new one by a symlink": "ln -s evil.json .mcp.json",
    "a new one without a name first": f"{PYTHON} \"{NAMELESS}; os.write(fd, b'evil'); name()\"",
    "a new one by a symlink to nothing": "ln -s .mcp.json link && echo evil >link",
    "deep below": "mkdir -p nested/.claude && echo evil >nested/.claude/settings.json",
    "kept open over a rename": "exec 5>t && mv t .mcp.json && echo evil >&5",
    "kept open over a link": "exec 5>t && ln t .mcp.json && echo evil >&5",
    "kept open over the rename of a folder": "mkdir y && exec 5>y/config.toml && mv y .codex && "
    "echo evil >&5",
    "kept open over the rename of settings": "cp .claude/settings.json t && exec 5<>t && "
    "mv -f t .claude/settings.json; echo evil >&5",
    "kept mapped": f"{PYTHON} \"import mmap, os; f = open('t', 'w+b'); f.write(b'good'); "
    "f.flush(); m = mmap.mmap(f.fileno(), 4); f.close(); os.rename('t', '.mcp.json'); "
    "m[:] = b'evil'\"",
    "kept without a name": f"{PYTHON} \"{NAMELESS}; name(); os.write(fd, b'evil')\"",
    "of holdfast": "echo evil >holdfast.toml",
    "a hook": "echo evil >.git/hooks/pre-commit",
    "a hook by a rename": "mv evil.json .git/hooks/pre-commit",
    "a hook from a sample": "cp .git/hooks/sleeping .git/hooks/pre-commit",
    "beside a hook": "echo evil >.git/hooks/pre-commit.legacy",
    "below the hooks": "mkdir .git/hooks/pre-commit.d && echo evil >.git/hooks/pre-commit.d/10",
    "a hook that was not executable": "chmod +x .git/hooks/post-commit",
    "a hook that is no more executable": "chmod -x .git/hooks/pre-push",
    "a hook removed": "rm -f .git/hooks/pre-push",
    "all hooks replaced": "mv .git/hooks .git/h && mkdir .git/hooks && echo evil "
    ">.git/hooks/pre-commit",
    "all hooks by a link": "mv .git/hooks .git/h && ln -s ../x .git/hooks",
    "the path of the hooks": "git config core.hooksPath evil",
    "a monitor": "git config core.fsmonitor ./evil.json",
    "an alias": "git config alias.x '!evil'",
    "an include": "git config include.path ../evil.json",
    "a pager": "git config core.pager evil",
    "settings in place": "printf '[core]\\n\\tfsmonitor = evil\\n' >>.git/config",
    "settings by a rename": "cp .git/config t && printf '[core]\\n\\tfsmonitor = evil\\n' >>t && "
    "mv t .git/config",
    "settings kept open": "cp .git/config .git/config.lock && exec 5>>.git/config.lock && "
    "mv .git/config.lock .git/config && printf '[core]\\n\\tfsmonitor = evil\\n' >&5",
    "settings of the worktree": "git config extensions.worktreeConfig true && "
    "printf '[core]\\n\\tfsmonitor = evil\\n' >.git/config.worktree",
    "settings that are elsewhere": "mkdir g && cp -r .git/. g && printf "
    "'[core]\\n\\tfsmonitor = evil\\n' >>g/config && echo ../g >.git/commondir",
    "git replaced": "mv .git g && cp -r g .git && echo evil >.git/hooks/pre-commit",
    "git replaced by a file": "mv .git g && echo 'gitdir: g' >.git",
    "a repository inside": "git init -q nested && echo evil >nested/.git/hooks/pre-commit",
    "settings that are included": "printf '[core]\\n\\tfsmonitor = evil\\n' >>team.cfg",
}


def made() -> Siege:
    siege = Siege()
    (siege.root / ".claude").mkdir()
    (siege.root / ".claude/settings.json").write_text("{}\n")
    (siege.root / "x").mkdir()
    (siege.root / "x/settings.json").write_text('{"evil": 1}\n')
    (siege.root / "evil.json").write_text('{"evil": 1}\n')
    (siege.root / "team.cfg").write_text("[user]\n\tname = a\n")
    subprocess.run(["git", "config", "include.path", "../team.cfg"], cwd=siege.root, check=True)
    for name, mode in (("sleeping", 0o644), ("post-commit", 0o644), ("pre-push", 0o755)):
        hook = siege.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\n")
        hook.chmod(mode)
    return siege


Picture = dict[str, tuple[bool, int, bool]]


def pictures(root: Path) -> Picture:
    """What the next client and the next git command would read."""
    found: Picture = {}
    for control in CONTROLS:
        top = root / control
        files = [top] if not top.is_dir() else [path for path in top.rglob("*") if path.is_file()]
        for file in files:
            if os.path.exists(file) and not file.name.endswith(".sample"):
                name = str(file.relative_to(root))
                mode = stat.S_IMODE(file.stat().st_mode) & 0o111
                # Harmless changes are permitted: only smuggled or missing content counts.
                found[name] = (b"evil" in file.read_bytes(), mode, file.stat().st_size > 1)
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_what_controls_others_stays_what_it_is(name: str) -> None:
    siege = made()
    try:
        before = pictures(siege.root)
        answer = siege.shell(f"{ATTACKS[name]}; echo free >free.txt && echo served")
        after = pictures(siege.root)
        new = {path: found for path, found in after.items() if path not in before}
        assert {path: after.get(path) for path in before} == before, answer
        assert not any(is_evil for is_evil, _mode, _filled in new.values()), (new, answer)
        assert (siege.root / ".git").is_dir()
        assert not (siege.root / ".git/commondir").exists()
        siege.stands()
        assert answer.out.endswith("served\n"), answer
    finally:
        siege.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_changes_it_without_leases(name: str) -> None:
    # Else the test above would prove nothing.
    siege = made()
    try:
        before = pictures(siege.root)
        siege.plainly("sh", "-c", ATTACKS[name])
        assert pictures(siege.root) != before or not (siege.root / ".git").is_dir()
    finally:
        siege.close()
