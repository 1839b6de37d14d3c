"""What `holdfast dispatch` for tasks, and `holdfast decide`, print for people."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Repository, Terminal
from helpers_processes import PATIENCE_SECONDS, until
from helpers_task_commands import why_no_broker
from helpers_tasks import AGENT, IDENTITY, Checkout, until_file
from holdfast.cli.dispatch.task_report import Watch
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.errors import WorkError
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task
from holdfast.work.tasks.task_records import TaskRecord

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


class Shop(Repository):
    """A repository whose agent runs its prompt as a script."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "shop")
        (folder / "agent.py").write_text(AGENT)
        command = [sys.executable, "-S", str(folder / "agent.py"), "{prompt}"]
        (self.root / "holdfast.toml").write_text(f"[work.agent]\ncommand = {_toml(command)}\n")
        for words in (["add", "-A"], ["commit", "-qm", "first"]):
            subprocess.run(["git", "-C", self.root, *words], check=True, env={**IDENTITY})

    def list(self, *tasks: dict[str, Any], name: str = "tasks.toml", top: str = "tries = 1") -> str:
        lines = [top]
        for task in tasks:
            lines += ["[[task]]", *(f"{key} = {_toml(value)}" for key, value in task.items())]
        (self.root / name).write_text("\n".join(lines) + "\n")
        return name

    def records(self) -> dict[str, TaskRecord]:
        with LockManager.open(str(self.root)) as manager:
            return {one.name: one for one in transactions.look(manager, task_records.tasks_in)}


def _toml(value: Any) -> str:
    return json.dumps(value)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# What went wrong


def test_a_failed_task_is_reported_with_its_last_lines_and_its_output_file(shop: Shop) -> None:
    script = "for i in $(seq 40); do echo line $i; done; echo it broke >&2; exit 9"
    name = shop.list({"name": "one", "prompt": script}, {"name": "two", "prompt": "exit 1"})
    answer = shop.hold("dispatch", name)
    assert answer.code == 1
    for said in (answer.err, answer.out):
        assert re.search(r"\| line 40\n +\| it broke\n +full output: (\S+)\n", said)
        assert "it printed nothing" in said
    assert re.search(r"^one +failed +0 s +1 +the agent failed with code 9$", answer.out, re.M)
    (log,) = set(re.findall(r"full output: (\S+)", answer.out))
    assert (shop.root / log).read_text().startswith("line 1\n")
    assert f"to retry: holdfast dispatch {name} --retry-failed\n" in answer.out


def test_a_missing_command_is_named_in_the_reason(shop: Shop) -> None:
    name = shop.list(
        {"name": "agent", "prompt": "no-such-tool"},
        {"name": "check", "prompt": "true", "check": "no-such-check", "rounds": 0},
    )
    answer = shop.hold("dispatch", name)
    assert re.search(
        r"the agent failed with code 127: \S+ \d+: no-such-tool: not found", answer.out
    )
    assert re.search(r"the check failed with code 127: \S+ \d+: no-such-check: not", answer.out)


def test_a_missing_agent_is_reported_with_the_task_that_names_it(shop: Shop) -> None:
    name = shop.list({"name": "one", "prompt": "x", "command": ["no-such-agent", "{prompt}"]})
    answer = shop.hold("dispatch", name)
    assert answer.code == 2
    assert answer.err.startswith("holdfast: one: there is no program 'no-such-agent'")


def test_an_attempt_that_is_repeated_says_why_and_that_it_is_repeated(shop: Shop) -> None:
    script = "[ -e app/done.rb ] || { echo not yet; exit 3; }"
    name = shop.list({"name": "one", "prompt": script}, top="tries = 2")
    with shop.start("dispatch", name) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        said = next(line for line in lines if "queued" in line)
        assert said.endswith("one: the agent failed with code 3; it will be retried\n")
        assert next(lines).strip() == "| not yet"
        (shop.root / "app/done.rb").touch()
        process.communicate()
    assert process.returncode == 0


def test_the_changes_of_a_failed_task_are_named_at_the_end(shop: Shop) -> None:
    name = shop.list({"name": "one", "prompt": "echo x > app/x.rb; exit 1"})
    answer = shop.hold("dispatch", name, "--keep-failed")
    (patch,) = re.findall(r"its changes are in (\S+)", answer.out)
    assert "+x" in (shop.root / patch).read_text()


def test_a_reason_is_not_cut_in_a_narrow_terminal(shop: Shop) -> None:
    name = shop.list(
        {"name": "a task with quite a long name", "prompt": "exit 1"},
        {"name": "after", "prompt": "x", "after": ["a task with quite a long name"]},
    )
    answer = shop.hold("dispatch", name, env={"COLUMNS": "40"})
    flat = " ".join(answer.out.split())
    assert "it comes after a task with quite a long name, which failed" in flat


def test_every_line_of_a_wrong_list_is_named_under_the_name_that_was_typed(shop: Shop) -> None:
    name = shop.list({"name": "a", "promt": "x"}, {"name": "b", "prompt": "y", "after": ["c"]})
    answer = shop.hold("dispatch", name)
    assert answer.code == 2
    first, *rest = answer.err.splitlines()
    assert first == "holdfast: tasks.toml: 3 errors"
    assert [line.split(":")[0].strip() for line in rest[:3]] == ["line 2", "line 4", "line 8"]


def test_a_wrong_option_is_reported_together_with_a_wrong_list(shop: Shop) -> None:
    name = shop.list({"name": "a"})
    answer = shop.hold("dispatch", name, "--slots", "0")
    assert answer.code == 2
    assert answer.err.splitlines()[:3] == [
        "holdfast: tasks.toml: 2 errors",
        "  --slots 0 is not possible; give 1 to 1000",
        "  line 2: prompt is missing",
    ]
    found = shop.hold("dispatch", name, "--slots", "x", "--json").json["error"]
    assert (found["code"], found["count"], len(found["problems"])) == ("E_TASKS", 2, 2)
    right = shop.list({"name": "a", "prompt": "true"})
    answer = shop.hold("dispatch", right, "--slots", "x")
    assert answer.err.startswith("holdfast: --slots 'x' is not a number\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dispatch"], "dispatch needs one list of tasks"),
        (["dispatch", "missing.json"], "missing.json: there is no such file"),
        (["dispatch", "app"], "app is not a list of tasks"),
        (["plan", "missing.json"], "missing.json: there is no such file"),
        (["dispatch", "--resume"], "there is nothing to resume"),
        (["decide", "x"], "there is no task 'x'"),
        (["decide", "x", "approve"], "there is no task 'x'"),
        (["decide", "x", "perhaps"], "decide takes the name of a task"),
    ],
)
def test_nothing_that_is_said_of_tasks_speaks_of_screens(
    shop: Shop, words: list[str], said: str
) -> None:
    answer = shop.hold(*words)
    assert answer.code in (2, 3)
    assert said in answer.err
    assert not re.search("screen|controller|manifest", answer.err)


@pytest.mark.parametrize("command", ["dispatch", "plan"])
def test_the_help_speaks_of_tasks_and_at_its_end_of_screens(shop: Shop, command: str) -> None:
    tasks, _, screens = shop.hold(command, "--help").out.partition("\n\nFor screens: ")
    assert "Markdown checklist" in tasks
    assert not re.search("manifest|merge|controller", tasks)
    assert "manifest (.json)" in screens
    assert re.fullmatch(r"[^\n]+(\n[^\n]+)*\n\nexamples:\n(  holdfast .+\n)+", screens)


def test_a_file_of_another_kind_is_refused_without_a_word_of_screens(shop: Shop) -> None:
    (shop.root / "todo.txt").write_text("- [ ] do it\n")
    answer = shop.hold("dispatch", "todo.txt")
    assert (answer.code, answer.out) == (2, "")
    assert "todo.txt is not a list of tasks" in answer.err
    assert "Markdown checklist" in answer.err
    assert "screen" not in answer.err


def test_a_deadlock_is_reported_with_the_names_of_the_tasks(shop: Shop) -> None:
    marks = shop.root.parent / "marks"
    marks.mkdir()
    with (shop.root / "holdfast.toml").open("a") as settings:
        settings.write(f'[sandbox]\nwrite = ["{marks}/"]\n')

    def script(mine: str, other: str) -> str:
        seen = [f"touch {marks}/{mine}", until_file(marks / other)]
        return "; ".join([f"echo x >> app/{mine}.rb", *seen, f"echo y >> app/{other}.rb"])

    name = shop.list(
        {"name": "the left", "prompt": script("left", "right")},
        {"name": "the right", "prompt": script("right", "left")}, top="slots = 2",
    )  # fmt: skip
    answer = shop.hold("dispatch", name)
    assert answer.code == 0
    right = r"the right would wait for the left \(app/left.rb\)"
    left = r"the left would wait for the right \(app/right.rb\)"
    told = rf"it yielded to an older task: ({right}, {left}|{left}, {right})"
    assert re.search(told, answer.err)  # it starts with the one that closed the deadlock


def test_attempts_that_were_broken_off_use_up_none_of_the_tries(checkout: Checkout) -> None:
    mark = checkout.home / "marks"
    mark.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{mark}/"]\n'})
    script = f"n=$(ls {mark} | wc -l); touch {mark}/$n; [ $n -gt 0 ] || sleep 60; [ $n -gt 1 ]"
    task = checkout.task("one", script, tries=2)

    def is_halted(work: Any) -> bool:
        if not (mark / "0").exists():
            return False
        work.halt()
        return True

    checkout.dispatch(task, until=is_halted)
    found = checkout.dispatch(task)["one"]
    assert (found.state, found.tries, found.failures) == (task_states.DONE, 3, 1)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


# Output while it runs


class Writes(io.StringIO):
    """Every write to a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def write(self, text: str) -> int:
        self.texts.append(text)
        return len(text)


def test_a_report_on_a_task_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Writes()
    monkeypatch.setattr(sys, "stderr", stream)
    failed = TaskRecord(
        "l", Task("one", "x"), task_states.FAILED, reason="no", tail=("a", "b"), log="task.log"
    )
    Watch(quiet=False).see(failed)
    (text,) = stream.texts
    assert text.endswith("| b\n              full output: task.log\n")
    assert "\x1b" not in text


def test_a_wait_for_a_person_is_reported_once_with_what_to_do(shop: Shop) -> None:
    shop.hold("lock", "app/x.rb", "--holder", "alice")
    name = shop.list(
        {"name": "another", "prompt": "echo x >> app/x.rb"},
        {"name": "declared", "prompt": "true", "writes": ["app/x.rb"]},
    )
    with shop.start("dispatch", name) as process:
        assert process.stderr is not None
        said: list[str] = []
        while sum("waiting" in line for line in said) < 2:
            said.append(process.stderr.readline())
            assert said[-1], said
        process.send_signal(signal.SIGINT)
        while "waiting for the running agents; press Ctrl-C again" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        said.append(process.stderr.readline())
        shop.hold("unlock", "app/x.rb", "--holder", "alice")
        rest = process.communicate(timeout=PATIENCE_SECONDS)[1]
    waits = [line for line in [*said, *rest.splitlines()] if "..  waiting" in line]
    assert len(waits) == 2, waits
    for task in ("another", "declared"):
        (line,) = (line for line in waits if f"  {task}: " in line)
        assert re.fullmatch(
            rf" +[5-9]\.\d s  \.\.  waiting   {task}: app/x\.rb has been locked for writing by "
            r"alice for \d+ s, until (\w+ )?\d\d:\d\d; to release it: "
            r"holdfast unlock app/x\.rb \(as alice\), or wait\n",
            line,
        ), line
    assert said[-1] == "  another waits for app/x.rb, which alice has locked\n"


def test_a_task_that_waits_for_one_of_its_list_or_waits_shortly_is_not_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.cli.dispatch.task_waits import Wait

    stream = Writes()
    monkeypatch.setattr(sys, "stderr", stream)
    watch = Watch(quiet=False)
    watch.waits([Wait("a", "alice", "x", 4_900_000, True, "said")])
    assert stream.texts == []
    for _ in range(2):
        watch.waits([Wait("a", "alice", "x", 5_000_000, True, "said")])
    watch.waits([Wait("a", "bob", "x", 9_000_000, True, "said")])
    assert [text.partition("..")[2] for text in stream.texts] == ["  waiting   a: said\n"] * 2
    quiet = Watch(quiet=True)
    quiet.waits([Wait("a", "alice", "x", 9_000_000, True, "said")])
    assert len(stream.texts) == 2


def test_the_log_tells_what_happens_to_a_task_in_words_that_are_of_tasks(shop: Shop) -> None:
    with reviewing(shop):
        shop.hold("decide", "rename it", "approve")
    name = shop.list(
        {"name": "bad", "prompt": "exit 1"},
        {"name": "not", "prompt": "true", "after": ["bad"]},
        name="other.toml",
    )
    shop.hold("dispatch", name)
    lines = [line[29:] for line in shop.hold("log").out.splitlines()]
    for said in (
        "rename it is in line", "rename it was started", "task rename it is reviewing now",
        "rename it waits for a decision", "rename it has been decided on and is about to land",
        "rename it is landing", "rename it: its attempt ended: completed",
        "task rename it is done now",
        "task bad failed: the agent failed with code 1",
        "bad: its attempt ended: error: the agent failed with code 1",
        "task not was skipped: it comes after bad, which failed",
    ):  # fmt: skip
        assert lines.count(said) == 1, (said, lines)


def test_only_what_is_named_is_introduced_and_listed(shop: Shop) -> None:
    name = shop.list(*({"name": one, "prompt": "true"} for one in ("a", "b", "c")))
    shop.hold("dispatch", name, "--only", "a")
    answer = shop.hold("dispatch", name, "--only", "b")
    assert answer.code == 0
    assert "1 of the 3 tasks of tasks.toml" in answer.err
    assert "already done" not in answer.err
    assert [line.split()[0] for line in answer.out.splitlines()[1:2]] == ["b"]
    assert "1 of 1 task done" in answer.out
    unknown = shop.hold("dispatch", name, "--only", "d")
    assert unknown.err == "holdfast: there is no task d in tasks.toml\n  -> it has: a, b, c\n"


def test_a_changed_task_of_the_command_line_is_refused_with_a_command_that_works(
    checkout: Checkout,
) -> None:
    def listed(script: str) -> Any:
        return checkout.tasks(checkout.task("it's one", script), name=COMMAND_LINE)

    checkout.dispatch(tasklist=listed("true"))
    with pytest.raises(WorkError) as caught:
        checkout.dispatch(tasklist=listed("echo x"))
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("""holdfast dispatch --forget --only 'it'"'"'s one'""")


# Deciding


@contextmanager
def reviewing(shop: Shop, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A dispatcher that waits for a decision on one task, and at the end has been told of it."""
    name = shop.list({"name": "rename it", "prompt": "echo x > app/x.rb; echo n > app/n.rb"})
    with shop.start("dispatch", name, "--review", *words) as process:
        try:
            until(
                lambda: [one.state for one in shop.records().values()] == [task_states.REVIEWING],
                "it is in review",
            )
            yield process
            process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()  # or a test that fails would wait for a decision


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_task_in_review_is_reported_with_its_files_and_the_command(
    shop: Shop, words: list[str]
) -> None:
    with reviewing(shop, *words) as process:
        assert process.stderr is not None
        said = ""
        while "all remaining tasks" not in said or "holdfast decide shows" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        assert re.search(
            r"reviewing rename it: app/n.rb, app/x.rb\n +holdfast decide 'rename", said
        )
        assert "all remaining tasks wait for a decision: rename it" in said
        assert shop.hold("decide", "rename it", "approve").code == 0
    assert process.returncode == 0


def test_decide_shows_what_waits_and_the_diff(shop: Shop) -> None:
    assert shop.hold("decide").out == "no task waits for a decision\n"
    with reviewing(shop):
        assert "holdfast decide 'rename it'    # app/n.rb, app/x.rb\n" in shop.hold("decide").out
        unknown = shop.hold("decide", "nope")
        assert unknown.code == 2
        assert "there is no task 'nope'" in unknown.err
        assert "these wait for a decision: rename it" in unknown.err
        shown = shop.hold("decide", "rename it").out
        assert "-old\n+x\n" in shown
        assert "holdfast decide 'rename it' approve, or reject" in shown
        shop.hold("decide", "rename it", "reject")


def test_a_person_decides_in_the_terminal_after_the_diff_and_is_recorded(shop: Shop) -> None:
    with reviewing(shop) as process:
        terminal = Terminal(shop)
        try:
            terminal.type(f"{' '.join(COMMAND)} decide 'rename it'\n")
            terminal.shows("approve, reject or later?")
            assert b"+x" in terminal.read()
            terminal.type("what\n")
            until(lambda: terminal.read().count(b"or later?") == 2, "it asks again")
            terminal.type("\x04")
            terminal.shows("nothing was decided")
            terminal.type(f"{' '.join(COMMAND)} decide 'rename it'\n")
            until(lambda: terminal.read().count(b"or later?") == 3, "it asks")
            terminal.type("reject\n")
            terminal.shows("rename it: rejected")
        finally:
            terminal.close()
    assert process.returncode == 1
    found = shop.records()["rename it"]
    assert re.fullmatch(r"rejected by \S+, at the command line", found.reason)
    assert (shop.root / "app/x.rb").read_text() == "old\n"


def test_an_agent_in_a_terminal_is_not_asked(shop: Shop) -> None:
    with reviewing(shop):
        terminal = Terminal(shop, HOLDFAST_HOLDER="an-agent")
        try:
            terminal.type(f"{' '.join(COMMAND)} decide 'rename it'\n")
            terminal.shows("only a person may decide on a task")
            assert b"or later?" not in terminal.read()
        finally:
            terminal.close()
        assert shop.records()["rename it"].state == task_states.REVIEWING
        shop.hold("decide", "rename it", "approve")


def test_a_task_whose_dispatcher_ended_in_review_cannot_be_decided_on(shop: Shop) -> None:
    name = shop.list({"name": "rename it", "prompt": "echo x > app/x.rb"})
    with shop.start("dispatch", name, "--review") as process:
        until(
            lambda: [one.state for one in shop.records().values()] == [task_states.REVIEWING],
            "it is in review",
        )
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert "undone while in review, to be done again: rename it" in err
    until(lambda: (shop.root / "app/x.rb").read_text() == "old\n", "its changes are put back")
    answer = shop.hold("decide", "rename it", "approve")
    assert answer.code == 3
    assert "its dispatcher is gone, and its changes have been undone" in answer.err
    assert "continue: holdfast dispatch tasks.toml" in answer.err
    assert "continue: holdfast dispatch tasks.toml" in shop.hold("decide", "rename it").err
    assert shop.hold("decide").out == "no task waits for a decision\n"
    assert "to decide" not in shop.hold("top").out


def test_every_file_of_a_patch_is_called_a_before_and_b_after(shop: Shop) -> None:
    (shop.root / "app/gone.rb").write_text("gone\n")
    script = "\n".join([
        "echo 'diff --git b/x b/x' > 'app/new file.rb'", "echo n > app/caf\u00e9.rb",
        ": > app/empty.rb", "rm app/gone.rb", "echo x >> app/x.rb", "exit 1",
    ])  # fmt: skip
    shop.hold("dispatch", shop.list({"name": "one", "prompt": script}), "--keep-failed")
    (patch,) = (shop.root / ".holdfast/failed").glob("*.patch")
    headers = [one for one in patch.read_text().splitlines() if one.startswith("diff ")]
    assert headers == [
        r'diff --git "a/app/caf\303\251.rb" "b/app/caf\303\251.rb"',
        "diff --git a/app/empty.rb b/app/empty.rb",
        "diff --git a/app/gone.rb b/app/gone.rb",
        "diff --git a/app/new file.rb b/app/new file.rb",
        "diff --git a/app/x.rb b/app/x.rb",
    ]
    subprocess.run(["git", "-C", shop.root, "apply", str(patch)], check=True)
    assert (shop.root / "app/new file.rb").read_text() == "diff --git b/x b/x\n"
    assert (shop.root / "app/empty.rb").read_text() == ""
    assert not (shop.root / "app/gone.rb").exists()
