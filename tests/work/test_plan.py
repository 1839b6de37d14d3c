"""The dependency graph, and the command that shows it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_cli import Repository
from holdfast.core import keys
from holdfast.manager.files.paths import Tree
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import ManifestError, Screen, ScreenManifest
from holdfast.work.screens.screen_plan import Plan, SharedRead

AUTH = "app/controllers/concerns/authentication.rb"
MONEY = "app/services/money.rb"
#: Only what a screen declares, so that a test shows what it is about.
BARE = Layout(controller="c/{module}/{controller}.rb", views="", models=())


def screen(workflow: str, *reads: str) -> Screen:
    module, controller, name = workflow.split("/")
    return Screen(name, module, controller, name, (), reads)


def plan(*screens: Screen, layout: Layout = BARE, tree: Tree | None = None) -> Plan:
    return Plan.of(ScreenManifest(screens, "screens.json"), layout, tree)


def contention(found: Plan) -> dict[str, int]:
    return {one.path: one.contention for one in found.contended}


def test_screens_are_grouped_by_controller_and_module() -> None:
    found = plan(screen("blog/posts/show"), screen("shop/posts/show"), screen("blog/posts/edit"))
    assert [group.workflow for group in found.groups] == ["blog/posts", "shop/posts"]
    assert [one.name for one in found.groups[0].screens] == ["show", "edit"]
    assert found.headline() == "3 screens of 2 controllers in 2 modules"


def test_a_group_says_which_of_its_screens_read_what() -> None:
    found = plan(screen("blog/posts/show"), screen("blog/posts/edit", AUTH))
    assert found.groups[0].reads == {"c/blog/posts.rb": ("show", "edit"), AUTH: ("edit",)}
    assert found.requests["blog/posts/edit"].read_paths == ("c/blog/posts.rb", AUTH)


def test_a_path_that_one_controller_reads_costs_nothing() -> None:
    found = plan(screen("blog/posts/show", AUTH), screen("blog/posts/edit", AUTH))
    assert found.shared == (SharedRead(AUTH, 2, 1, ("blog/posts",), "controller"),)
    assert found.contended == ()
    assert (found.merge.most, found.merge.least) == (1, 1)


def test_the_scope_is_how_far_a_file_reaches() -> None:
    found = plan(
        screen("blog/posts/show", AUTH, MONEY),
        screen("blog/pages/show", AUTH),
        screen("shop/carts/show", MONEY),
    )
    assert {one.path: one.scope for one in found.shared} == {AUTH: "module", MONEY: "app"}


def test_contention_counts_the_pairs_that_cannot_run_together() -> None:
    screens = [
        screen("m/a/1", AUTH), screen("m/a/2", AUTH), screen("m/b/1", AUTH), screen("m/c/1", AUTH),
        screen("m/c/2"), screen("m/d/1"),
    ]  # fmt: skip
    # Each controller that reads it merges, and each screen that reads it is analysed.
    merges, analyses = ["a", "b", "c"], ["a", "a", "b", "c"]
    pairs = sum(1 for _ in itertools.combinations(merges, 2))
    pairs += sum(merge != analysis for merge in merges for analysis in analyses)
    assert contention(plan(*screens)) == {AUTH: pairs}


def test_what_costs_most_comes_first() -> None:
    found = plan(
        screen("m/a/1", "few.rb", "many.rb"), screen("m/b/1", "few.rb", "many.rb"),
        screen("m/c/1", "many.rb"),
    )  # fmt: skip
    assert [one.path for one in found.contended] == ["many.rb", "few.rb"]
    assert found.contended[0].names == ("m/a", "m/b", "m/c")


def test_a_folder_is_shared_with_all_that_is_in_it() -> None:
    found = plan(screen("m/a/1", "app/models/"), screen("m/b/1", "app/models/user.rb"))
    assert contention(found) == {"app/models/user.rb": 3}
    assert found.merge.least == 1


def test_a_path_in_a_folder_that_all_read_is_not_listed_again() -> None:
    found = plan(screen("m/a/1", "app/", "app/x.rb"), screen("m/b/1", "app/", "app/y.rb"))
    assert list(contention(found)) == ["app/"]


def test_controllers_that_share_nothing_can_all_merge_at_once() -> None:
    found = plan(screen("m/a/1"), screen("m/b/1"), screen("m/c/1"))
    assert (found.merge.items, found.merge.most, found.merge.least) == (3, 3, 3)
    assert found.widths()[1] == "merge: up to 3 at once, if no two change the same file"


def test_at_worst_only_those_merge_at_once_that_share_nothing() -> None:
    hub = screen("m/hub/1", "a.rb", "b.rb", "c.rb")
    found = plan(hub, screen("m/a/1", "a.rb"), screen("m/b/1", "b.rb"), screen("m/c/1", "c.rb"))
    assert (found.merge.most, found.merge.least) == (4, 3)
    assert found.widths()[1].endswith("; 3 if each changes everything it reads")


def test_all_analyses_can_run_at_once_and_slots_make_waves_of_them() -> None:
    screens = [screen(f"m/c/{n}", AUTH) for n in range(9)]
    found = plan(*screens, layout=Layout(slots=4))
    assert found.analyze.most == 9
    assert found.widths()[0] == "analyze: all 9 at once; with 4 slots, 3 waves"
    assert plan(*screens, layout=Layout(slots=9)).widths()[0] == "analyze: all 9 at once"


def test_an_analysis_that_reads_what_another_writes_is_in_its_way() -> None:
    others = [screen(f"m/c/{n}") for n in range(3)]
    assert plan(*others, screen("m/d/1", ".analysis/")).analyze.most == 3
    assert plan(*others, screen("m/d/1", ".analysis/m/c/0/findings.json")).analyze.most == 3
    assert plan(*others, screen("m/d/1", ".analysis/m/c/9/")).analyze.most == 4
    assert plan(*(screen(f"m/c/{n}", "./") for n in range(5))).analyze.most == 1


def test_a_reader_and_a_writer_exclude_each_other() -> None:
    def after(name: str, other: str) -> Screen:
        return screen(f"m/c/{name}", f".analysis/m/c/{other}/findings.json")

    # A chain: each reads what the one before writes. Of four in a row two are apart.
    found = plan(screen("m/c/1"), after("3", "2"), after("2", "1"), after("4", "3"))
    assert found.analyze.most == 2


_PATHS = st.sampled_from(["a/", "a/b/", "a/b/x.rb", "a/x.rb", "b", "ab/x.rb", "./", ".analysis/m/"])


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ABCD"), st.sampled_from("12")),
        st.lists(_PATHS, max_size=3, unique=True), min_size=1,
    )
)  # fmt: skip
def test_the_graph_agrees_with_one_made_pair_by_pair(
    given_reads: dict[tuple[str, str], list[str]],
) -> None:
    screens = [screen(f"m/{c}/{n}", *reads) for (c, n), reads in given_reads.items()]
    found = plan(*screens)
    reads = {one.workflow: BARE.reads_of(one) for one in screens}

    def meet(one: str, other: str) -> bool:
        return keys.overlap(one.rstrip("/"), other.rstrip("/"))

    for shared in found.shared:
        covering = [shared.path.rstrip("/"), *keys.ancestors(shared.path.rstrip("/"))]
        readers = [
            one
            for one in screens
            if any(read.rstrip("/") in covering for read in reads[one.workflow])
        ]
        assert shared.screens == len(readers)
        assert shared.controllers == len({one.group for one in readers})
    groups = {group.workflow: list(group.reads) for group in found.groups}
    strangers = {
        pair for pair in itertools.combinations(groups, 2)
        if not any(meet(one, other) for one in groups[pair[0]] for other in groups[pair[1]])
    }  # fmt: skip
    best = _largest(list(groups), strangers)
    assert 1 <= found.merge.least <= best
    assert found.merge.least == best or best > 2  # small ones are always found
    apart = {
        (one.workflow, other.workflow) for one, other in itertools.combinations(screens, 2)
        if not any(
            meet(output, read)
            for writer, reader in ((one, other), (other, one))
            for output in BARE.output_of(writer) for read in reads[reader.workflow]
        )
    }  # fmt: skip
    assert found.analyze.most <= _largest([one.workflow for one in screens], apart)


def _largest(names: list[str], apart: set[tuple[str, str]]) -> int:
    for count in range(len(names), 0, -1):
        for some in itertools.combinations(names, count):
            if all(pair in apart for pair in itertools.combinations(some, 2)):
                return count
    return 0


def test_a_link_out_of_the_repository_is_refused_with_its_place(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "out").symlink_to(tmp_path)
    with pytest.raises(ManifestError, match="lies outside the tree") as caught:
        plan(screen("m/a/1"), screen("m/b/1", "out/x.rb"), tree=Tree(str(repository)))
    assert caught.value.fields["problems"][0]["place"] == "screens[1].reads_from"


def test_missing_paths_are_recorded(repository: Path) -> None:
    found = plan(screen("m/a/1", "app/x.rb", "app/typo.rb", "app/"), tree=Tree(str(repository)))
    assert [(one.part, one.path) for one in found.absent] == [
        ("controller", "c/m/a.rb"), ("reads_from", "app/typo.rb"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "reads",
    [
        lambda n: ("app/x.rb", f"app/m{n % 50}/"),
        lambda n: ("app/",),
        lambda n: ("app/",) if n % 2 else (),
    ],
    ids=["many paths", "one folder", "a folder around the others' files"],
)
def test_thousands_of_screens_are_planned_quickly(
    reads: Callable[[int], tuple[str, ...]],
) -> None:
    screens = (Screen("s", f"m{n % 17}", f"c{n}", "x", (), reads(n)) for n in range(3000))
    manifest = ScreenManifest(tuple(screens))
    begin = process_time()
    found = Plan.of(manifest, Layout())
    assert process_time() - begin < 4
    assert found.analyze.most == 3000


# The command


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "shop")
    controllers = repository.root / "app/controllers/blog"
    controllers.mkdir(parents=True)
    for name in ("posts", "pages"):
        (controllers / f"{name}_controller.rb").touch()
    write(repository, screen("blog/posts/show", "lib/z.rb"), screen("blog/pages/show", "lib/z.rb"))
    return repository


def write(repository: Repository, *screens: Screen) -> None:
    data = {"version": 1, "screens": [one.to_data() for one in screens]}
    (repository.root / "screens.json").write_text(json.dumps(data))


def test_the_command_shows_groups_reads_shared_files_and_widths(shop: Repository) -> None:
    answer = shop.hold("plan", "screens.json")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out == (
        "2 screens of 2 controllers in 1 module\n\n"
        "CONTROLLER  SCREENS  READS\n"
        "blog/posts  show     app/controllers/blog/posts_controller.rb\n"
        "                     app/views/blog/posts/\n"
        "                     app/models/blog/post.rb\n"
        "                     lib/z.rb\n"
        "blog/pages  show     app/controllers/blog/pages_controller.rb\n"
        "                     app/views/blog/pages/\n"
        "                     app/models/blog/page.rb\n"
        "                     lib/z.rb\n\n"
        "SHARED BY CONTROLLERS  IN THE  SCREENS  CONTROLLERS  KEEPS APART\n"
        "lib/z.rb               module  2        2            3 pairs\n\n"
        "analyze: all 2 at once\n"
        "merge: up to 2 at once, if no two change the same file; 1 if each changes everything it "
        "reads\n"
    )


def test_the_command_has_everything_as_json(shop: Repository) -> None:
    found = shop.hold("plan", "screens.json", "--json").json
    assert found["root"] == os.path.realpath(shop.root)
    assert found["screens"][0] == {
        "workflow": "blog/posts/show",
        "read_paths": [
            "app/controllers/blog/posts_controller.rb", "app/views/blog/posts/",
            "app/models/blog/post.rb", "lib/z.rb",
        ],
        "write_paths": [".analysis/blog/posts/show/findings.json"],
    }  # fmt: skip
    assert found["shared"] == [
        {"path": "lib/z.rb", "scope": "module", "screens": 2, "controllers": 2,
         "names": ["blog/posts", "blog/pages"], "contention": 3},
    ]  # fmt: skip
    assert found["parallelism"] == {
        "analyze": {"items": 2, "at_once": 2, "at_once_at_worst": 2},
        "merge": {"items": 2, "at_once": 2, "at_once_at_worst": 1},
    }
    assert [group["controller"] for group in found["controllers"]] == ["blog/posts", "blog/pages"]
    assert found["slots"] == 4
    assert {one["part"] for one in found["absent"]} == {"views", "model"}


def test_the_command_locks_and_writes_nothing(shop: Repository) -> None:
    before = sorted(map(str, shop.root.rglob("*")))
    assert shop.hold("plan", "screens.json").code == 0
    assert sorted(map(str, shop.root.rglob("*"))) == before


def test_the_command_tells_every_mistake_in_a_line_of_its_own(shop: Repository) -> None:
    (shop.root / "screens.json").write_text('{"version": 1, "screens": [{"nam": "\\u001b"}, 3]}')
    answer = shop.hold("plan", "screens.json")
    assert answer.code == 2
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert lines[0] == "holdfast: screens.json: 7 errors"
    assert "  screens[0].nam: no such field; did you mean name?" in lines
    assert "  screens[1]: an object is needed, not 3" in lines
    assert lines[-1].startswith("  -> ")
    error = shop.hold("plan", "screens.json", "--json").error
    assert error["code"] == "E_MANIFEST"
    assert {"place": "screens[0].name", "problem": "missing"} in error["problems"]


def test_the_command_counts_the_mistakes_that_it_does_not_show(shop: Repository) -> None:
    (shop.root / "screens.json").write_text(json.dumps({"version": 1, "screens": [1] * 50}))
    lines = shop.hold("plan", "screens.json").err.splitlines()
    assert lines[0].endswith("50 errors")
    assert "  and 30 more" in lines
    assert len(lines) == 23


def test_the_command_tells_what_is_wrong_with_the_settings(shop: Repository) -> None:
    (shop.root / "holdfast.toml").write_text("[work]\nslot = 3\n")
    answer = shop.hold("plan", "screens.json")
    assert answer.code == 2
    assert answer.err.startswith("holdfast: holdfast.toml, line 2: there is no 'slot' in [work]")


def test_the_command_follows_the_settings_and_the_environment(shop: Repository) -> None:
    (shop.root / "holdfast.toml").write_text('[work]\nviews = ""\nslots = 2\n')
    found = shop.hold("plan", "screens.json", "--json", env={"MAX_CLAUDE_CONCURRENCY": "1"}).json
    assert found["slots"] == 1
    assert "app/views/blog/posts/" not in found["screens"][0]["read_paths"]
    answer = shop.hold("plan", "screens.json", env={"MAX_CLAUDE_CONCURRENCY": "none"})
    assert answer.code == 2
    assert "MAX_CLAUDE_CONCURRENCY cannot be 'none'" in answer.err


def test_the_command_tells_what_is_likely_to_be_a_typing_error(shop: Repository) -> None:
    write(shop, screen("blog/posts/show", "lib/zz.rb"), screen("blog/users/show"))
    answer = shop.hold("plan", "screens.json")
    assert answer.code == 0
    assert "no such controllers: app/controllers/blog/users_controller.rb" in answer.err
    assert "named in reads_from, but missing: lib/zz.rb" in answer.err


def test_a_large_plan_is_shown_in_short(shop: Repository) -> None:
    shared = [f"lib/{n}.rb" for n in range(30)]
    write(shop, *(screen(f"m/c{n}/{s}", *shared) for n in range(40) for s in range(9)))
    answer = shop.hold("plan", "screens.json", env={"COLUMNS": "80"})
    lines = answer.out.splitlines()
    assert len(lines) < 70
    assert max(map(len, lines[:-2])) <= 80
    assert "and 39 more controllers; --json lists all" in lines
    assert "and 18 more paths; --json lists all" in lines
    assert len(shop.hold("plan", "screens.json", "--json").json["shared"]) == 30


def test_the_manifest_is_found_from_where_the_caller_is(shop: Repository) -> None:
    answer = shop.hold("plan", "../screens.json", cwd=shop.root / "app")
    assert answer.code == 0
    assert shop.hold("plan", "-C", "app", "../screens.json").out == answer.out


@pytest.mark.parametrize("words", [[], ["a.json", "b.json"]])
def test_the_command_takes_one_manifest(shop: Repository, words: list[str]) -> None:
    answer = shop.hold("plan", *words)
    assert (answer.code, answer.err.splitlines()[0]) == (
        2,
        "holdfast: plan takes one list of tasks, or tasks one by one",
    )
