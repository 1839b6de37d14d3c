"""With the gate: no agent writes inside a spec that another machine or holder has locked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import environment
from helpers_guard import called
from helpers_processes import LINUX_ONLY
from helpers_specs import foreign, powerless
from holdfast import LockManager
from holdfast.core.model import Holder, agent_key
from holdfast.gate import hook, locked_specs
from holdfast.specs import SpecLocks, errors

pytestmark = LINUX_ONLY

HOOK = Path(hook.__file__)


class Agent:
    """An agent of Claude Code, whose hooks are the real ones."""

    def __init__(self, root: Path, session: str) -> None:
        self.root = root
        self.session = session
        self.process = subprocess.Popen(["sleep", "600"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def holder(self) -> Holder:
        return Holder(id=f"claude:{self.session}", key=agent_key("claude", self.session))

    def tell(
        self, tool: str, input: dict[str, Any], *, agent: str = "", prefix: list[str] | None = None,
        options: tuple[str, ...] = (), **env: str,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        told = {
            "session_id": self.session, "cwd": str(self.root), "hook_event_name": "PreToolUse",
            "tool_name": tool, "tool_input": input, **({"agent_id": agent} if agent else {}),
        }  # fmt: skip
        return subprocess.run(
            [*(prefix or []), sys.executable, "-I", "-S", *options, str(HOOK), "claude"],
            input=json.dumps(told), capture_output=True, text=True, timeout=60, check=False,
            env=environment(CLAUDE_PID=str(self.process.pid), **env), cwd="/",
        )  # fmt: skip

    def edit(self, path: str, **more: Any) -> str:
        """Why an edit is refused; empty if it is allowed."""
        return refusal(self.tell("Write", {"file_path": f"{self.root}/{path}"}, **more))

    def run(self, command: str, **more: Any) -> str:
        """Why a command is refused; empty if it is allowed."""
        return refusal(self.tell("Bash", {"command": command}, **more))


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout) if done.stdout.strip() else {}
    inner = said.get("hookSpecificOutput", {})
    return inner["permissionDecisionReason"] if inner.get("permissionDecision") == "deny" else ""


@pytest.fixture
def root(repository: Path) -> Path:
    for spec in ("demo", "other"):
        (repository / ".kiro/specs" / spec).mkdir(parents=True)
        (repository / ".kiro/specs" / spec / "design.md").write_text("old\n")
    (repository / ".holdfast").mkdir()
    (repository / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    return repository


@pytest.fixture
def demo(root: Path) -> Path:
    return root / ".kiro/specs/demo"


@pytest.fixture
def ann(root: Path) -> Iterator[Agent]:
    made = Agent(root, "ann-session")
    yield made
    made.close()


@pytest.fixture
def bob(root: Path) -> Iterator[Agent]:
    made = Agent(root, "bob-session")
    yield made
    made.close()


def held(root: Path) -> list[str]:
    with LockManager.open(root) as manager:
        return [path for grant in manager.active_grants() for path in grant.write_paths]


FILE = ".kiro/specs/demo/design.md"


def test_another_machines_lock_refuses_an_edit_with_the_facts(
    ann: Agent, demo: Path, root: Path
) -> None:
    foreign(demo / ".lock", reason="rewriting the intro")
    said = ann.edit(FILE)
    for fact in ("Refused", FILE, "spec demo", "bob", "far", "far-1", "0 s", "rewriting the intro"):
        assert fact in said
    assert held(root) == [], "nothing was leased for it"


def test_edits_elsewhere_pass(ann: Agent, demo: Path) -> None:
    foreign(demo / ".lock")
    for path in ("app/x.rb", ".kiro/specs/other/design.md", ".kiro/specs/new.md", ".kiro/x"):
        assert ann.edit(path) == "", path


def test_an_unlocked_spec_passes_and_is_leased_like_any_file(
    ann: Agent, bob: Agent, root: Path
) -> None:
    assert ann.edit(FILE) == ""
    assert held(root) == [FILE]
    assert called(root, "ann-session") in bob.edit(FILE)


@pytest.mark.parametrize("path", [FILE, ".kiro/specs/demo/deep/new.md", ".kiro/specs/demo/.lock"])
def test_every_path_in_the_spec_is_refused(ann: Agent, demo: Path, path: str) -> None:
    foreign(demo / ".lock")
    assert "spec demo" in ann.edit(path)


def test_also_below_sce_and_in_a_workspace_inside_the_repository(ann: Agent, root: Path) -> None:
    for home in (".sce", "sub/.kiro", "sub/.sce"):
        folder = root / home / "specs/deep"
        folder.mkdir(parents=True)
        foreign(folder / ".lock")
        assert "spec deep" in ann.edit(f"{home}/specs/deep/x.md")


def test_another_agent_of_this_machine_is_refused_and_the_one_who_locked_it_not(
    ann: Agent, bob: Agent, root: Path
) -> None:
    locks = SpecLocks(root, holder=ann.holder, owner="Ann")
    assert locks.acquire_lock("demo", reason="mine").success
    assert ann.edit(FILE) == ""
    assert ann.run("ls") == ""  # its edit is over
    assert ann.edit(FILE, agent="sub-agent") == "", "a sub-agent works for its session"
    said = bob.edit(FILE)
    for fact in ("spec demo", "Ann", "this machine", "claude:ann-session", "mine"):
        assert fact in said
    assert locks.release_lock("demo").success
    assert bob.edit(".kiro/specs/demo/tasks.md") == ""


def test_the_lock_that_an_agent_takes_with_the_command_is_its_own(
    ann: Agent, bob: Agent, root: Path
) -> None:
    env = environment(CLAUDE_CODE_SESSION_ID=ann.session, CLAUDE_PID=str(ann.process.pid))
    subprocess.run(
        [sys.executable, "-m", "holdfast", "spec", "lock", "demo"], cwd=root, env=env, check=True,
        capture_output=True,
    )  # fmt: skip
    assert ann.edit(FILE) == ""
    assert "spec demo" in bob.edit(FILE)


def test_a_lock_of_this_machine_without_a_note_belongs_to_no_agent(
    ann: Agent, demo: Path, root: Path
) -> None:
    id = SpecLocks(root, holder="x", owner="x").machine.get_machine_id().id
    foreign(demo / ".lock", machineId=id)
    assert ann.edit(FILE) == ""


def test_a_stale_lock_still_refuses_and_points_to_the_clean_up(ann: Agent, demo: Path) -> None:
    foreign(demo / ".lock", timestamp="2020-01-01T00:00:00.000Z")
    assert "holdfast spec cleanup" in ann.edit(FILE)


def test_a_dead_holders_lock_still_refuses_and_says_how_to_release_it(
    ann: Agent, bob: Agent, root: Path
) -> None:
    from holdfast.manager.owners.liveness import witness_of

    gone = Holder(id="runner", key="runner", witness=witness_of(ann.process.pid))
    assert SpecLocks(root, holder=gone, owner="Ann").acquire_lock("demo").success
    ann.close()
    assert "holdfast spec unlock demo" in bob.edit(FILE)


def test_a_damaged_lock_is_none(ann: Agent, demo: Path) -> None:
    (demo / ".lock").write_text("nonsense")
    assert ann.edit(FILE) == ""


def test_a_lock_that_may_not_be_read_refuses(ann: Agent, demo: Path) -> None:
    (demo / ".lock").write_text("")
    (demo / ".lock").chmod(0)
    said = ann.edit(FILE, prefix=powerless())
    assert errors.PERMISSION_DENIED in said
    assert "spec demo" in said


def test_a_link_from_elsewhere_into_the_spec_is_no_way_round(
    ann: Agent, demo: Path, root: Path
) -> None:
    foreign(demo / ".lock")
    (root / "harmless.md").symlink_to(demo / "design.md")
    (root / "folder").symlink_to(demo)
    assert "spec demo" in ann.edit("harmless.md")
    assert "spec demo" in ann.edit("folder/new.md")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .kiro/specs/demo/design.md", "sed -i s/a/b/ .kiro/specs/demo/design.md",
        "rm .kiro/specs/demo/.lock", "rm -rf .kiro/specs/demo", "rm -r .kiro/specs", "rm -rf .kiro",
        "cd .kiro/specs/demo && touch new.md", "mv .kiro/specs/demo .kiro/specs/gone",
        "cp app/x.rb .kiro/specs/demo/", "cat < app/x.rb | tee .kiro/specs/demo/tasks.md",
    ],
)  # fmt: skip
def test_plain_writes_of_a_command_are_refused_like_edits(
    ann: Agent, demo: Path, command: str
) -> None:
    assert ann.run(command) == ""
    foreign(demo / ".lock", reason="rewriting")
    said = ann.run(command)
    for fact in ("Refused", "demo", "bob", "far", "rewriting"):
        assert fact in said, command


def test_also_what_git_ignores(ann: Agent, demo: Path, root: Path) -> None:
    (root / ".git").rmdir()
    subprocess.run(["git", "init", "--quiet", root], check=True)
    (root / ".gitignore").write_text(".kiro/\n")
    foreign(demo / ".lock")
    assert "spec demo" in ann.run("echo x > .kiro/specs/demo/design.md")


@pytest.mark.parametrize(
    "command", ["cat .kiro/specs/demo/design.md", "echo x > app/x.rb", "ls -R .kiro", "rm -rf lib"]
)
def test_other_commands_pass(ann: Agent, demo: Path, command: str) -> None:
    foreign(demo / ".lock")
    assert ann.run(command) == ""


def test_a_runners_command_is_asked_too(ann: Agent, demo: Path, root: Path) -> None:
    foreign(demo / ".lock")
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="runner", write_paths=[FILE])
        assert grant is not None
        env = {
            "HOLDFAST_GRANT": grant.id, "HOLDFAST_TOKEN": str(grant.token),
            "HOLDFAST_HOLDER": "runner",
        }  # fmt: skip
        assert "spec demo" in ann.edit(FILE, **env)
        (demo / ".lock").unlink()
        assert ann.edit(FILE, **env) == ""
        SpecLocks(root, holder="runner", owner="r").acquire_lock("demo")
        assert ann.edit(FILE, **env) == "", "it is the runner's own"


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The modules that a hook imported, according to `-X importtime`."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize("path", ["app/x.rb", "app/specs/x.rb", "specs/deep/x.rb", ".kiro/x.md"])
def test_an_edit_elsewhere_pays_nothing_for_specs(ann: Agent, root: Path, path: str) -> None:
    done = ann.tell("Write", {"file_path": f"{root}/{path}"}, options=("-X", "importtime"))
    found = imported(done)
    assert not any(
        name.startswith(("holdfast.specs", "holdfast.gate.locked_specs")) for name in found
    )


def test_an_edit_of_a_spec_imports_nothing_costly(ann: Agent, root: Path) -> None:
    done = ann.tell("Write", {"file_path": f"{root}/{FILE}"}, options=("-X", "importtime"))
    found = imported(done)
    assert "holdfast.specs.spec_locks" in found
    costly = {
        "dataclasses", "typing", "enum", "re", "json", "pathlib", "logging", "uuid", "socket",
        "threading", "asyncio", "datetime", "contextlib", "subprocess",
    }  # fmt: skip
    assert found & costly == set()


def test_the_words_of_a_path_say_which_spec_it_is(root: Path) -> None:
    from holdfast.specs.spec_names import specs_around

    for path, expected in [
        ("/r/.kiro/specs/demo/x", [("/r/.kiro/specs", "demo")]),
        ("/r/.kiro/specs/demo", []),
        ("/r/.kiro/specs/x.md", []),
        ("/r/.kiro/specs/.hidden/x", []),
        ("/r/x.kiro/specs/demo/x", []),
        ("/r/.sce/specs/a/.kiro/specs/b/x", [("/r/.sce/specs", "a"),
                                             ("/r/.sce/specs/a/.kiro/specs", "b")]),
        ("/r/.kiro/specs/a/.kiro/specs/b/x", [("/r/.kiro/specs", "a"),
                                              ("/r/.kiro/specs/a/.kiro/specs", "b")]),
    ]:  # fmt: skip
        assert list(specs_around(path)) == expected, path


def test_an_unknown_holder_has_no_name(root: Path, demo: Path) -> None:
    assert locked_specs.refusal(Holder(id="x"), [f"{demo}/design.md"]) is None
    foreign(demo / ".lock")
    assert locked_specs.refusal(Holder(id="x"), [f"{root}/app/x.rb"], [f"{root}/lib/"]) is None
    assert locked_specs.refusal(Holder(id="x"), [], [f"{os.fspath(root)}/"]) is not None
