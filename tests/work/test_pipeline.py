"""Two phases: every screen is analysed, then each controller is merged, with real agents."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from helpers_processes import PATIENCE_SECONDS
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_work import Application, manifest
from holdfast import InvalidInput, LockViolationError
from holdfast.manager.manager import LockManager
from holdfast.work.engine.scheduler import Scheduler
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens import workflow_states
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.pipeline import Pipeline
from holdfast.work.screens.run_report import report
from holdfast.work.screens.workflow_records import STATE_CHANGED
from holdfast.work.screens.workflow_states import (
    TransitionError,
    follow,
    may_follow,
)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="launchers need Linux: subreaper, pidfd, Landlock"
)

#: Orders for an agent: to wait until the test lets it continue, and to find something.
AFTER_GO = "while not (home / 'go').exists(): time.sleep(0.01)\n"
FOUND = """
screen = name.split("/")[2]
targets = [f"app/{screen}.rb", "app/shared.rb"]
found = {"screen": screen, "findings": ["tidy up"], "write_targets": targets}
Path(files[0]).write_text(json.dumps(found))
"""

ONE = {"blog/posts": ["index"]}
TWO = {"blog/posts": ["index", "show"], "shop/carts": ["index"]}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Application]]:
    every: list[Application] = []
    yield every
    for application in every:
        application.close()


@pytest.fixture
def app(tmp_path: Path, made: list[Application]) -> Application:
    made.append(Application(tmp_path / "repository", TWO))
    return made[0]


@pytest.fixture
def small(tmp_path: Path, made: list[Application]) -> Application:
    made.append(Application(tmp_path / "repository", ONE))
    return made[0]


def test_every_screen_is_analysed_and_every_controller_merged(app: Application) -> None:
    assert app.run() == {"blog/posts": "completed", "shop/carts": "completed"}
    assert app.read("app/controllers/blog/posts_controller.rb") == "old\nblog/posts\n"
    assert sorted(app.read("app/shared.rb").split()) == ["blog/posts", "shop/carts"]
    assert app.manager is not None
    assert app.manager.active_grants() == []


def test_seed004_05_an_analysis_reads_its_screen_and_writes_its_own_folder(
    small: Application,
) -> None:
    """The files of its controller and those that the manifest declares for it, and nothing else;
    until it is done."""
    declared = ["app/controllers/concerns/authentication.rb", "app/models/concerns/"]
    screens = manifest(ONE)
    screens["screens"][0]["reads_from"] = declared
    small.manifest_file.write_text(json.dumps(screens))
    small.order("analyze", "print(os.environ['HOLDFAST_GRANT'], flush=True)\n" + AFTER_GO + FOUND)
    small.open(review=True).start()
    assert small.manager is not None
    manager = small.manager
    small.when(lambda: bool(manager.active_grants()), "it is out")
    (grant,) = manager.active_grants()
    assert grant.write_paths == (".analysis/blog/posts/index/findings.json",)
    assert set(grant.read_paths) == {
        "app/controllers/blog/posts_controller.rb", "app/views/blog/posts/",
        "app/models/blog/post.rb", *declared,
    }  # fmt: skip
    for path in (*grant.write_paths, declared[0], "app/models/concerns/x.rb",
                 "app/controllers/blog/posts_controller.rb", "app/views/blog/posts/deep/x.erb",
                 "app/models/blog/post.rb"):  # fmt: skip
        assert manager.try_acquire(holder="bob", write_paths=[path]) is None, path
    assert manager.try_acquire(holder="bob", read_paths=grant.read_paths) is not None
    for path in ("app/shared.rb", "app/views/blog/pages/x.erb", "app/models/blog/page.rb",
                 "app/controllers/concerns/x.rb", ".analysis/blog/posts/show/x.json"):  # fmt: skip
        assert manager.try_acquire(holder="eve", write_paths=[path]) is not None, path
    (small.home / "go").touch()
    small.when(lambda: small.states() == {"blog/posts": "awaiting_decisions"}, "it is done")
    assert {one.holder for one in manager.active_grants()} == {"bob", "eve"}
    (log,) = (small.root / ".holdfast/runs").glob("*/analyze.log")
    assert log.read_text().split() == [grant.id]
    found = json.loads(small.read(".analysis/blog/posts/index/findings.json"))
    assert found["write_targets"] == ["app/index.rb", "app/shared.rb"]
    (item,) = small.items()
    assert item.data["write_targets"] == found["write_targets"]


def test_seed004_09_every_screen_has_an_item_and_all_of_them_are_out_at_once(
    app: Application,
) -> None:
    app.order("analyze", AFTER_GO + FOUND)
    app.open(review=True).start()
    assert app.manager is not None
    manager = app.manager
    screens = ScreenManifest.load(app.manifest_file)
    assert {(one.workflow, one.phase): one.lock_request for one in app.items()} == {
        (screen.workflow, "analyze"): Layout().analysis_request(screen) for screen in screens
    }
    app.when(lambda: len(manager.active_grants()) == 3, "all are out")
    (app.home / "go").touch()
    waiting = {"blog/posts": "awaiting_decisions", "shop/carts": "awaiting_decisions"}
    app.when(lambda: app.states() == waiting, "all are done")
    assert manager.active_grants() == []


def test_seed004_06_a_merge_locks_exactly_its_targets_from_apply_to_verify(
    tmp_path: Path, made: list[Application]
) -> None:
    """The targets of all its screens; and it reads what their analyses have written."""
    app = Application(tmp_path / "repository", {"blog/posts": ["index", "show"]})
    made.append(app)
    app.settings("test fix ci verify")
    app.order("analyze", FOUND)
    app.write("app/index.rb", "old")
    told = "print(os.environ['HOLDFAST_GRANT'])\n"
    app.order("apply", told)
    app.order("test", f"{told}sys.exit('fixed' not in Path('app/index.rb').read_text())")
    app.order("fix", f"{told}Path('app/index.rb').write_text('fixed')")
    app.order("ci", told)
    app.order("verify", told + AFTER_GO)
    pipeline = app.open()
    pipeline.start()
    verifying = {"blog/posts": "verifying"}
    app.when(lambda: app.states() == verifying or pipeline.is_done(), "it is verified")
    assert app.states() == verifying, app.reason("blog/posts")
    assert app.manager is not None
    manager = app.manager
    (grant,) = manager.active_grants()
    assert set(grant.write_paths) == {"app/index.rb", "app/show.rb", "app/shared.rb"}
    assert set(grant.read_paths) == {".analysis/blog/posts/index/", ".analysis/blog/posts/show/"}
    for path in (*grant.write_paths, ".analysis/blog/posts/show/findings.json"):
        assert manager.try_acquire(holder="bob", write_paths=[path]) is None, path
    (app.home / "go").touch()
    app.when(pipeline.is_done, "all is done")
    assert app.states() == {"blog/posts": "completed"}, app.reason("blog/posts")
    assert manager.active_grants() == []
    phases = [phase for name, phase, status in app.seen if status == "dispatched"]
    assert phases == ["analyze", "analyze", "apply", "test", "fix", "test", "ci", "verify"]
    (folder,) = (app.root / ".holdfast/runs").glob("blog-posts-[0-9]*")
    said = [log.read_text().split() for log in folder.glob("*.log")]
    assert said == [[grant.id]] * 6
    events = list(manager.events())
    assert [e.type for e in events if grant.id in (e.data.get("id"), e.data.get("grant"))] == [
        "lock_acquired", "lock_released",
    ]  # fmt: skip
    (given,) = [e for e in events if e.data.get("grant") == grant.id]
    assert given.seq > max(e.seq for e in events if e.type == "work_dispatched")


@pytest.mark.parametrize("phase", ["apply", "verify"])
def test_seed004_06_after_an_error_the_locks_of_a_merge_are_free(
    small: Application, phase: str
) -> None:
    small.settings("verify")
    small.order("analyze", FOUND)
    small.order(phase, "sys.exit(3)")
    assert small.run() == {"blog/posts": "error"}
    assert small.reason("blog/posts").startswith(f"blog/posts: {phase} failed with code 3")
    assert small.manager is not None
    assert small.manager.active_grants() == []
    targets = ["app/index.rb", "app/shared.rb"]
    assert small.manager.try_acquire(holder="bob", write_paths=targets) is not None


def test_seed004_11_a_merge_begins_as_soon_as_its_own_screens_are_done(app: Application) -> None:
    """Not later: one screen of the other controller is done only after it. And not earlier."""
    app.order("analyze-blog-posts-show", "merged = Path('app/shared.rb')\n"
              "end = time.monotonic() + 20\n"
              "while not (merged.exists() and 'shop/carts' in merged.read_text()):\n"
              "    assert time.monotonic() < end, 'the other is not merged'\n"
              "    time.sleep(0.01)\n" + FOUND)  # fmt: skip
    pipeline = app.open()
    pipeline.start()
    app.when(lambda: pipeline.is_done() or "error" in app.states().values(), "all is done")
    assert app.states() == {"blog/posts": "completed", "shop/carts": "completed"}
    assert app.manager is not None
    told = [(e.type, e.data["workflow"]) for e in app.manager.events() if "phase" in e.data]
    order = [
        told.index(one)
        for one in (
            ("work_ended", "shop/carts/index"), ("work_queued", "shop/carts"),
            ("work_dispatched", "shop/carts"), ("work_ended", "blog/posts/show"),
            ("work_queued", "blog/posts"),
        )
    ]  # fmt: skip
    assert order == sorted(order)


def test_seed004_12_a_later_phase_gets_the_slot_first(app: Application) -> None:
    app.settings("test", "slots = 1")
    app.order("analyze", "found = {'screen': name.split('/')[2], 'findings': [], 'write_targets': "
              "[f'app/{name}.rb']}\nPath(files[0]).write_text(json.dumps(found))")  # fmt: skip
    app.run()
    assert [(name, phase) for name, phase, status in app.seen if status == "dispatched"] == [
        ("blog/posts/index", "analyze"), ("blog/posts/show", "analyze"),
        ("blog/posts", "apply"), ("blog/posts", "test"),
        ("shop/carts/index", "analyze"), ("shop/carts", "apply"), ("shop/carts", "test"),
    ]  # fmt: skip


# Mistakes of agents


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("pass", "E_FINDINGS"),
        ("Path(files[0]).write_text('no JSON')", "E_FINDINGS"),
        ('Path(files[0]).write_text(\'{"screen": "index"}\')', "findings: missing"),
        ("sys.exit(7)", "analyze failed with code 7"),
    ],
)
def test_an_analysis_that_is_none_is_an_error_for_the_operator(
    small: Application, order: str, said: str
) -> None:
    small.order("analyze", order)
    assert small.run() == {"blog/posts": "error"}
    assert said in small.reason("blog/posts")
    assert small.manager is not None
    assert small.manager.active_grants() == []


@pytest.mark.parametrize(
    ("target", "code"),
    [("app/", "E_OVER_LOCK"), ("../out.rb", "E_FINDINGS"), ("/etc/passwd", "E_FINDINGS")],
)
def test_seed004_04_and_28_bad_write_targets_are_surfaced(
    small: Application, target: str, code: str
) -> None:
    found = json.dumps({"screen": "index", "findings": [], "write_targets": [target]})
    small.order("analyze", f"Path(files[0]).write_text({found!r})")
    assert small.run() == {"blog/posts": "error"}
    assert code in small.reason("blog/posts")


def test_one_that_has_nothing_to_write_is_done(small: Application) -> None:
    found = json.dumps({"screen": "index", "findings": [], "write_targets": []})
    small.order("analyze", f"Path(files[0]).write_text({found!r})")
    assert small.run() == {"blog/posts": "completed"}
    assert small.reason("blog/posts") == "there was nothing to write"


def test_seed004_31_an_agent_that_is_killed_is_tried_again_with_its_files_as_they_were(
    small: Application,
) -> None:
    small.order(
        "apply",
        "(log,) = Path('.holdfast/runs').glob('blog-posts-[0-9]*/apply.log')\n"
        "is_first = not log.read_text()\n"
        "print(Path(files[0]).read_text(), end='', flush=True)\n"
        "Path(files[0]).write_text('half ')\n"
        "if is_first:\n    os.kill(os.getpid(), 9)\n",
    )
    assert small.run() == {"blog/posts": "completed"}, small.reason("blog/posts")
    assert small.seen.count(("blog/posts", "apply", "dispatched")) == 2
    (log,) = (small.root / ".holdfast/runs").glob("blog-posts-[0-9]*/apply.log")
    assert log.read_text() == "old\nold\n", "what each of the two found"
    assert small.manager is not None
    assert small.manager.active_grants() == []


def test_seed004_31_an_agent_that_is_always_killed_is_an_error_in_the_end(
    small: Application,
) -> None:
    small.order("apply", "os.kill(os.getpid(), 9)")
    assert small.run() == {"blog/posts": "error"}
    assert small.seen.count(("blog/posts", "apply", "dispatched")) == 3
    assert "killed by signal 9" in small.reason("blog/posts")
    assert small.manager is not None
    assert small.manager.active_grants() == []


def test_an_agent_that_never_ends_is_an_error(small: Application) -> None:
    text = (small.root / "holdfast.toml").read_text()
    limited = text.replace("[work.apply]", "[work.apply]\ntimeout_seconds = 0.5")
    (small.root / "holdfast.toml").write_text(limited)
    small.order("apply", "time.sleep(1000)")
    assert small.run() == {"blog/posts": "error"}
    assert "timeout" in small.reason("blog/posts")


@NEEDS_LANDLOCK
def test_seed004_35_an_undeclared_file_is_refused_and_the_agent_completes_what_it_can(
    small: Application,
) -> None:
    small.order(
        "apply",
        "try:\n    Path('app/undeclared.rb').write_text('x')\n"
        "except OSError as error:\n    print('refused', error)\n"
        "Path(files[0]).write_text('done\\n')\n",
    )
    assert small.run() == {"blog/posts": "completed"}
    assert not (small.root / "app/undeclared.rb").exists()
    assert small.read("app/controllers/blog/posts_controller.rb") == "done\n"
    assert small.manager is not None
    (gap,) = report(small.manager).gaps
    assert (gap.path, gap.workflow, gap.phase) == ("app/undeclared.rb", "blog/posts", "apply")
    assert gap.screens == ("blog/posts/index",)


@NEEDS_LANDLOCK
def test_seed004_15_even_a_bug_in_the_scheduler_cannot_produce_an_unprotected_write(
    small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent is told to write a file that was never locked for it, and that another holds."""
    locked = Layout.merge_request

    def forgetful(self: Layout, screens: Any, write_targets: Any) -> Any:
        kept = [path for path in write_targets if path != "app/shared.rb"]
        return locked(self, screens, kept)

    monkeypatch.setattr(Layout, "merge_request", forgetful)
    small.order("analyze", FOUND)
    small.order(
        "apply",
        "for file in sorted(files):\n"
        "    try:\n        Path(file).write_text('x')\n"
        "    except OSError as error:\n        print('refused', file, error)\n",
    )
    small.write("app/shared.rb", "bob's")
    pipeline = small.open()
    assert small.manager is not None
    assert small.manager.try_acquire(holder="bob", write_paths=["app/shared.rb"]) is not None
    pipeline.start()
    small.when(pipeline.is_done, "all is done")
    assert small.states() == {"blog/posts": "completed"}, small.reason("blog/posts")
    assert small.read("app/shared.rb") == "bob's"
    assert small.read("app/index.rb") == "x"
    assert [gap.path for gap in report(small.manager).gaps] == ["app/shared.rb"]


def test_seed004_19_a_merge_that_is_out_is_given_no_more_files(small: Application) -> None:
    small.order("apply", "while not (home / 'go').exists(): time.sleep(0.01)")
    pipeline = small.open()
    pipeline.start()
    small.when(lambda: small.states() == {"blog/posts": "applying"}, "it is out")
    assert small.manager is not None
    (grant,) = small.manager.active_grants()
    with pytest.raises(TransitionError):
        pipeline.amend("blog/posts", ["app/missed.rb"], by="a test")
    (small.home / "go").touch()
    small.when(pipeline.is_done, "all is done")
    assert small.states() == {"blog/posts": "completed"}
    assert set(grant.write_paths) == {"app/controllers/blog/posts_controller.rb", "app/shared.rb"}
    taken = [e.data for e in small.manager.events() if e.type == "lock_acquired"]
    assert [one["id"] for one in taken if "app/shared.rb" in one["paths"]] == [grant.id]
    assert not any("app/missed.rb" in one["paths"] for one in taken)


def test_seed004_28_a_merge_locks_the_targets_of_all_its_screens_each_once(
    app: Application,
) -> None:
    app.order(
        "analyze",
        "screen = name.split('/')[2]\n"
        "found = {'screen': screen, 'findings': [],"
        " 'write_targets': ['app/shared.rb', f'app/{screen}.rb']}\n"
        "Path(files[0]).write_text(json.dumps(found))",
    )
    assert app.run() == {"blog/posts": "completed", "shop/carts": "completed"}
    assert app.pipeline is not None
    assert app.pipeline.item_store is not None
    (merge,) = [item for item in app.pipeline.item_store.items() if item.workflow == "blog/posts"]
    targets = ("app/shared.rb", "app/index.rb", "app/show.rb")
    assert merge.lock_request.write_paths == targets
    assert app.manager is not None
    (taken,) = [
        e.data
        for e in app.manager.events()
        if e.type == "lock_acquired" and e.data["id"] == merge.grant_id
    ]
    assert set(targets) <= set(taken["paths"])
    assert all("blog/posts" in app.read(path) for path in targets), "it wrote each of them"


# Test, fix, verify


def test_a_failed_test_is_fixed_and_tested_again(small: Application) -> None:
    small.settings("test fix")
    small.order("test", "sys.exit('fixed' not in Path(files[0]).read_text())")
    small.order("fix", "Path(files[0]).write_text('fixed\\n')")
    assert small.run() == {"blog/posts": "completed"}
    phases = [phase for _name, phase, status in small.seen if status == "dispatched"]
    assert phases == ["analyze", "apply", "test", "fix", "test"]


def test_a_failed_ci_is_fixed_and_run_again(small: Application) -> None:
    small.settings("fix ci")
    small.order("ci", "sys.exit('fixed' not in Path(files[0]).read_text())")
    small.order("fix", "Path(files[0]).write_text('fixed\\n')")
    assert small.run() == {"blog/posts": "completed"}


def test_a_check_that_still_fails_after_all_rounds_is_an_error(small: Application) -> None:
    small.settings("test fix")
    small.order("test", "sys.exit(5)")
    assert small.run() == {"blog/posts": "error"}
    phases = [phase for _name, phase, status in small.seen if status == "dispatched"]
    assert phases.count("fix") == 3
    assert small.reason("blog/posts") == "blog/posts: test failed with code 5 after 0 s"


# Decisions


def test_with_review_a_merge_waits_until_a_person_decides(app: Application) -> None:
    pipeline = app.open(review=True)
    pipeline.start()
    waiting = {"blog/posts": "awaiting_decisions", "shop/carts": "awaiting_decisions"}
    app.when(lambda: app.states() == waiting, "both wait")
    pipeline.decide("blog/posts", approve=True, by="ann")
    pipeline.decide("shop/carts", approve=False, by="ann")
    app.when(pipeline.is_done, "all is done")
    assert app.states() == {"blog/posts": "completed", "shop/carts": "idle"}
    assert app.reason("shop/carts") == "rejected by ann"
    assert app.read("app/shared.rb") == "blog/posts\n"
    with pytest.raises(TransitionError):
        pipeline.decide("shop/carts", approve=True, by="ann")
    with pytest.raises(InvalidInput):
        pipeline.decide("no/such", approve=True, by="ann")


def test_another_process_may_decide(small: Application) -> None:
    pipeline = small.open(review=True)
    pipeline.start()
    small.when(lambda: small.states() == {"blog/posts": "awaiting_decisions"}, "it waits")
    other = Pipeline(
        lock_manager=small.manager, screen_manifest=ScreenManifest.load(small.manifest_file)
    )
    other.decide("blog/posts", approve=True, by="another person")
    small.when(pipeline.is_done, "all is done")
    assert small.states() == {"blog/posts": "completed"}


def test_a_merge_can_be_amended_with_files_that_were_missed(small: Application) -> None:
    small.run()
    assert small.pipeline is not None
    small.pipeline.amend("blog/posts", ["app/missed.rb"], by="a test")
    small.when(small.pipeline.is_done, "all is done")
    assert small.read("app/missed.rb") == "blog/posts\n"
    assert small.read("app/shared.rb") == "blog/posts\n", "what is done is not done again"


def test_a_controller_can_be_analysed_anew(small: Application) -> None:
    small.run()
    assert small.pipeline is not None
    small.pipeline.analyze("blog/posts")
    small.when(small.pipeline.is_done, "all is done")
    assert small.read("app/shared.rb") == "blog/posts\nblog/posts\n"


# After a crash


def test_finished_tasks_are_not_done_again(small: Application) -> None:
    small.run()
    small.close()
    small.seen.clear()
    small.pipeline = None
    assert small.run() == {"blog/posts": "completed"}
    assert small.seen == []


def test_a_merge_that_is_cut_off_in_a_later_phase_begins_again_with_the_first(
    small: Application,
) -> None:
    small.settings("test")
    small.order("test", "time.sleep(1000)")
    pipeline = small.open()
    pipeline.start()
    small.when(lambda: ("blog/posts", "test", "dispatched") in small.seen, "it is tested")
    pipeline.halt()
    small.when(lambda: ("blog/posts", "apply", "queued") in small.seen[-1:], "it was cut off")
    assert small.states() == {"blog/posts": "queued"}
    assert small.read("app/controllers/blog/posts_controller.rb") == "old\n"
    small.close()
    small.order("test", "sys.exit('blog/posts' not in Path(files[0]).read_text())")
    small.pipeline = None
    assert small.run() == {"blog/posts": "completed"}
    assert small.read("app/controllers/blog/posts_controller.rb") == "old\nblog/posts\n"


def test_a_rejected_merge_stays_rejected_after_a_restart(small: Application) -> None:
    pipeline = small.open(review=True)
    pipeline.start()
    small.when(lambda: small.states() == {"blog/posts": "awaiting_decisions"}, "it waits")
    pipeline.decide("blog/posts", approve=False, by="ann")
    small.close()
    small.pipeline = None
    assert small.run() == {"blog/posts": "idle"}


def test_of_two_that_start_at_once_each_screen_is_queued_by_one(small: Application) -> None:
    pipeline = small.open(review=True)
    manifest = ScreenManifest.load(small.manifest_file)
    with LockManager.open(small.root) as manager:
        other = Pipeline.open(manager, manifest, review=True)
        small.order("analyze", "while not (home / 'go').exists(): time.sleep(0.01)")
        pipeline.start()
        other.start()
        assert pipeline.item_store is not None
        assert [item.workflow for item in pipeline.item_store.items()] == ["blog/posts/index"]
        other.halt()
        other.stop()


def test_files_are_put_back_as_they_were(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.sh").write_text("old\n")
    (root / "a.sh").chmod(0o755)
    (root / "link").symlink_to("a.sh")
    run = Run(str(root), "item")
    run.keep(["a.sh", "new/made.rb", "link", "gone.rb"])
    (root / "a.sh").write_text("half")
    (root / "a.sh").chmod(0o600)
    (root / "new").mkdir()
    (root / "new/made.rb").write_text("x")
    (root / "link").unlink()
    assert sorted(run.put_back()) == ["a.sh", "link", "new/made.rb"]
    assert (root / "a.sh").read_text() == "old\n"
    assert (root / "a.sh").stat().st_mode & 0o777 == 0o755
    assert not (root / "new/made.rb").exists()
    assert (root / "link").readlink() == Path("a.sh")
    assert run.put_back() == []


def test_a_copy_that_is_not_whole_is_never_put_back(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.rb").write_text("old\n")
    run = Run(str(root), "item")
    run.keep(["a.rb"])
    Path(run.folder, "before.json").unlink()
    (root / "a.rb").write_text("new\n")
    assert run.put_back() == []
    assert (root / "a.rb").read_text() == "new\n"


# Without locks


def test_seed004_16_and_25_without_a_lock_manager_nothing_is_locked(
    small: Application,
) -> None:
    legacy = Pipeline(
        screen_manifest=ScreenManifest.load(small.manifest_file), root=str(small.root)
    )
    found = legacy.run_analysis("blog/posts")
    assert found["write_targets"] == ["app/controllers/blog/posts_controller.rb", "app/shared.rb"]
    assert legacy.run_apply("blog/posts").is_well
    assert small.read("app/shared.rb") == "blog/posts\n"
    assert not (small.root / ".holdfast/ledger.db").exists()
    with pytest.raises(InvalidInput):
        legacy.start()


@pytest.mark.parametrize("in_memory", [True, False])
def test_seed004_25_the_pipeline_is_made_with_its_collaborators(
    small: Application, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the document: a manager, a scheduler on it, a manifest. Without launchers its agents
    run directly below this process, and are told the grant that they work under."""
    monkeypatch.chdir(small.root)
    small.order("analyze", "print(os.environ['HOLDFAST_GRANT'], os.environ['HOLDFAST_TOKEN'])\n"
                "found = {'screen': 'index', 'findings': [], 'write_targets': ['app/shared.rb']}\n"
                "Path(files[0]).write_text(json.dumps(found))")  # fmt: skip
    with LockManager() if in_memory else LockManager.open(small.root) as manager:
        pipeline = Pipeline(
            lock_manager=manager, scheduler=Scheduler(lock_manager=manager),
            screen_manifest=ScreenManifest.load(small.manifest_file),
        )  # fmt: skip
        try:
            pipeline.start()
            small.when(pipeline.is_done, "all is done")
            assert pipeline.flows is not None
            flow = pipeline.flows.get("blog/posts")
            assert (flow.state, flow.reason) == ("completed", "")
        finally:
            pipeline.stop()
        (log,) = (small.root / ".holdfast/runs").glob("*/analyze.log")
        granted = {
            (e.data["id"], str(e.data["token"]))
            for e in manager.events()
            if e.type == "lock_acquired"
        }
    assert tuple(log.read_text().split()) in granted
    assert small.read("app/shared.rb") == "blog/posts\n"


@pytest.mark.parametrize("in_memory", [True, False])
def test_seed004_25_the_constructor_of_the_document_works_as_it_stands(
    app: Application, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a semaphore that other parts of the program use as well: no more agents run than it has
    permits, and these are returned."""
    monkeypatch.chdir(app.root)
    lock_manager = LockManager() if in_memory else LockManager.open(".")
    claude_semaphore = threading.Semaphore(2)
    pipeline = Pipeline(
        lock_manager=lock_manager,
        scheduler=Scheduler(lock_manager=lock_manager, claude_semaphore=claude_semaphore),
        screen_manifest=ScreenManifest.load("screens.json"),
    )
    assert claude_semaphore.acquire(blocking=False), (
        "another part of the program has one of the two"
    )
    try:
        pipeline.start()
        app.when(pipeline.is_done, "all is done")
        assert pipeline.flows is not None
        reached = {flow.name: (flow.state, flow.reason) for flow in pipeline.flows.all().values()}
        assert reached == {"blog/posts": ("completed", ""), "shop/carts": ("completed", "")}
        events = list(lock_manager.events())
    finally:
        pipeline.stop()
        lock_manager.close()
    out, most = 0, 0
    for event in events:
        out += {"work_dispatched": 1, "work_ended": -1}.get(event.type, 0)
        most = max(most, out)
    assert (most, out) == (1, 0)
    claude_semaphore.release()
    taken = [claude_semaphore.acquire(blocking=False) for _ in range(3)]
    assert taken == [True, True, False], "every agent has given its permit back"


def test_a_pipeline_with_a_scheduler_of_its_callers_puts_back_what_a_failed_merge_wrote(
    small: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.root)
    (small.root / "app/shared.rb").write_text("as it was\n")
    small.order("analyze", "found = {'screen': 'index', 'findings': [], 'write_targets': "
                "['app/shared.rb']}\nPath(files[0]).write_text(json.dumps(found))")  # fmt: skip
    small.order("apply", "Path('app/shared.rb').write_text('half')\nsys.exit(3)")
    with LockManager.open(small.root) as manager:
        pipeline = Pipeline(
            lock_manager=manager, scheduler=Scheduler(lock_manager=manager),
            screen_manifest=ScreenManifest.load(small.manifest_file),
        )  # fmt: skip
        try:
            pipeline.start()
            small.when(pipeline.is_done, "all is done")
            assert pipeline.flows is not None
            assert pipeline.flows.get("blog/posts").state == "error"
        finally:
            pipeline.stop()
        assert list(manager.active_grants()) == []
    assert small.read("app/shared.rb") == "as it was\n"


# States


def test_seed004_26_queued_comes_between_idle_and_analyzing() -> None:
    assert may_follow(workflow_states.IDLE, workflow_states.QUEUED)
    assert may_follow(workflow_states.QUEUED, workflow_states.ANALYZING)
    assert not may_follow(workflow_states.IDLE, workflow_states.ANALYZING)
    way = [
        "idle", "queued", "analyzing", "awaiting_decisions", "queued", "applying", "testing",
        "fixing", "testing", "ci", "verifying", "completed",
    ]  # fmt: skip
    for state, to in pairwise(way):
        assert follow("w", state, to) == to


def test_seed004_26_a_workflow_is_queued_until_its_locks_are_free(small: Application) -> None:
    pipeline = small.open()
    assert small.manager is not None
    scheduler = pipeline.scheduler
    assert scheduler is not None
    held = small.manager.acquire(
        holder="somebody", write_paths=["app/controllers/blog/posts_controller.rb"]
    )
    pipeline.start()
    small.when(lambda: bool(scheduler.waiting_items()[0][1]), "it was tried")
    assert small.states() == {"blog/posts": "queued"}
    small.manager.release(held.id)
    small.when(pipeline.is_done, "all is done")
    told = [e.data["state"] for e in small.manager.events() if e.type == STATE_CHANGED]
    assert told == [
        "queued", "analyzing", "awaiting_decisions", "queued", "applying", "completed",
    ]  # fmt: skip


@pytest.mark.parametrize("state", workflow_states.STATES)
def test_an_illegal_transition_is_refused(state: str) -> None:
    with pytest.raises(TransitionError) as error:
        follow("blog/posts", state, state)
    assert error.value.fields["workflow"] == "blog/posts"


def test_seed004_07_a_workflow_is_named_with_its_module() -> None:
    both = {"blog/posts": ["index"], "shop/posts": ["index"]}
    parsed = ScreenManifest.parse(json.dumps(manifest(both)).encode())
    assert list(parsed.groups) == ["blog/posts", "shop/posts"]


def test_seed004_27_phases_take_the_grant_that_they_work_under(small: Application) -> None:
    """Each of them; and without a grant it is as before there were locks."""
    import inspect

    for name in ("analysis", "apply", "test", "fix", "ci", "verify"):
        phase = getattr(Pipeline, f"run_{name}")
        assert inspect.signature(phase).parameters["grant_id"].default is None
    small.order("apply", "print(os.environ['HOLDFAST_GRANT'])")
    small.run()
    (log,) = (small.root / ".holdfast/runs").glob("*/apply.log")
    assert small.manager is not None
    granted = {e.data["id"] for e in small.manager.events() if e.type == "lock_acquired"}
    assert log.read_text().strip() in granted


PHASES = ("analysis", "apply", "test", "fix", "ci", "verify")


def refusals(pipeline: Pipeline, name: str, grant_id: Any, reason: str) -> None:
    """Every phase refuses this grant, for this reason, and no agent starts."""
    for phase in PHASES:
        with pytest.raises(LockViolationError) as caught:
            getattr(pipeline, f"run_{phase}")(name, grant_id=grant_id)
        assert (caught.value.code, caught.value.fields["reason"]) == ("E_LOCK_VIOLATION", reason)
        assert caught.value.hint


def test_seed004_27_a_made_up_released_expired_or_foreign_grant_id_is_refused(
    small: Application,
) -> None:
    """By every phase, each with its own reason: only without any grant it is as before there were
    locks. Another holder has the file meanwhile, and what it wrote stays."""
    small.settings("test fix ci verify")
    for phase in ("analyze", "apply", "test", "fix", "ci", "verify"):
        small.order(phase, "Path('app/shared.rb').write_text('overwritten')")
    small.write("app/shared.rb", "bob's")
    small.write(".analysis/blog/posts/index/findings.json", json.dumps(
        {"screen": "index", "findings": [], "write_targets": ["app/shared.rb"]}))  # fmt: skip
    pipeline = small.open()
    assert small.manager is not None
    manager = small.manager
    released = manager.acquire(holder="ann", write_paths=["app/shared.rb"])
    manager.release(released.id)
    expired = manager.acquire(holder="ann", write_paths=["app/shared.rb"], ttl=0.1)
    small.when(lambda: manager.active_grants() == [], "it has run out")
    forced = manager.acquire(holder="ann", write_paths=["app/shared.rb"])
    manager.force(forced.id, by="eve", reason="a test")
    bob = manager.acquire(holder="bob", write_paths=["app/shared.rb"])
    for grant_id, reason in (
        ("never-was", "unknown"), ("", "unknown"), (0, "unknown"), (False, "unknown"),
        (released.id, "released"), (expired.id, "expired"), (forced.id, "lost"),
        (bob.id, "foreign"),
    ):  # fmt: skip
        refusals(pipeline, "blog/posts", grant_id, reason)
    assert small.read("app/shared.rb") == "bob's"
    assert not (small.root / ".holdfast/runs").exists()
    legacy = Pipeline(
        screen_manifest=ScreenManifest.load(small.manifest_file), root=str(small.root)
    )
    refusals(legacy, "blog/posts", bob.id, "unknown")
    refusals(legacy, "blog/posts", "", "unknown")
    assert small.read("app/shared.rb") == "bob's"
    assert legacy.run_apply("blog/posts").is_well
    assert small.read("app/shared.rb") == "overwritten"


def test_seed004_27_the_grant_of_another_workflow_is_refused(app: Application) -> None:
    """Even while that one's agent runs: it would run with the other's locks."""
    waiting = "end = time.monotonic() + 60\nwhile time.monotonic() < end:\n    time.sleep(0.01)"
    app.order("analyze-shop-carts-index", f"{waiting}\n    if (home / 'go').exists(): break")
    pipeline = app.open()
    pipeline.start()
    app.when(lambda: app.states().get("blog/posts") == "completed", "the other is merged")
    assert app.manager is not None
    (grant,) = app.manager.active_grants()
    shared = app.read("app/shared.rb")
    ended: list[BaseException | None] = []

    def ask() -> None:
        try:
            refusals(pipeline, "blog/posts", grant.id, "foreign")
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    # if it were not refused it would wait for the other's agent
    first = threading.Thread(target=ask, daemon=True)
    first.start()
    first.join(PATIENCE_SECONDS / 2)
    assert ended == [None], "it went to work with the grant of another"
    refusals(pipeline, "blog/posts", grant.id, "foreign")
    with pytest.raises(LockViolationError):
        pipeline.run_analysis("blog/posts/show", grant_id=grant.id)
    for phase in PHASES[1:]:  # its own workflow, but a merge is no analysis
        with pytest.raises(LockViolationError):
            getattr(pipeline, f"run_{phase}")("shop/carts", grant_id=grant.id)
    assert app.read("app/shared.rb") == shared
    (app.home / "go").touch()


@pytest.mark.parametrize(("slots", "variable", "most"), [(2, "", 2), (3, "1", 1)])
def test_seed004_14_no_more_agents_than_slots(
    app: Application, slots: int, variable: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAX_CLAUDE_CONCURRENCY", variable)
    app.settings("", f"slots = {slots}")
    app.run()
    out: set[str] = set()
    counts = set()
    for name, _phase, status in app.seen:
        (out.add if status == "dispatched" else out.discard)(name)
        counts.add(len(out))
    assert max(counts) == most


# Waiting


def test_seed004_18_one_that_never_gets_its_files_is_an_error_for_the_operator(
    small: Application,
) -> None:
    small.settings("", "queue_seconds = 0.05\nretries = 1")
    pipeline = small.open()
    assert small.manager is not None
    small.manager.acquire(holder="somebody", write_paths=["app/shared.rb"], ttl=None)
    pipeline.start()
    until(pipeline.is_done, "it is given up", 20)
    assert small.states() == {"blog/posts": "error"}
    assert "not free in 2 attempts of 0.05 s: " in small.reason("blog/posts")
    assert "somebody" in small.reason("blog/posts")
