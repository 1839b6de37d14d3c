"""Undoing and checking what `holdfast init` wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_cli import Terminal
from helpers_init import (
    BOTH,
    STUB,
    THEIRS,
    Installation,
    commands,
    drifted,
    git,
    tree,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


# Undoing


def test_undo_restores_every_byte(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    here.claude.chmod(0o600)
    before = tree(here.root)
    here.init(*BOTH)
    assert tree(here.root) != before
    answer = here.undo()
    assert "removed .codex/hooks.json" in answer.out
    assert tree(here.root) == before
    assert not here.codex.parent.exists()
    assert not (here.root / ".holdfast/init.json").exists()
    assert here.undo().out == "nothing to do: Holdfast has no hooks here\n"


def test_undo_after_several_runs_restores_what_was_before_the_first(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    before = tree(here.root)
    here.init(*BOTH)
    (here.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 60\n")
    here.init(*BOTH)
    (here.root / "holdfast.toml").unlink()
    here.undo()
    assert tree(here.root) == before


def test_undo_takes_only_our_hooks_from_what_others_have_changed_since(
    here: Installation,
) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    here.init(*BOTH)
    data = json.loads(here.claude.read_text())
    data["permissions"]["allow"].append("Bash(make:*)")
    data["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    here.claude.write_text(json.dumps(data, indent=2) + "\n")
    data = json.loads(here.codex.read_text())
    here.codex.write_text(json.dumps({"description": "mine", **data}))
    here.exclude.write_text(here.exclude.read_text() + "/notes\n")
    here.undo()
    expected = json.loads(THEIRS)
    expected["permissions"]["allow"].append("Bash(make:*)")
    expected["hooks"]["Stop"] = [{"hooks": [{"type": "command", "command": "say done"}]}]
    assert json.loads(here.claude.read_text()) == expected
    assert json.loads(here.codex.read_text()) == {"description": "mine"}
    assert here.exclude.read_text().endswith("*~\n/notes\n")


def test_undo_after_a_change_and_another_init_keeps_the_change(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text('{\n  "a": 1\n}\n')
    here.init("--client", "claude")
    here.claude.write_text(here.claude.read_text().replace('"a": 1', '"a": 2'))
    (here.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 60\n")
    here.init("--client", "claude")
    here.undo()
    assert here.claude.read_text() == '{\n  "a": 2\n}\n'


def test_undo_without_a_record_knows_our_hooks_by_their_command(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    here.init(*BOTH)
    (here.root / ".holdfast/init.json").unlink()
    here.undo()
    assert here.claude.read_text() == THEIRS
    assert not here.codex.exists()


def test_undo_of_one_client_leaves_the_other(here: Installation) -> None:
    here.init(*BOTH)
    here.undo("--client", "codex")
    assert not here.codex.exists()
    assert commands(here.claude)
    assert "/.claude/settings.local.json" in here.exclude.read_text()
    assert here.hold("init", "--check").code == 0


def test_undo_is_not_stopped_by_what_others_wrote_badly(here: Installation) -> None:
    here.init("--client", "claude")
    shared = here.root / ".claude/settings.json"
    shared.write_text("{ // theirs\n}")
    here.undo()
    assert shared.read_text() == "{ // theirs\n}"
    assert not here.claude.exists()


def test_undo_refuses_a_file_that_it_cannot_understand(here: Installation) -> None:
    here.init("--client", "claude")
    broken = here.claude.read_text() + "// mine\n"
    here.claude.write_text(broken)
    answer = here.by_a_person("init", "--undo")
    assert answer.code == 1
    assert ".claude/settings.local.json, line" in answer.err
    assert here.claude.read_text() == broken


def test_an_agent_may_not_undo_but_may_look(here: Installation) -> None:
    here.init("--client", "claude")
    before = tree(here.root)
    for env in ({"CLAUDE_CODE_SESSION_ID": "5e551011"}, {"HOLDFAST_GRANT": "g"}):
        answer = here.hold("init", "--undo", env=env)
        assert answer.code == 2
        assert "only a person may remove the hooks" in answer.err
        assert here.hold("init", "--undo", "--dry-run", env=env).code == 0
    assert tree(here.root) == before


# Checking


def test_check_is_content_with_what_init_wrote(here: Installation) -> None:
    here.init(*BOTH)
    answer = here.hold("init", "--check")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "all hooks are in place: Claude Code, Codex\n"
    assert here.hold("init", "--check", "--json").json["ok"] is True


def test_check_where_nothing_is_installed_fails(here: Installation) -> None:
    assert drifted(here) == "init: no hooks are installed here\n"
    here.init("--client", "claude")
    assert drifted(here, "--client", "codex") == (
        "codex: there is no .codex/hooks.json: Codex has no hooks\n"
    )


def test_check_finds_a_missing_hook_and_init_puts_it_back(here: Installation) -> None:
    here.init("--client", "claude")
    data = json.loads(here.claude.read_text())
    del data["hooks"]["Stop"]
    here.claude.write_text(json.dumps(data))
    assert drifted(here) == "claude: the hook for Stop is missing\n"
    here.init("--client", "claude")
    assert here.hold("init", "--check").code == 0


def test_check_finds_a_changed_timeout_on_either_side(here: Installation) -> None:
    here.init("--client", "claude")
    here.claude.write_text(here.claude.read_text().replace("240", "10", 1))
    assert "has timeout = 10, not 240" in drifted(here)
    here.init("--client", "claude")
    (here.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 60\n")
    assert "has timeout = 240, not 60" in drifted(here)


def test_check_finds_that_the_python_is_gone(here: Installation, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    words = [str(python), "-m", "holdfast", "init", "--client", "claude"]
    subprocess.run(words, cwd=here.root, env={**os.environ, **here.env}, check=True)
    assert all(str(python) in one["command"] for [one] in commands(here.claude).values())
    python.unlink()
    assert f"the Python of the hooks is gone, so every edit is refused: {python}" in drifted(here)


def test_check_finds_that_the_script_is_gone_or_broken(here: Installation, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Installation(tmp_path / "other")
    here.init("--client", "claude", env={"PYTHONPATH": str(other.site)})
    assert "runs another command" in drifted(here)
    other.script.unlink()
    assert f"is gone, so every edit is refused: {other.script}" in drifted(here)
    here.init("--client", "claude")
    here.script.write_text("raise SystemExit(3)")
    assert "the hook's command does not work: it ended with 3" in drifted(here)
    here.script.write_text(STUB)
    assert here.hold("init", "--check").code == 0


def test_check_finds_that_another_version_wrote_them(here: Installation) -> None:
    here.init("--client", "claude")
    source = here.package / "__init__.py"
    text = source.read_text()
    assert "__version__ = " in text
    [line] = [line for line in text.splitlines() if line.startswith("__version__ = ")]
    source.write_text(text.replace(line, '__version__ = "99.0"'))
    assert "this is 99.0" in drifted(here)
    here.init("--client", "claude")
    assert here.hold("init", "--check").code == 0


def test_check_finds_a_file_that_the_client_passes_over(here: Installation) -> None:
    here.init("--client", "claude")
    here.claude.write_text("// mine\n" + here.claude.read_text())
    assert "line 1: it has comments; Claude Code ignores the whole file" in drifted(here)
    here.claude.unlink()
    assert "there is no .claude/settings.local.json" in drifted(here)


def test_check_finds_hooks_of_another_holdfast_in_the_shared_settings(here: Installation) -> None:
    here.init("--client", "claude")
    shared = here.root / ".claude/settings.json"
    shared.write_text(here.claude.read_text())
    assert here.hold("init", "--check").code == 0  # a hook that is listed twice is run once
    shared.write_text(shared.read_text().replace(str(here.site), "/elsewhere"))
    assert ".claude/settings.json has hooks of another Holdfast" in drifted(here)
    here.undo()
    assert json.loads(shared.read_text()) == {}


def test_check_tells_wrong_settings(here: Installation) -> None:
    here.init("--client", "claude")
    (here.root / "holdfast.toml").write_text("[gate]\nshell = 'gard'\n")
    assert "settings: holdfast.toml, line 2: gate.shell cannot be 'gard'" in drifted(here)


# Linked worktrees


def test_in_a_linked_worktree_everything_comes_back_too(here: Installation, tmp_path: Path) -> None:
    git(here, "add", "-A")
    git(here, "commit", "--quiet", "-m", "first")
    git(here, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    before = tree(tmp_path / "tree"), here.exclude.read_bytes()
    answer = here.hold("init", *BOTH, cwd=tmp_path / "tree")
    assert answer.code == 0
    assert commands(tmp_path / "tree/.codex/hooks.json")
    assert commands(here.claude)  # which Claude Code reads there, too
    seen = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "tree", check=True, capture_output=True
    )
    assert seen.stdout == b""
    terminal = Terminal(here.repository, **here.env)
    try:
        assert terminal.hold("-C", str(tmp_path / "tree"), "init", "--undo").code == 0
    finally:
        terminal.close()
    assert not here.claude.exists()
    assert (tree(tmp_path / "tree"), here.exclude.read_bytes()) == before
