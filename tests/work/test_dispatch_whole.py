"""Nothing half done: work that fails leaves its files as they were, and finished work stays
done."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import PATIENCE_SECONDS
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_work import Application, Desk, manifest, states
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import WorkItem
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens.pipeline import Pipeline

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="launchers need Linux: subreaper, pidfd, Landlock"
)

ONE = {"blog/posts": ["index"]}
TWO = {"blog/posts": ["index"], "shop/carts": ["index"]}
CONTROLLER = "app/controllers/blog/posts_controller.rb"
SHARED = "app/shared.rb"

#: Half an edit of every file, in the way that most tools write.
HALF = """
for file in files:
    with open(file, "r+") as stream:
        stream.write("half ")
"""
#: The other agent, which waits for the shared file: it does not build on what it must not see.
LOOKING = """
found = Path("app/shared.rb").read_bytes()
if found != b"shared\\n":
    sys.exit(f"this is half an edit: {found!r}")
for file in files:
    with open(file, "a") as stream:
        stream.write(f"{name}\\n")
"""
#: An agent that signals that it runs, and waits until it may continue.
WAITING = """
(home / "signs/up").touch()
while not (home / "signs/go").exists():
    time.sleep(0.01)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, ONE)
    (made.root / SHARED).write_text("shared\n")
    yield made
    made.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, TWO)
    (made.root / SHARED).write_text("shared\n")
    yield made
    made.close()


def as_before(desk: Desk) -> bool:
    return desk.app.read(CONTROLLER) == "old\n" and desk.app.read(SHARED) == "shared\n"


# A phase that fails for good


WAYS = {
    "exit code": "sys.exit(1)",
    "timeout": "time.sleep(1000)",
    "killed": "os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_that_fails_leaves_its_files_as_they_were_before_another_has_them(
    two: Desk, way: str
) -> None:
    two.app.order("apply-blog-posts", f"{HALF}(home / 'signs/half').touch()\n{WAYS[way]}")
    two.app.order("apply-shop-carts", LOOKING)
    # The first is at the shared file before the second wants it.
    two.app.order("analyze-shop-carts-index", WAITING + _analysis("shop/carts/index"))
    if way == "timeout":
        two.limit(2)
    work = two.start("dispatch", "screens.json", "--json")
    two.when((two.signs / "half").exists, "half an edit is there")
    (two.signs / "go").touch()
    answer = two.end(work)
    assert states(answer) == {"blog/posts": "error", "shop/carts": "completed"}, answer
    assert two.app.read(CONTROLLER) == "old\n"
    assert two.app.read(SHARED) == "shared\nshop/carts\n"
    assert two.run("status", "--json").json["grants"] == []


def _analysis(name: str, *more: str) -> str:
    module, controller, screen = name.split("/")
    targets = [f"app/controllers/{module}/{controller}_controller.rb", SHARED, *more]
    found = {"screen": screen, "findings": [], "write_targets": targets}
    return f"Path(files[0]).write_text({json.dumps(found)!r})\n"


def test_one_that_fails_in_verify_undoes_all_that_was_done_under_its_grant(desk: Desk) -> None:
    desk.settings("test fix verify")
    desk.app.order("fix", HALF)
    desk.app.order("verify", "sys.exit(4)")
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "error"}
    assert as_before(desk)


@NEEDS_LANDLOCK
def test_one_that_completes_with_gaps_keeps_its_edits(desk: Desk) -> None:
    desk.app.order("apply", HALF + "try: open('app/other.rb', 'w')\nexcept OSError: pass\n")
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "completed"}
    assert [gap["path"] for gap in answer.json["gaps"]] == ["app/other.rb"]
    assert desk.app.read(SHARED) == "half d\n"


def test_a_rejected_merge_changes_nothing(desk: Desk) -> None:
    work = desk.start("dispatch", "screens.json", "--review", "--json")
    desk.when(lambda: desk.run("decide", "blog/posts", "reject").code == 0, "it was rejected")
    assert states(desk.end(work)) == {"blog/posts": "idle"}
    assert as_before(desk)


def test_an_analysis_that_fails_leaves_its_last_findings_as_they_were(desk: Desk) -> None:
    findings = desk.root / ".analysis/blog/posts/index/findings.json"
    findings.parent.mkdir(parents=True)
    findings.write_text("those of last week")
    (findings.parent / "by-hand.md").write_text("a person wrote this")
    desk.app.order("analyze", "Path(files[0]).write_text('half')\nsys.exit(1)")
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "error"}
    assert findings.read_text() == "those of last week"
    assert (findings.parent / "by-hand.md").read_text() == "a person wrote this"


def test_the_files_of_a_failed_agent_are_kept_for_a_person_to_read(desk: Desk) -> None:
    desk.app.order("apply", HALF + "sys.exit(1)")
    desk.dispatch("screens.json")
    (left,) = (desk.root / ".holdfast/runs").glob(f"*/left/{SHARED}")
    assert left.read_text() == "half d\n"


# A dispatcher that dies


@pytest.mark.parametrize("phase", ["apply", "test"])
def test_when_the_dispatcher_is_killed_files_are_restored_immediately(
    desk: Desk, phase: str
) -> None:
    desk.settings("test")
    desk.app.order("apply", HALF)
    with open(desk.app.home / f"orders/{phase}", "a") as file:
        file.write(WAITING)
    work = desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "half an edit is there")
    assert not as_before(desk)
    (grant,) = desk.run("status", "--json").json["grants"]
    assert grant["expires_at"] is None, "time alone does not free half an edit"
    desk.kill(work, launchers=False)
    desk.when(lambda: as_before(desk), "its launcher has put them back")


@pytest.mark.parametrize("how", ["lock", "run", "resume", "forget"])
def test_when_all_is_killed_its_files_are_put_back_before_another_has_them(
    desk: Desk, how: str
) -> None:
    desk.app.order("apply", HALF + WAITING)
    work = desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "half an edit is there")
    desk.kill(work, launchers=True)
    assert not as_before(desk)
    if how == "lock":
        desk.when(lambda: desk.run("lock", SHARED).code == 0, "a person may have it")
        assert as_before(desk)
    elif how == "run":
        shown = desk.run("run", "--write", SHARED, "--wait=30s", "--", "cat", SHARED)
        assert (shown.code, shown.out) == (0, "shared\n"), shown
        assert as_before(desk)
    elif how == "forget":
        desk.when(lambda: desk.run("dispatch", "--forget").code == 0, "it is forgotten")
        assert as_before(desk)
    else:
        desk.app.order("apply", LOOKING)
        assert states(desk.dispatch("--resume")) == {"blog/posts": "completed"}
        assert desk.app.read(SHARED) == "shared\nblog/posts\n"


def test_files_that_a_person_took_after_a_kill_are_not_undone_on_resume(desk: Desk) -> None:
    desk.app.order("apply", HALF + WAITING)
    work = desk.start("dispatch", "screens.json")
    desk.when((desk.signs / "up").exists, "half an edit is there")
    desk.kill(work, launchers=True)
    with LockManager.open(desk.root) as manager:
        grant = manager.acquire(holder="ann", write_paths=[SHARED], timeout=PATIENCE_SECONDS)
        (desk.root / SHARED).write_text("by hand\n")
        grant_id = grant.id
        (desk.app.home / "orders/apply").unlink()
        again = desk.start("dispatch", "--resume", "--json")
        desk.when(lambda: _waits(manager), "its merge waits for the person")
        assert desk.app.read(SHARED) == "by hand\n"
        manager.release(grant_id)
    assert states(desk.end(again)) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "by hand\nblog/posts\n"


def _waits(manager: LockManager) -> bool:
    found = ItemStore(manager).items()
    return any(one.phase == "apply" and one.status == "queued" for one in found)


# What cannot be restored


def test_files_that_cannot_be_restored_stay_locked_and_are_an_error_until_they_can(
    desk: Desk,
) -> None:
    desk.app.order("apply", HALF + WAITING + "sys.exit(1)")
    work = desk.start("dispatch", "screens.json", "--json")
    desk.when((desk.signs / "up").exists, "half an edit is there")
    (copy,) = (desk.root / ".holdfast/runs").glob("blog-posts-[0-9]*/before/0")
    copy.rename(desk.app.home / "copy")
    (desk.signs / "go").touch()
    answer = desk.end(work)
    assert states(answer) == {"blog/posts": "error"}
    reason = answer.json["workflows"]["blog/posts"]["reason"]
    assert "apply failed with code 1" in reason
    assert "E_KEEPSAKE" in reason
    assert "holdfast dispatch --resume" in reason
    refused = desk.run("lock", CONTROLLER, SHARED)
    assert refused.code == 3, refused
    for words in (["dispatch", "--forget"], ["dispatch", "screens.json"]):
        assert "E_KEEPSAKE" in desk.run(*words, "--json").out
    assert desk.run("lock", CONTROLLER, SHARED).code == 3, "nothing was silently released"
    (desk.app.home / "copy").rename(copy)
    desk.run("dispatch", "--resume")
    assert as_before(desk)
    assert desk.run("status", "--json").json["grants"] == []


def test_an_item_whose_files_another_process_restored_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the launcher is killed right after its agent has ended, and a person takes the
    file."""
    app = Application(tmp_path / "repository", ONE)
    times: list[str] = []
    after = Pipeline._after

    def put_back_first(self: Pipeline, item: WorkItem, ended: Any) -> Any:
        times.append(item.id)
        if len(times) == 1:
            Run(self.root, item.id).put_back()
        return after(self, item, ended)

    monkeypatch.setattr(Pipeline, "_after", put_back_first)
    try:
        assert app.run() == {"blog/posts": "completed"}
        assert app.read(CONTROLLER) == "old\nblog/posts\n"
        assert len(times) == 2
    finally:
        app.close()


# What is finished


@NEEDS_LANDLOCK
def test_amend_writes_what_was_missing_and_applies_nothing_twice(desk: Desk) -> None:
    desk.app.order("apply", GREEDY)
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "completed"}
    before = desk.app.read(CONTROLLER), desk.app.read(SHARED)
    assert desk.dispatch("--amend").code == 0
    assert desk.app.read("app/missed.rb") == "needed\n"
    assert (desk.app.read(CONTROLLER), desk.app.read(SHARED)) == before


#: An agent that wants to write a file that no analysis had named, and does the rest.
GREEDY = """
for file in files:
    if file != "app/missed.rb":
        with open(file, "a") as stream:
            stream.write(f"{name}\\n")
try:
    Path("app/missed.rb").write_text("needed\\n")
except OSError as error:
    print("refused", error)
"""


def test_a_second_run_of_a_manifest_applies_nothing_twice_and_says_so(desk: Desk) -> None:
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "shared\nblog/posts\n"
    again = desk.dispatch("screens.json")
    assert states(again) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "shared\nblog/posts\n"
    assert again.json["items"] == 0
    assert "--forget" in again.json["workflows"]["blog/posts"]["reason"]


def test_a_second_run_does_what_failed_and_not_what_was_done(two: Desk) -> None:
    two.app.order("apply-shop-carts", HALF + "sys.exit(1)")
    first = two.dispatch("screens.json")
    assert states(first) == {"blog/posts": "completed", "shop/carts": "error"}
    (two.app.home / "orders/apply-shop-carts").unlink()
    again = two.dispatch("screens.json")
    assert states(again) == {"blog/posts": "completed", "shop/carts": "completed"}
    assert two.app.read(SHARED) == "shared\nblog/posts\nshop/carts\n"
    assert two.app.read("app/controllers/shop/carts_controller.rb") == "old\nshop/carts\n"


def test_a_screen_that_is_new_is_merged_alone(desk: Desk) -> None:
    desk.dispatch("screens.json")
    (desk.root / "screens.json").write_text(json.dumps(manifest({"blog/posts": ["index", "show"]})))
    show = _analysis("blog/posts/show").replace(CONTROLLER, "app/new.rb")
    desk.app.order("analyze-blog-posts-show", show)
    desk.app.order("analyze-blog-posts-index", "sys.exit(1)")
    desk.settings("test")
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "completed"}, answer
    assert desk.app.read(CONTROLLER) == "old\nblog/posts\n"
    assert desk.app.read("app/new.rb") == "blog/posts\n"
    assert desk.dispatch("screens.json").json["items"] == 0


def test_finished_merges_are_known_after_another_manifest(desk: Desk) -> None:
    desk.dispatch("screens.json")
    (desk.root / "other.json").write_text(json.dumps(manifest({"shop/carts": ["index"]})))
    desk.dispatch("other.json")
    assert desk.dispatch("screens.json").json["items"] == 0
    assert desk.app.read(CONTROLLER) == "old\nblog/posts\n"


def test_a_forgotten_task_is_done_again(desk: Desk) -> None:
    desk.dispatch("screens.json")
    assert desk.run("dispatch", "--forget").code == 0
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "completed"}
    assert desk.app.read(CONTROLLER) == "old\nblog/posts\nblog/posts\n"


@NEEDS_LANDLOCK
def test_an_amendment_that_fails_can_be_made_again_and_leaves_what_was_done(desk: Desk) -> None:
    desk.app.order("apply", GREEDY)
    desk.dispatch("screens.json")
    before = desk.app.read(CONTROLLER), desk.app.read(SHARED)
    desk.app.order("apply", f"{GREEDY}sys.exit(1)")
    assert states(desk.dispatch("--amend")) == {"blog/posts": "error"}
    assert not (desk.root / "app/missed.rb").exists()
    assert (desk.app.read(CONTROLLER), desk.app.read(SHARED)) == before
    desk.app.order("apply", GREEDY)
    assert states(desk.dispatch("--amend")) == {"blog/posts": "completed"}
    assert desk.app.read("app/missed.rb") == "needed\n"
    assert (desk.app.read(CONTROLLER), desk.app.read(SHARED)) == before
    assert "no gaps to amend" in desk.run("dispatch", "--amend").err


@NEEDS_LANDLOCK
def test_a_finished_file_that_an_amendment_wants_is_refused_and_listed_as_such(desk: Desk) -> None:
    desk.app.order("apply", GREEDY)
    desk.dispatch("screens.json")
    before = desk.app.read(SHARED)
    again = "try: open('app/shared.rb', 'a').write('again')\nexcept OSError: pass\n"
    desk.app.order("apply", GREEDY + again)
    assert desk.dispatch("--amend").code == 0
    assert desk.app.read(SHARED) == before
    gaps = {gap["path"]: gap for gap in desk.run("gaps", "--json").json["gaps"]}
    assert {path: gap["finished"] for path, gap in gaps.items()} == {
        "app/missed.rb": False, SHARED: True,
    }  # fmt: skip
    assert not any(gap["missing"] for gap in gaps.values())
    assert "analyse it again" in " ".join(desk.run("gaps").out.split())


@NEEDS_LANDLOCK
def test_a_merge_that_failed_is_amended_as_a_whole(desk: Desk) -> None:
    desk.app.order("apply", f"{GREEDY}sys.exit(1)")
    desk.dispatch("screens.json")
    assert as_before(desk)
    desk.app.order("apply", GREEDY)
    assert states(desk.dispatch("--amend")) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "shared\nblog/posts\n"
    assert desk.app.read("app/missed.rb") == "needed\n"


def test_one_that_is_amended_is_told_that_the_rest_is_done(tmp_path: Path) -> None:
    from holdfast.work.screens.phases import APPLY_PROMPT, default_phases

    plain = default_phases()["apply"]
    assert plain.prompt == APPLY_PROMPT
    assert "do not do it again" in plain.amending().prompt
