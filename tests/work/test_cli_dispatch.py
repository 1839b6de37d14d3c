"""dispatch, decide and gaps, as they are called: with real agents in real repositories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, environment
from helpers_processes import PATIENCE_SECONDS
from helpers_sandbox import NEEDS_LANDLOCK, without_call
from helpers_work import Desk, states
from holdfast.gate.sandbox.kernel import seccomp

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="launchers need Linux: subreaper, pidfd, Landlock"
)

ONE = {"blog/posts": ["index"]}
TWO = {"blog/posts": ["index", "show"], "shop/carts": ["index"]}
#: An agent that signals that it runs, and waits until it may continue.
WAITING = """
(home / "signs/up").touch()
while not (home / "signs/go").exists():
    time.sleep(0.01)
"""
#: An agent that wants to write a file that no analysis had named, and does the rest.
GREEDY = """
for file in files:
    with open(file, "a") as stream:
        stream.write(f"{name}\\n")
try:
    Path("app/missed.rb").write_text("it was needed\\n")
except OSError as error:
    print("refused", error)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, ONE)
    yield made
    made.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, TWO)
    yield made
    made.close()


# From start to end


def test_a_manifest_is_worked_off_and_told_as_it_goes(two: Desk) -> None:
    answer = two.run("dispatch", "screens.json")
    assert answer.code == 0, answer
    assert "->  analyze  blog/posts/index" in answer.err
    assert "ok  apply    shop/carts" in answer.err
    assert "completed" in answer.out
    assert "5 of 5 items done" in answer.out
    assert sorted(two.app.read("app/shared.rb").split()) == ["blog/posts", "shop/carts"]
    assert two.run("gaps").out == "no gaps\n"


def test_as_one_document(desk: Desk) -> None:
    answer = desk.dispatch("screens.json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    assert found["workflows"]["blog/posts"]["state"] == "completed"
    assert (found["items"], found["completed"], found["failed"]) == (2, 2, [])
    assert found["gaps"] == []
    assert found["error"] == ""


def test_a_failure_is_reported_with_its_reason_and_a_code(desk: Desk) -> None:
    desk.app.order("apply", "sys.exit(3)")
    answer = desk.dispatch("screens.json")
    assert answer.code == 1
    assert states(answer) == {"blog/posts": "error"}
    (failed,) = answer.json["failed"]
    assert (failed["workflow"], failed["phase"]) == ("blog/posts", "apply")
    assert "code 3" in failed["reason"]


# What it refuses


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["dispatch"], 2, "dispatch needs one list of tasks"),
        (["dispatch", "a.json", "b.json"], 2, "dispatch needs one list of tasks"),
        (["dispatch", "--resume", "screens.json"], 2, "the manifest is already"),
        (["dispatch", "missing.json"], 2, "missing.json"),
        (["dispatch", "broken.json"], 2, "screens[0].controller"),
        (["dispatch", "--resume"], 3, "there is nothing to resume"),
        (["dispatch", "--amend"], 3, "there is nothing to resume"),
        (["decide", "blog/posts", "approve"], 2, "there is no task 'blog/posts'"),
        (["decide", "blog/posts"], 2, "there is no task 'blog/posts'"),
        (["decide", "blog/posts", "perhaps"], 2, "decide takes"),
    ],
)
def test_bad_input_is_refused_and_nothing_begins(
    desk: Desk, words: list[str], code: int, said: str
) -> None:
    broken = {"version": 1, "screens": [{"name": "a", "module": "b", "actions": {"primary": "a"}}]}
    (desk.root / "broken.json").write_text(json.dumps(broken))
    answer = desk.run(*words)
    assert answer.code == code, answer
    assert said in answer.err
    assert not (desk.root / ".analysis").exists()


def test_a_second_manifest_must_wait_until_the_first_is_done(desk: Desk) -> None:
    desk.app.order("analyze", WAITING)
    desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "an agent is out")
    answer = desk.dispatch("screens.json")
    assert answer.code == 3
    assert answer.error["code"] == "E_WORK"
    assert "--resume" in answer.error["hint"]
    forgotten = desk.run("dispatch", "--forget")
    assert forgotten.code == 3
    assert "is in progress" in forgotten.err


def test_one_interrupt_waits_for_the_agents_that_are_out_and_a_second_ends_them(
    desk: Desk,
) -> None:
    desk.app.order("analyze", WAITING)
    work = desk.start("dispatch", "screens.json")
    assert work.stderr is not None
    desk.when((desk.signs / "up").exists, "an agent is out")
    work.send_signal(signal.SIGINT)
    assert any("Ctrl-C again" in line for line in iter(work.stderr.readline, ""))
    assert work.poll() is None
    work.send_signal(signal.SIGINT)
    answer = desk.end(work)
    assert answer.code == 130
    assert "--resume" in answer.err
    (desk.app.home / "orders/analyze").unlink()
    assert states(desk.dispatch("--resume")) == {"blog/posts": "completed"}


# A person decides


def test_with_review_a_merge_waits_for_a_decision(two: Desk) -> None:
    work = two.start("dispatch", "screens.json", "--review", "--json")

    def waiting() -> bool:
        answer = two.run("decide", "blog/posts", "approve", "--json")
        return answer.code == 0

    two.when(waiting, "the first can be decided")
    two.when(lambda: two.run("decide", "shop/carts", "reject").code == 0, "the second too")
    again = two.run("decide", "blog/posts", "approve", "--json")
    assert again.error["code"] == "E_TRANSITION"
    answer = two.end(work)
    assert answer.code == 0
    assert states(answer) == {"blog/posts": "completed", "shop/carts": "idle"}
    assert two.app.read("app/shared.rb") == "blog/posts\n"


# Killed, joined, forgotten


def test_after_kill_9_it_goes_on_and_everything_is_done_once(two: Desk) -> None:
    two.app.order("apply-blog-posts", f"Path(files[0]).write_text('half')\n{WAITING}")
    first = two.start("dispatch", "screens.json")
    two.when((two.signs / "up").exists, "a merge is under way")
    first.kill()
    first.communicate()
    (two.app.home / "orders/apply-blog-posts").unlink()
    answer = two.dispatch("--resume")
    assert states(answer) == {"blog/posts": "completed", "shop/carts": "completed"}, answer
    assert two.app.read("app/controllers/blog/posts_controller.rb") == "old\nblog/posts\n"
    assert sorted(two.app.read("app/shared.rb").split()) == ["blog/posts", "shop/carts"]
    assert two.run("status", "--json").json["grants"] == []


def test_a_second_dispatcher_joins_and_each_item_is_done_once(two: Desk) -> None:
    two.app.order("analyze-blog-posts-index", WAITING + "\n" + _analysis("blog/posts/index"))
    first = two.start("dispatch", "screens.json", "--json")
    two.when((two.signs / "up").exists, "an agent is out")
    second = two.start("dispatch", "--resume", "--json")
    (two.signs / "go").touch()
    answers = [two.end(first), two.end(second)]
    for answer in answers:
        assert answer.code == 0, answer
        assert states(answer) == {"blog/posts": "completed", "shop/carts": "completed"}
    assert sorted(two.app.read("app/shared.rb").split()) == ["blog/posts", "shop/carts"]


def _analysis(name: str) -> str:
    module, controller, screen = name.split("/")
    targets = [f"app/controllers/{module}/{controller}_controller.rb", "app/shared.rb"]
    found = {"screen": screen, "findings": [], "write_targets": targets}
    return f"Path(files[0]).write_text({json.dumps(found)!r})\n"


def test_started_work_can_be_forgotten(desk: Desk) -> None:
    desk.app.order("analyze", WAITING)
    first = desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "an agent is out")
    first.kill()
    first.communicate()
    desk.when(lambda: desk.run("dispatch", "--forget").code == 0, "nothing is left of it")
    (desk.app.home / "orders/analyze").unlink()
    assert desk.run("dispatch", "--resume").code == 3
    assert desk.dispatch("screens.json").code == 0


# Gaps


@NEEDS_LANDLOCK
def test_a_refused_file_is_listed_and_amended_with_another_grant(
    desk: Desk,
) -> None:
    desk.app.order("apply", GREEDY)
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "completed"}, "it completes what it can"
    assert not (desk.root / "app/missed.rb").exists()
    (gap,) = desk.gaps()
    assert (gap["path"], gap["workflow"], gap["phase"]) == ("app/missed.rb", "blog/posts", "apply")
    assert gap["screens"] == ["blog/posts/index"]
    assert gap["missing"]
    listed = desk.run("gaps")
    assert "app/missed.rb" in listed.out
    assert "index" in listed.out
    assert "--amend" in listed.err

    answer = desk.dispatch("--amend")
    assert answer.code == 0, answer
    assert desk.app.read("app/missed.rb") == "it was needed\n"
    grants = _merges(desk)
    assert ["app/missed.rb" in grant["paths"] for grant in grants] == [False, True]
    assert ["app/shared.rb" in grant["paths"] for grant in grants] == [True, False]
    assert grants[0]["id"] != grants[1]["id"], "a grant never grows"

    (gap,) = desk.gaps()
    assert not gap["missing"]
    listed = desk.run("gaps")
    assert "amended" in listed.out
    assert "--amend" not in listed.err
    again = desk.run("dispatch", "--amend")
    assert "no gaps to amend" in again.err
    assert len(_merges(desk)) == 2


def _merges(desk: Desk) -> list[dict[str, Any]]:
    """The grants of merges."""
    found = [event["data"] for event in desk.events("lock_acquired")]
    return [grant for grant in found if grant.get("reason", "").startswith("apply")]


@NEEDS_LANDLOCK
def test_a_path_that_no_grant_could_cover_is_listed_and_not_amended(desk: Desk) -> None:
    desk.app.order("apply", "os.system('mkdir app/folder; rm -f app/controllers')\n")
    desk.app.order("analyze", _analysis("blog/posts/index") + "os.system('echo > app/early.rb')\n")
    desk.dispatch("screens.json")
    found = {gap["path"]: gap for gap in desk.gaps()}
    assert set(found) == {"app/folder/", "app/early.rb"}
    assert found["app/early.rb"]["phase"] == "analyze"
    assert not any(gap["missing"] for gap in found.values())
    listed = desk.run("gaps").out
    assert "cannot be locked" in listed
    assert "an analysis may write only its result" in " ".join(listed.split())
    assert "no gaps to amend" in desk.run("dispatch", "--amend").err


@NEEDS_LANDLOCK
def test_a_controller_that_is_being_worked_on_is_amended_later(desk: Desk) -> None:
    desk.app.order("apply", GREEDY + WAITING)
    first = desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "it has tried")
    desk.when(lambda: bool(desk.gaps()), "the gap is known while the agent still runs")
    second = desk.start("dispatch", "--amend")
    assert second.stderr is not None
    assert "amend it when that is done" in second.stderr.readline()
    (desk.signs / "go").touch()
    assert desk.end(first).code == 0
    assert desk.end(second).code == 0
    assert not (desk.root / "app/missed.rb").exists()
    assert desk.dispatch("--amend").code == 0
    assert desk.app.read("app/missed.rb") == "it was needed\n"


@NEEDS_LANDLOCK
def test_where_refusals_go_unnoticed_one_line_reports_it_and_nothing_fails(desk: Desk) -> None:
    desk.app.order("apply", GREEDY)
    number = seccomp.MACHINES[os.uname().machine].seccomp
    done = subprocess.run(
        without_call(number, 38, *COMMAND, "dispatch", "screens.json"), cwd=desk.root,
        env=environment(), capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.stderr.count("are not recorded") == 1
    assert not (desk.root / "app/missed.rb").exists()
    assert desk.gaps() == []
