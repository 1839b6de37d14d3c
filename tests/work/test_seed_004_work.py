"""The dispatcher: the promises of 004 about what starts and when."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast import LockManager, OverLockError
from holdfast.core.root_errors import SettingsError
from holdfast.manager.files.paths import Tree
from holdfast.work.screens.findings import Findings, FindingsError, aggregate
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import ManifestError, Screen, ScreenManifest
from holdfast.work.screens.screen_plan import Plan

AUTH = "app/controllers/concerns/authentication.rb"

SCREENS = [
    {
        "name": "Post Detail",
        "module": "blog",
        "controller": "posts",
        "actions": {"primary": "show", "secondary": ["like", "share"]},
        "reads_from": [AUTH, "app/models/concerns/"],
    },
    {
        "name": "Posts Index",
        "module": "blog",
        "controller": "posts",
        "actions": {"primary": "index", "secondary": []},
        "reads_from": [],
    },
    {
        "name": "Comments Index",
        "module": "blog",
        "controller": "comments",
        "actions": {"primary": "index", "secondary": []},
        "reads_from": [AUTH],
    },
    {
        "name": "Index",
        "module": "shop",
        "controller": "posts",
        "actions": {"primary": "index", "secondary": []},
        "reads_from": [AUTH],
    },
]


@pytest.fixture
def manifest(tmp_path: Path) -> ScreenManifest:
    file = tmp_path / "screens.json"
    file.write_text(json.dumps({"version": 1, "screens": SCREENS}))
    return ScreenManifest.load(str(file))


def test_seed004_07_a_screen_has_name_module_controller_actions_and_reads(
    manifest: ScreenManifest,
) -> None:
    assert manifest.screens[0] == Screen(
        name="Post Detail", module="blog", controller="posts", primary="show",
        secondary=("like", "share"), reads_from=(AUTH, "app/models/concerns/"),
    )  # fmt: skip
    assert [screen.to_data() for screen in manifest] == SCREENS


@pytest.mark.parametrize("field", ["name", "module", "controller", "actions", "reads_from"])
def test_seed004_07_a_missing_field_is_reported_with_its_place(field: str) -> None:
    broken = [*SCREENS[:3], {name: one for name, one in SCREENS[3].items() if name != field}]
    with pytest.raises(ManifestError, match=rf"screens\[3\]\.{field}: missing"):
        ScreenManifest.parse(json.dumps({"version": 1, "screens": broken}).encode())


def test_seed004_08_screens_are_grouped_by_controller(manifest: ScreenManifest) -> None:
    plan = Plan.of(manifest, Layout())
    assert {group.workflow: [one.name for one in group.screens] for group in plan.groups} == {
        "blog/posts": ["Post Detail", "Posts Index"],
        "blog/comments": ["Comments Index"],
        "shop/posts": ["Index"],
    }


def test_seed004_08_the_graph_says_what_is_shared_and_what_that_will_cost(
    manifest: ScreenManifest,
) -> None:
    plan = Plan.of(manifest, Layout())
    (shared,) = plan.contended
    assert (shared.path, shared.scope) == (AUTH, "app")
    assert (shared.screens, shared.controllers) == (3, 3)
    assert shared.contention == 3 + 3 * 2  # pairs of merges; of a merge and another's analysis
    assert plan.analyze.most == 4
    assert (plan.merge.most, plan.merge.least) == (3, 1)


def test_seed004_09_an_analysis_reads_controller_views_models_and_what_it_declares(
    manifest: ScreenManifest,
) -> None:
    request = Layout().analysis_request(manifest.screens[0])
    assert request.read_paths == (
        "app/controllers/blog/posts_controller.rb",
        "app/views/blog/posts/",
        "app/models/blog/post.rb",
        AUTH,
        "app/models/concerns/",
    )
    assert request.write_paths == (".analysis/blog/posts/Post Detail/findings.json",)


def test_seed004_09_all_analyses_hold_their_locks_at_once(
    manifest: ScreenManifest, repository: Path
) -> None:
    with LockManager.open(repository) as manager:
        for screen in manifest:
            request = Layout().analysis_request(screen)
            assert manager.try_acquire(
                holder=screen.workflow,
                read_paths=request.read_paths,
                write_paths=request.write_paths,
            )
        merge = Layout().merge_request(manifest.screens[:2], ["app/x.rb"])
        # Its own screens are still being analysed: their folders cannot be read yet.
        assert not manager.try_acquire(
            holder="blog/posts", read_paths=merge.read_paths, write_paths=merge.write_paths
        )


def test_seed004_14_the_environment_says_how_many_agents_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[work]\nslots = 9\n")
    assert Layout.load(str(tmp_path), {}).slots == 9
    assert Layout.load(str(tmp_path), {"MAX_CLAUDE_CONCURRENCY": "2"}).slots == 2
    with pytest.raises(SettingsError, match="MAX_CLAUDE_CONCURRENCY cannot be 'lots'"):
        Layout.load(str(tmp_path), {"MAX_CLAUDE_CONCURRENCY": "lots"})


def test_seed004_18_an_item_waits_300_seconds_unless_it_is_set(tmp_path: Path) -> None:
    assert Layout.load(str(tmp_path), {}).queue_seconds == 300
    (tmp_path / "holdfast.toml").write_text("[work]\nqueue_seconds = 20\nretries = 3\n")
    set_here = Layout.load(str(tmp_path), {})
    assert (set_here.queue_seconds, set_here.retries) == (20, 3)


def test_seed004_28_an_analysis_puts_out_its_screen_findings_and_write_targets(
    manifest: ScreenManifest,
) -> None:
    data = {
        "screen": "Post Detail",
        "findings": [{"severity": "high", "text": "no authorisation"}],
        "write_targets": [
            "app/controllers/blog/posts_controller.rb", "app/views/blog/posts/show.html.erb", AUTH,
        ],
    }  # fmt: skip
    found = Findings.parse(json.dumps(data).encode(), manifest.screens[0])
    assert found.write_targets == tuple(data["write_targets"])
    for field in data:
        less = {name: one for name, one in data.items() if name != field}
        with pytest.raises(FindingsError, match=f"{field}: missing"):
            Findings.parse(json.dumps(less).encode(), manifest.screens[0])


def test_seed004_28_a_folder_among_the_targets_is_an_over_lock_error(
    manifest: ScreenManifest, repository: Path
) -> None:
    for folder in ("app/models", "app/models/", "new/"):
        data = {"screen": "Post Detail", "findings": [], "write_targets": ["app/x.rb", folder]}
        with pytest.raises(OverLockError, match=r"write_targets\[1\]"):
            Findings.parse(
                json.dumps(data).encode(), manifest.screens[0], Tree(os.fspath(repository))
            )


def test_seed004_28_the_targets_of_a_controller_are_those_of_its_screens() -> None:
    one, other = Findings("a", (), ("x.rb", AUTH)), Findings("b", (), (AUTH, "y.rb"))
    assert aggregate([one, other]) == ("x.rb", AUTH, "y.rb")
