"""holdfast init with real files, real git and real commands."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_init import (
    BOTH,
    SOURCE,
    THEIR_HOOK,
    THEIRS,
    Installation,
    Site,
    commands,
    git,
    tree,
)
from holdfast.gate.clients import adapter, codex
from holdfast.gate.config.settings import Settings
from holdfast.gate.install import hook_entries
from holdfast.gate.install import install_plan as plans
from holdfast.gate.install.hook_command import (
    Command,
    InstallError,
    interpreter,
    is_shim,
)
from holdfast.gate.install.installed_clients import CLIENTS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path, stub_site: Site) -> Installation:
    return Installation(tmp_path, stub_site)


@pytest.fixture
def own(tmp_path: Path) -> Installation:
    """An installation whose package a test may change."""
    return Installation(tmp_path)


# Installation


def test_every_event_of_every_client_gets_the_absolute_command(here: Installation) -> None:
    here.init(*BOTH)
    for name, file in (("claude", here.claude), ("codex", here.codex)):
        module = adapter(name)
        assert module is not None
        data = json.loads(file.read_text())["hooks"]
        assert data.keys() == module.EVENTS.keys()
        for event, matcher in module.EVENTS.items():
            [group] = data[event]
            assert group.get("matcher") == matcher
            timeout = module.TIMEOUT_SECONDS_MAX.get(event, 240)
            words = here.words(name)
            handler = {"type": "command", "command": shlex.join(words), "timeout": timeout}
            if name == "claude":
                handler |= {"command": words[0], "args": words[1:]}
            if event in ("PreToolUse", "Stop", "SubagentStop"):  # hooks that may be held open
                assert timeout == 240
                handler["statusMessage"] = "holdfast: waiting for a file"
            [found] = group["hooks"]
            if event == "PreToolUse":  # refuses if it fails, and shows the remedy
                assert "runs holdfast init here" in json.dumps(found)
                if name == "claude":
                    handler |= {"args": [*words[1:], found["args"][-1]], "onFailure": "block"}
                else:
                    handler["command"] += found["command"].removeprefix(handler["command"])
            assert found == handler


def test_the_written_commands_run_from_anywhere(here: Installation, tmp_path: Path) -> None:
    here.init(*BOTH)
    for file in (here.claude, here.codex):
        for [handler] in commands(file).values():
            done = subprocess.run(
                hook_entries.started(handler), input="{}", text=True, cwd="/",
                env={}, capture_output=True, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")


def test_a_place_with_blanks_and_quotes_is_quoted(tmp_path: Path) -> None:
    here = Installation(tmp_path, site="it's my site")
    here.init("--client", "claude")
    [[handler], *_] = commands(here.claude).values()
    assert hook_entries.script_of(handler) == str(here.script)
    assert here.hold("init", "--check").code == 0


def test_one_number_gives_the_clients_timeout_and_the_hooks_deadline(here: Installation) -> None:
    (here.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 60\n")
    answer = here.init(*BOTH, "--json").json
    assert (answer["timeout_seconds"], answer["deadline_seconds"]) == (60, 50)
    assert {handler["timeout"] for [handler] in commands(here.claude).values()} == {60}
    # Codex accepts no longer timeout there, and reports one at the start of each session
    for event, [handler] in commands(here.codex).items():
        assert handler["timeout"] == (3 if event in ("SessionEnd", "Interrupt") else 60)


def test_what_is_there_stays_to_the_byte_around_what_is_added(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    answer = here.init("--client", "claude", "--diff")
    new = here.claude.read_text()
    begin, end = THEIRS.split(THEIR_HOOK)
    assert new.startswith(begin + THEIR_HOOK)
    prefix = json.loads(new)["env"]["CLAUDE_CODE_SHELL_PREFIX"]
    added = f',\n\t"env": {{\n\t\t"CLAUDE_CODE_SHELL_PREFIX": "{prefix}"\n\t}}'
    assert new.replace(added, "").endswith(end)
    removed = [line for line in answer.out.splitlines() if line[:1] == "-" and line[:3] != "---"]
    assert removed == [f"-\t\t\t{THEIR_HOOK}", '-\t"unknown": 1.50'], "each gets only a comma"
    assert f"+\t\t\t{THEIR_HOOK}," in answer.out


def test_it_prints_what_was_written_what_to_do_and_how_to_undo(here: Installation) -> None:
    answer = here.init("--client", "claude,codex", "--git")
    assert answer.out.splitlines()[-4:] == [
        "wrote .claude/settings.local.json (the hooks of Claude Code)",
        "wrote .codex/hooks.json (the hooks of Codex)",
        "changed .git/info/exclude (keeps git from listing these files)",
        "wrote .git/hooks/pre-commit and 6 more (the hooks of git)",
    ]
    steps = answer.err.splitlines()
    assert steps[0].startswith("  -> backup of what changed: .holdfast/backup/")
    assert (here.root / steps[0].rpartition(" ")[2] / ".git/info/exclude").is_file()
    assert steps[1:] == [
        "  -> restart agents that are running: they read their hooks when they start",
        f"  -> Codex: {codex.TO_DO}",
        "  -> check the hooks: holdfast init --check; undo: holdfast init --undo",
    ]
    dry = here.hold("init", "--undo", "--dry-run", "--diff")
    assert "post-checkout" in dry.out, "the diff names every hook"


def test_a_dry_run_says_that_nothing_was_written(here: Installation) -> None:
    assert here.init(*BOTH, "--dry-run").err == (
        "  -> nothing was written; --diff shows every line\n"
    )
    assert here.init(*BOTH, "--dry-run", "--diff").err == "  -> nothing was written\n"


def test_the_second_time_there_is_nothing_to_do(here: Installation) -> None:
    here.init(*BOTH)
    before, times = tree(here.root), here.claude.stat().st_mtime_ns
    answer = here.init(*BOTH)
    assert answer.out == "nothing to do: all hooks are in place\n"
    assert answer.err == ""
    assert here.init(*BOTH, "--json").json["changed"] is False
    assert tree(here.root) == before
    assert here.claude.stat().st_mtime_ns == times


def test_a_dry_run_shows_everything_and_writes_nothing(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    before = tree(here.root)
    answer = here.init(*BOTH, "--dry-run", "--diff")
    assert "--- a/.claude/settings.local.json" in answer.out
    assert "+++ b/.codex/hooks.json" in answer.out
    assert "would change .claude/settings.local.json" in answer.out
    assert tree(here.root) == before
    assert not (here.root / ".holdfast").exists()
    assert here.init(*BOTH, "--diff").out.startswith(answer.out[: answer.out.index("would ")])


def test_the_diff_can_be_applied(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    documents = here.init(*BOTH, "--dry-run", "--json").json["files"]
    for one in documents:
        if one["client"] != "exclude":
            subprocess.run(
                ["git", "apply", "-"], input=one["diff"], text=True, cwd=here.root, check=True
            )
    found = here.claude.read_bytes(), here.codex.read_bytes()
    assert here.init(*BOTH, "--diff").out.count("@@") == 2  # only git's list of ignored files
    assert (here.claude.read_bytes(), here.codex.read_bytes()) == found


def test_the_old_file_is_kept_in_a_backup(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text(THEIRS)
    files = here.init("--client", "claude", "--json").json["files"]
    [claude] = [one for one in files if one["client"] == "claude"]
    assert Path(claude["backup"]).read_text() == THEIRS
    assert Path(claude["backup"]).is_relative_to(here.root / ".holdfast/backup")


def test_mode_and_links_of_a_file_stay(here: Installation, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o640)
    here.claude.parent.mkdir()
    here.claude.symlink_to(real)
    here.init("--client", "claude")
    assert here.claude.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert commands(real)
    here.undo()
    assert here.claude.is_symlink()
    assert real.read_text() == "{}\n"
    assert not list(tmp_path.glob("*.holdfast-*"))


def test_a_mark_of_the_byte_order_stays(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    here.init("--client", "claude")
    assert here.claude.read_bytes().startswith(b'\xef\xbb\xbf{"a": 1, "hooks"')
    assert here.hold("init", "--check").code == 0
    here.undo()
    assert here.claude.read_bytes() == b'\xef\xbb\xbf{"a": 1}'


def test_hooks_of_another_installation_are_taken_over(here: Installation, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Installation(tmp_path / "other")
    here.init("--client", "claude")
    answer = here.hold("init", "--client", "claude", env={"PYTHONPATH": str(other.site)})
    assert answer.code == 0
    for [handler] in commands(here.claude).values():
        assert hook_entries.script_of(handler) == str(other.script)
    here.undo()
    assert not here.claude.exists()


# Choice of clients


def test_clients_are_found_by_their_folders_their_programs_and_their_homes(
    here: Installation,
) -> None:
    (here.root / ".claude").mkdir()
    assert here.init("--dry-run", "--json").json["found"] == [
        {"client": "claude", "why": ".claude is here"}
    ]
    codex = here.program("codex")
    assert here.init("--dry-run", "--json").json["found"][1] == {
        "client": "codex",
        "why": f"{codex} is installed",
    }
    codex.unlink()
    (here.home / ".codex").mkdir()
    assert here.init("--dry-run", "--json").json["found"][1] == {
        "client": "codex",
        "why": f"{here.home}/.codex is there",
    }


def test_only_named_clients_get_hooks(here: Installation) -> None:
    (here.root / ".claude").mkdir()
    here.init("--client", "codex")
    assert not here.claude.exists()
    assert commands(here.codex)


def test_without_any_client_one_must_be_named(here: Installation) -> None:
    answer = here.hold("init", "--no-git")
    assert answer.code == 2
    assert "no client was found" in answer.err
    assert "--client claude,codex" in answer.err


def test_an_unknown_client_is_refused(here: Installation) -> None:
    answer = here.hold("init", "--client", "claude,cladue")
    assert answer.code == 2
    assert "there is no client 'cladue'" in answer.err
    assert not here.claude.exists()


@pytest.mark.parametrize(
    "words", [("--check", "--undo"), ("--check", "--dry-run"), ("--git", "--no-git")]
)
def test_what_does_not_go_together_is_refused(here: Installation, words: tuple[str, str]) -> None:
    assert here.hold("init", *words).code == 2


def test_a_home_folder_is_no_repository(here: Installation) -> None:
    answer = here.hold("init", "--client", "claude", cwd=here.home)
    assert answer.code == 2
    assert "is not a repository" in answer.err
    assert list(here.home.iterdir()) == []


def test_from_a_subfolder_the_whole_repository_is_guarded(here: Installation) -> None:
    here.init("--client", "claude", cwd=here.root / "app")
    assert commands(here.claude)
    assert not (here.root / "app/.claude").exists()


# Instructions for the person


def test_codex_must_be_told_to_trust_the_hooks(here: Installation) -> None:
    answer = here.init(*BOTH)
    assert "/hooks" in answer.err
    assert "restart agents that are running" in answer.err
    assert "/hooks" not in here.init("--client", "claude").err


def test_git_does_not_see_what_is_true_for_this_machine_only(here: Installation) -> None:
    here.init(*BOTH)
    seen = git(here, "status", "--porcelain", "--untracked-files=all")
    assert "app/x.rb" in seen
    for name in (".claude", ".codex", ".holdfast"):
        assert name not in seen


def test_what_git_ignores_already_is_not_listed_again(here: Installation) -> None:
    (here.root / ".gitignore").write_text(".claude/settings.local.json\n")
    before = here.exclude.read_text()
    here.init("--client", "claude")
    assert here.exclude.read_text() == before


def test_a_file_that_is_in_git_is_not_to_be_committed(here: Installation) -> None:
    here.codex.parent.mkdir()
    here.codex.write_text('{"hooks": {}}\n')
    git(here, "add", "-A")
    answer = here.init("--client", "codex")
    assert "git tracks .codex/hooks.json" in answer.err


@pytest.mark.parametrize(
    ("file", "text", "client", "told"),
    [
        (".claude/settings.json", '{"disableAllHooks": true}', "claude", "disableAllHooks"),
        (".codex/config.toml", "[features]\nhooks = false\n", "codex", "features.hooks"),
    ],
)
def test_what_switches_all_hooks_off_is_told(
    here: Installation, file: str, text: str, client: str, told: str
) -> None:
    (here.root / file).parent.mkdir()
    (here.root / file).write_text(text)
    assert f"{file} disables all hooks" in here.init("--client", client).err
    answer = here.hold("init", "--check")
    assert answer.code == 1
    assert told in answer.out


# Refusals that write nothing


@pytest.mark.parametrize(
    "text",
    ["{ // mine\n}", '{"a": 1,}', "{", "[]", '{"hooks": 3}', "\xff"],
)
def test_settings_that_are_not_plain_json_are_refused_and_nothing_is_written(
    here: Installation, text: str
) -> None:
    here.codex.parent.mkdir()
    here.codex.write_bytes(text.encode("latin-1"))
    before = tree(here.root)
    answer = here.hold("init", *BOTH)
    assert answer.code == 1
    assert ".codex/hooks.json" in answer.err
    assert "nothing was written" in answer.err
    assert tree(here.root) == before
    assert here.hold("init", *BOTH, "--json").error["code"] == "E_INSTALL"


def test_settings_that_cannot_be_meant_are_refused_first(here: Installation) -> None:
    (here.root / "holdfast.toml").write_text("[gate]\ntimeout_second = 60\n")
    before = tree(here.root)
    answer = here.hold("init", *BOTH)
    assert answer.code == 2
    assert "holdfast.toml, line 2" in answer.err
    assert tree(here.root) == before


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("raise SystemExit(1)", "ended with 1"),
        ("import no_such_module", "no_such_module"),
        ("print('hello')", "its output is not valid"),
        ("import time; time.sleep(60)", "did not answer within 5 s"),
        (None, "is incomplete"),
    ],
)
def test_a_command_that_does_not_work_is_never_written(
    own: Installation, script: str | None, told: str
) -> None:
    (own.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 15\n")
    if script is None:
        own.script.unlink()
    else:
        own.script.write_text(script)
    before = tree(own.root)
    answer = own.hold("init", *BOTH)
    assert answer.code == 1
    assert told in answer.err
    assert tree(own.root) == before
    assert not (own.root / ".holdfast").exists()


def test_a_folder_that_cannot_be_made_leaves_everything_as_it_was(here: Installation) -> None:
    here.codex.parent.write_text("a file where a folder should be")
    before = tree(here.root)
    answer = here.hold("init", *BOTH)
    assert answer.code == 1
    assert ".codex/hooks.json cannot be read" in answer.err
    assert tree(here.root) == before


def test_a_dangling_link_is_refused(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.symlink_to("/nowhere/settings.json")
    answer = here.hold("init", "--client", "claude")
    assert answer.code == 1
    assert "a link to a missing file" in answer.err


def planned(here: Installation) -> plans.Plan:
    (here.root / ".holdfast").mkdir()
    command = Command(sys.executable, str(here.script))
    return plans.install(str(here.root), CLIENTS, command, Settings())


def test_what_somebody_writes_meanwhile_is_not_overwritten(here: Installation) -> None:
    plan = planned(here)
    here.codex.parent.mkdir()
    here.codex.write_text('{"hooks": {}}')
    before = tree(here.root)
    with pytest.raises(InstallError, match="another program"):
        plans.carry_out(plan)
    assert tree(here.root) == before  # Claude's was written first, and is removed again
    assert not (here.root / ".holdfast/init.json").exists()


# The interpreter


@pytest.mark.parametrize("place", ["shims/python3", "wrapped/python3"])
def test_a_shim_is_never_written_but_what_it_stands_for(tmp_path: Path, place: str) -> None:
    shim = tmp_path / place
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert is_shim(str(shim))
    assert interpreter(str(shim)) == sys.executable
    assert interpreter(sys.executable) == sys.executable


def test_a_link_to_a_version_manager_is_a_shim(tmp_path: Path) -> None:
    manager = tmp_path / "bin/mise"
    manager.parent.mkdir()
    manager.write_bytes(b"\x7fELF")
    (tmp_path / "python3").symlink_to(manager)
    assert is_shim(str(tmp_path / "python3"))
    assert not is_shim(sys.executable)


def test_a_shim_that_leads_nowhere_is_passed_by(tmp_path: Path) -> None:
    shim = tmp_path / "shims/python3"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    if sys.platform == "linux":
        assert os.path.samefile(interpreter(str(shim)), sys.executable)
    else:
        with pytest.raises(InstallError):
            interpreter(str(shim))


def test_a_cache_that_is_cleared_without_notice_is_refused(tmp_path: Path) -> None:
    here = Installation(tmp_path, site=".cache/uv/archive-v0/abc/lib/site-packages")
    answer = here.hold("init", "--client", "claude")
    assert answer.code == 1
    assert "a cache that is cleared without notice" in answer.err
    assert "uv tool install" in answer.err
    assert not here.claude.exists()


# The real hook


def test_the_hook_of_this_very_package_answers(tmp_path: Path) -> None:
    here = Installation(tmp_path)
    shutil.copy2(SOURCE / "gate/hook.py", here.script)
    here.init(*BOTH)
    assert here.hold("init", "--check").code == 0
