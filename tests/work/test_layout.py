"""[work] of holdfast.toml: where the files of a screen are, and what is run in each phase."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import exit_code
from holdfast.core.root_errors import SettingsError
from holdfast.work.engine.work_items import PHASES, LockRequest
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import Screen, ScreenManifest
from holdfast.work.screens.phases import (
    MERGE_WORDS,
    SCREEN_WORDS,
    Phase,
    default_phases,
)
from holdfast.work.screens.singular_names import singular
from holdfast.work.screens.templates import filled, placeholders

SHOW = Screen("show", "blog", "posts", "show", ("like",), ("lib/x.rb", "app/models/blog/post.rb"))
GUIDE = (Path(__file__).parents[2] / "docs/dispatch.md").read_text()


def load(root: Path, text: str, **environ: str) -> Layout:
    (root / "holdfast.toml").write_text(text)
    return Layout.load(str(root), environ)


def refusal(root: Path, text: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(root, text)
    return caught.value


# Where the files are


def test_without_settings_it_fits_rails(tmp_path: Path) -> None:
    layout = Layout.load(str(tmp_path), {})
    assert layout == Layout()
    assert layout.reads_of(SHOW) == (
        "app/controllers/blog/posts_controller.rb",
        "app/views/blog/posts/",
        "app/models/blog/post.rb",
        "lib/x.rb",
    )
    assert layout.docs_of(SHOW) == ".analysis/blog/posts/show/"
    assert layout.output_of(SHOW) == (".analysis/blog/posts/show/findings.json",)


def test_an_analysis_locks_what_it_reads_and_its_own_output(tmp_path: Path) -> None:
    layout = Layout()
    assert layout.analysis_request(SHOW) == LockRequest(
        layout.reads_of(SHOW), (".analysis/blog/posts/show/findings.json",)
    )


def test_a_merge_locks_its_targets_and_the_folders_of_its_screens() -> None:
    edit = Screen("edit", "blog", "posts", "edit")
    assert Layout().merge_request([SHOW, edit], ["a.rb", "b.rb", "a.rb"]) == LockRequest(
        (".analysis/blog/posts/show/", ".analysis/blog/posts/edit/"), ("a.rb", "b.rb")
    )


def test_other_templates_fit_something_else(tmp_path: Path) -> None:
    layout = load(
        tmp_path,
        '[work]\ncontroller = "{module}/views/{controller}.py"\n'
        'views = "{module}/templates/{module}/{screen}.html"\n'
        'models = ["{module}/models.py", "./{module}//forms/{action}.py"]\n'
        'docs = "docs/{module}-{controller}-{screen}"\n',
    )
    assert layout.reads_of(SHOW)[:4] == (
        "blog/views/posts.py", "blog/templates/blog/show.html", "blog/models.py",
        "blog/forms/show.py",
    )  # fmt: skip
    assert layout.docs_of(SHOW) == "docs/blog-posts-show/"


def test_there_may_be_no_views_and_no_models(tmp_path: Path) -> None:
    layout = load(tmp_path, '[work]\nviews = ""\nmodels = []\n')
    assert layout.reads_of(SHOW)[0] == "app/controllers/blog/posts_controller.rb"
    assert layout.reads_of(SHOW)[1:] == SHOW.reads_from


def test_the_guides_examples_are_taken(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE, re.S)
    assert len(blocks) >= 2
    for block in blocks:
        layout = load(tmp_path, block)
        layout.check(ScreenManifest((SHOW,)))


def test_the_guide_has_every_key_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `work\.(\w+)` \| `([^`]+)` \|", GUIDE, re.M))
    defaults = {key: tomllib.loads(f"x = {text}")["x"] for key, text in shown.items()}
    for key, default in defaults.items():
        assert getattr(Layout(), key) == (tuple(default) if isinstance(default, list) else default)
    assert set(defaults) == set(Layout.__slots__) - {"model_names", "phases", "agent"}


def test_the_guide_has_every_word_for_prompts() -> None:
    for word in (*SCREEN_WORDS, *MERGE_WORDS):
        assert f"`{{{word}}}`" in GUIDE


def test_a_model_can_be_named_where_the_singular_is_wrong(tmp_path: Path) -> None:
    layout = load(tmp_path, '[work.model]\nposts = "article"\n"shop/posts" = "offer"\n')
    assert layout.model_of(SHOW) == "article"
    assert layout.model_of(Screen("show", "shop", "posts", "show")) == "offer"
    assert layout.model_of(Screen("show", "shop", "carts", "show")) == "cart"


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("posts", "post"), ("categories", "category"), ("statuses", "status"), ("boxes", "box"),
        ("addresses", "address"), ("people", "person"), ("line_items", "line_item"),
        ("news", "news"), ("series", "series"), ("branches", "branch"), ("houses", "house"),
        ("analyses", "analysis"), ("heroes", "hero"), ("movies", "movie"), ("menus", "menu"),
        ("apis", "api"), ("access", "access"), ("status", "status"), ("Posts", "Post"),
        ("admin-users", "admin-user"), ("session", "session"), ("s", "s"), ("People", "Person"),
        ("responses", "response"), ("caves", "cave"), ("shelves", "shelf"), ("days", "day"),
    ],
)  # fmt: skip
def test_the_singular_is_the_one_that_people_use(many: str, one: str) -> None:
    assert singular(many) == one


@pytest.mark.parametrize(
    "docs", ["docs/", "docs/{screen}/", "docs/{module}/{screen}/", "docs/{controller}/{action}"]
)
def test_two_analyses_never_share_a_folder(tmp_path: Path, docs: str) -> None:
    layout = load(tmp_path, f'[work]\ndocs = "{docs}"\n')
    others = [Screen("show", "shop", "posts", "show"), Screen("Show", "blog", "Pages", "show")]
    with pytest.raises(SettingsError, match="would both write their analysis to docs/") as caught:
        layout.check(ScreenManifest((SHOW, *others)))
    assert caught.value.fields["key"] == "work.docs"


def test_nor_is_one_folder_inside_another() -> None:
    one, other = Screen("a", "m", "c", "x"), Screen("x", "m", "a", "y")
    with pytest.raises(SettingsError):
        Layout(docs="{screen}/").check(ScreenManifest((one, Screen("A", "m", "d", "x"), other)))
    Layout(docs="docs/{screen}.d/").check(ScreenManifest((one, other)))


# Slots


def test_the_environment_wins_over_the_slots(tmp_path: Path) -> None:
    assert load(tmp_path, "[work]\nslots = 7\n").slots == 7
    assert load(tmp_path, "[work]\nslots = 7\n", MAX_CLAUDE_CONCURRENCY="3").slots == 3
    assert load(tmp_path, "", MAX_CLAUDE_CONCURRENCY=" 12 ").slots == 12
    assert load(tmp_path, "[work]\nslots = 7\n", MAX_CLAUDE_CONCURRENCY="").slots == 7


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "1e3", "1001", "９", "9" * 5000])
def test_slots_in_the_environment_that_cannot_be_meant_are_refused(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(SettingsError, match="MAX_CLAUDE_CONCURRENCY cannot be") as caught:
        load(tmp_path, "", MAX_CLAUDE_CONCURRENCY=text)
    assert caught.value.fields["key"] == "MAX_CLAUDE_CONCURRENCY"
    assert len(caught.value.message) < 200


# Phases


def test_only_analyze_and_apply_have_a_command_from_the_start() -> None:
    found = Layout().phases
    assert tuple(found) == PHASES
    assert [name for name in PHASES if not found[name].is_skipped] == ["analyze", "apply"]
    assert found["fix"].rounds == 3
    assert all(phase.timeout_seconds == 1800 for phase in found.values())


def test_everything_of_a_phase_can_be_set(tmp_path: Path) -> None:
    layout = load(
        tmp_path,
        "[work.analyze]\ncommand = ['codex', 'exec', '-']\nprompt = 'look at {screen}'\n"
        "stdin = true\ntimeout_seconds = 2.5\noutput = ['./f.json', 'notes/n.md']\n"
        "output_bytes_max = 1000\n[work.test]\ncommand = ['rake', 'test']\n[work.fix]\nrounds = 9\n"
        "[work]\nqueue_seconds = 5\nretries = 0\n",
    )
    assert layout.phase("analyze") == Phase(
        "analyze", ("codex", "exec", "-"), "look at {screen}", True, 2.5, 1000,
        ("f.json", "notes/n.md"),
    )  # fmt: skip
    assert layout.output_of(SHOW)[1] == ".analysis/blog/posts/show/notes/n.md"
    assert layout.phase("test").command == ("rake", "test")
    assert (layout.phase("fix").rounds, layout.queue_seconds, layout.retries) == (9, 5, 0)


def test_a_prompt_goes_into_the_command_or_to_the_standard_input() -> None:
    layout = Layout()
    words = layout.phase("analyze").words(layout.screen_words(SHOW))
    assert words[:2] == ["claude", "-p"]
    assert '"show" of blog/posts' in words[2]
    assert ".analysis/blog/posts/show/findings.json" in words[2]
    assert '{"screen": "show", "findings": […]' in words[2]
    assert layout.phase("analyze").typed(layout.screen_words(SHOW)) is None
    typed = Phase("apply", ("codex",), "do {files}", stdin=True)
    values = layout.merge_words([SHOW], ["a.rb", "b.rb"])
    assert (typed.words(values), typed.typed(values)) == (["codex"], "do a.rb\nb.rb")


def test_the_words_for_prompts_are_the_documented_ones() -> None:
    layout = Layout()
    assert set(layout.screen_words(SHOW)) == set(SCREEN_WORDS)
    assert set(layout.merge_words([SHOW], [])) == set(MERGE_WORDS)
    for phase in default_phases().values():
        known = SCREEN_WORDS if phase.name == "analyze" else MERGE_WORDS
        assert set(placeholders(phase.prompt)) <= set(known)


def test_a_prompt_that_is_longer_than_a_command_can_be_is_refused() -> None:
    layout = Layout()
    values = layout.merge_words([SHOW], [f"app/{n}.rb" for n in range(20_000)])
    with pytest.raises(SettingsError, match="which no system accepts") as caught:
        layout.phase("apply").words(values)
    assert "stdin = true" in caught.value.hint


@given(st.dictionaries(st.sampled_from(["screen", "module"]), st.text(), min_size=2))
def test_the_value_of_a_placeholder_is_not_searched_again(values: dict[str, str]) -> None:
    found = filled('{{screen}}|{screen}|{module}|{ "a": {} }|', values)
    assert found == "{screen}|" + f"{values['screen']}|{values['module']}" + '|{ "a": {} }|'


# What is wrong


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("work = 3\n", "work", 1),
        ("[work]\n\nslot = 3\n", "work.slot", 3),
        ("[work]\nslots = 0\n", "work.slots", 2),
        ("[work]\nslots = true\n", "work.slots", 2),
        ("[work]\nslots = 1.5\n", "work.slots", 2),
        ("work.slots = 'x'\n", "work.slots", 1),
        ("[work]\nqueue_seconds = -1\n", "work.queue_seconds", 2),
        ("[work]\nretries = -1\n", "work.retries", 2),
        ("[work]\nanalyze = 3\n", "work.analyze", 2),
        ("[work]\nmodel = 3\n", "work.model", 2),
        ("[work]\n[work.analyse]\n", "work.analyse", 2),
        ("[work]\ncontroller = ''\n", "work.controller", 2),
        ("[work]\ncontroller = '/etc/{module}'\n", "work.controller", 2),
        ("[work]\ncontroller = 'app/{modul}.rb'\n", "work.controller", 2),
        ("[work]\ncontroller = 'app/{module.rb'\n", "work.controller", 2),
        ("[work]\ncontroller = 'app/{{module}}.rb'\n", "work.controller", 2),
        ("[work]\ncontroller = '{module}:{controller}'\n", "work.controller", 2),
        ("[work]\ncontroller = 'app/.{module}/x'\n", "work.controller", 2),
        ("[work]\nviews = 'app/../../x/'\n", "work.views", 2),
        ("[work]\nmodels = 'app/x.rb'\n", "work.models", 2),
        ("[work]\nmodels = ['app/x.rb', '']\n", "work.models", 2),
        ("[work]\ndocs = '.git/{screen}'\n", "work.docs", 2),
        ("[work]\ndocs = '.holdfast/{screen}'\n", "work.docs", 2),
        ("[work.model]\nposts = 'a/b'\n", "work.model.posts", 2),
        ("[work.model]\nposts = 3\n", "work.model.posts", 2),
        ("[work.analyze]\ncommand = 'claude'\n", "work.analyze.command", 2),
        ("[work.analyze]\ncommand = []\n", "work.analyze.command", 2),
        ("[work.analyze]\ncommand = ['']\n", "work.analyze.command", 2),
        ("[work.analyze]\ncommand = ['a', 3]\n", "work.analyze.command", 2),
        ("[work.analyze]\ncommand = ['a', '{files}']\n", "work.analyze.command", 2),
        ("[work.apply]\ncommand = ['a', '{screen}']\n", "work.apply.command", 2),
        ("[work.apply]\nprompt = '{prompt}'\n", "work.apply.prompt", 2),
        ("[work.test]\ncommand = ['a']\nprompt = 'b'\n", "work.test.prompt", 3),
        ("[work.test]\nstdin = 1\n", "work.test.stdin", 2),
        ("[work.ci]\ntimeout_seconds = 0\n", "work.ci.timeout_seconds", 2),
        ("[work.ci]\ntimeout_seconds = inf\n", "work.ci.timeout_seconds", 2),
        ("[work.ci]\noutput = 'x'\n", "work.ci.output", 2),
        ("[work.ci]\nrounds = 1\n", "work.ci.rounds", 2),
        ("[work.fix]\nrounds = -1\n", "work.fix.rounds", 2),
        ("[work.analyze]\noutput = '../x'\n", "work.analyze.output", 2),
        ("[work.analyze]\noutput = 'x/'\n", "work.analyze.output", 2),
        ("[work.analyze]\noutput = []\n", "work.analyze.output", 2),
        ("[work.analyze]\noutput_bytes_max = 0\n", "work.analyze.output_bytes_max", 2),
        ("[work]\nanalyze = {timeout_second = 3}\n", "work.analyze.timeout_second", 2),
        ('[work.apply]\nprompt = """\nstdin = 1\n"""\nstdin = "x"\n', "work.apply.stdin", 5),
    ],
)
def test_an_invalid_value_is_reported_with_its_line_and_key(
    tmp_path: Path, text: str, key: str, line: int
) -> None:
    error = refusal(tmp_path, text)
    assert (error.code, exit_code(error)) == ("E_SETTINGS", 2)
    assert (error.fields["key"], error.fields["line"]) == (key, line)
    assert error.fields["file"] == f"{tmp_path}/holdfast.toml"
    assert f"holdfast.toml, line {line}: " in error.message
    assert error.hint


def test_all_mistakes_are_reported_together_in_the_order_of_the_lines(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[work.fix]\nround = 3\n[work]\nslots = 0\n[work.ci]\nstdin = 'x'\n")
    places = [one["place"] for one in error.fields["problems"]]
    assert places == [f"holdfast.toml, line {line}" for line in (2, 4, 6)]
    assert error.fields["count"] == 3


def test_a_misspelled_placeholder_is_reported_with_the_likely_one(tmp_path: Path) -> None:
    told = refusal(tmp_path, "[work]\ncontroller = 'app/{controler}.rb'\n").message
    assert "did you mean {controller}?" in told
    assert "{{controler}}" in told


@pytest.mark.parametrize("text", ["[work\n", "[work]\nslots =\n", "[work]\nslots = 1\nslots = 1\n"])
def test_invalid_toml_is_reported_with_its_line(tmp_path: Path, text: str) -> None:
    assert re.search(r"line \d+: this is not TOML", refusal(tmp_path, text).message)


def test_other_tables_are_none_of_its_business(tmp_path: Path) -> None:
    assert load(tmp_path, "[gate]\nshell = 'nonsense'\n[other]\n") == Layout()


_VALUE: st.SearchStrategy[Any] = st.sampled_from(
    ["1", "0", "-1", "true", "'x'", "''", "'{screen}'", "'{x}'", "[]", "['a']", "[1]", "{}",
     "{a=1}", "nan", "'/'", "'a/'", "'..'", '"\\u0000"', "1979-05-27"]
)  # fmt: skip
_KEY = st.sampled_from(
    ["controller", "views", "models", "docs", "slots", "queue_seconds", "retries", "model",
     "analyze", "apply", "fix.rounds", "analyze.command", "analyze.prompt", "analyze.output",
     "test.stdin", "ci.timeout_seconds", "model.posts", "x"]
)  # fmt: skip


@given(st.dictionaries(_KEY, _VALUE, max_size=5))
def test_whatever_is_set_it_is_taken_or_told(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("layout")
    text = "[work]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
    try:
        layout = load(root, text)
    except SettingsError:
        return
    request = layout.analysis_request(SHOW)
    assert all(".." not in path and path[0] != "/" for path in request.read_paths)
    assert all(path.startswith(layout.docs_of(SHOW)) for path in request.write_paths)
