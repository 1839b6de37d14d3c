"""The manifest of screens: what it must contain, and how a mistake in it is reported."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.cli import exit_code
from holdfast.core import keys
from holdfast.manager.files.paths import Words
from holdfast.work.input_checks import (
    DEPTH_MAX,
    TOLD_MAX,
    folded,
    name_problem,
    path_problem,
    tidy,
)
from holdfast.work.screens.manifest import (
    SIZE_MAX,
    ManifestError,
    Screen,
    ScreenManifest,
)


def screen(**changes: Any) -> dict[str, Any]:
    """A valid screen with these changes; a change to None removes the field."""
    found = {
        "name": "show",
        "module": "blog",
        "controller": "posts",
        "actions": {"primary": "show", "secondary": ["like"]},
        "reads_from": ["app/models/blog/post.rb"],
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def parse(*screens: Any, **top: Any) -> ScreenManifest:
    return ScreenManifest.parse(
        json.dumps({"version": 1, "screens": list(screens), **top}).encode()
    )


def problems(*screens: Any, **top: Any) -> dict[str, str]:
    """What is wrong, by its place."""
    with pytest.raises(ManifestError) as caught:
        parse(*screens, **top)
    return {one["place"]: one["problem"] for one in caught.value.fields["problems"]}


def refusal(data: bytes) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        ScreenManifest.parse(data, "screens.json")
    return caught.value


def test_a_manifest_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "screens.json"
    file.write_text(json.dumps({"version": 1, "screens": [screen(), screen(name="Post Detail")]}))
    found = ScreenManifest.load(file)
    assert len(found) == 2
    assert next(iter(found)) == Screen(
        "show", "blog", "posts", "show", ("like",), ("app/models/blog/post.rb",)
    )
    assert found.screens[1].workflow == "blog/posts/Post Detail"
    assert found.source == str(file)
    assert [one.to_data() for one in found] == [screen(), screen(name="Post Detail")]


def test_only_the_secondary_actions_may_be_left_out() -> None:
    (found,) = parse(screen(actions={"primary": "show"}))
    assert found.secondary == ()
    assert problems(screen(actions={"secondary": []})) == {"screens[0].actions.primary": "missing"}


@pytest.mark.parametrize("field", ["name", "module", "controller", "actions", "reads_from"])
def test_a_missing_field_is_reported_with_its_place(field: str) -> None:
    wrong = screen(**{"name": "edit", field: None})
    assert problems(screen(), wrong) == {f"screens[1].{field}": "missing"}


def test_all_mistakes_of_a_file_are_reported_together() -> None:
    error = refusal(
        json.dumps(
            {"version": 1, "screens": [screen(name=None), 3, screen(module="a/b", reads_from="x")]}
        ).encode()
    )
    assert [one["place"] for one in error.fields["problems"]] == [
        "screens[0].name", "screens[1]", "screens[2].module", "screens[2].reads_from",
    ]  # fmt: skip
    assert error.message.startswith("screens.json: 4 errors: screens[0].name: missing; screens[1]:")
    assert (error.code, exit_code(error), error.fields["count"]) == ("E_MANIFEST", 2, 4)
    assert error.hint


def test_of_very_many_mistakes_some_are_told_and_the_rest_is_counted() -> None:
    begin = process_time()
    error = refusal(json.dumps({"version": 1, "screens": [{}] * 10_000}).encode())
    assert process_time() - begin < 5
    assert len(error.fields["problems"]) == TOLD_MAX
    assert error.fields["count"] == 50_000
    assert f"and {50_000 - TOLD_MAX} more" in error.message
    assert len(error.message) < 5000


@pytest.mark.parametrize(
    "name",
    ["", " ", "a/b", "a\\b", ".", "..", "...", ".hidden", "-rf", "a\0b", "a\nb", "a\x1b[31m",
     "\u202egnp", "a:b", "{screen}", "a*", 'a"b', "a ", " a", "a.", "x" * 101, "é" * 128,
     3, None, [], {}, True],
)  # fmt: skip
@pytest.mark.parametrize("field", ["name", "module", "controller"])
def test_a_name_that_is_not_safe_in_paths_and_templates_is_refused(field: str, name: Any) -> None:
    wrong = {**screen(), field: name}
    assert list(problems(wrong)) == [f"screens[0].{field}"]


@pytest.mark.parametrize(
    "name", ["index", "Post Detail", "été", "v2.1", "a-b_c", "日本", "x" * 100]
)
def test_ordinary_names_are_taken(name: str) -> None:
    (found,) = parse(screen(name=name, module=name, controller=name))
    assert found.workflow == f"{name}/{name}/{name}"


@given(st.text(max_size=120))
def test_a_name_that_is_taken_is_one_component_of_a_path(name: str) -> None:
    if not name_problem(name):
        assert keys.lexical(f"docs/{name}/x").count("/") == 2
        assert name.strip() == name
        assert not {"{", "}", ":", "\\"} & set(name)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../secret", ".."), ("app/../../secret", ".."), ("app/..", ".."),
        ("/etc/passwd", "absolute"), ("~/x", "absolute"), ("", "empty"), ("  ", "empty"),
        ("a\0b", "character"),
        ("a\nb", "character"), ("port:5432", "resource"), ("spec:x", "resource"), (3, "not 3"),
        (None, "not null"), (["a"], "a list"), (".git/config", "belongs to git"),
        ("sub/.GIT/hooks/x", "belongs to git"), (".holdfast/ledger.db", "belongs to Holdfast"),
        ("x" * 300, "too long"), ("a/" * 3000, "too long"),
    ],
)  # fmt: skip
def test_reads_from_never_leads_out_of_the_repository(path: Any, told: str) -> None:
    found = problems(screen(reads_from=["app/x.rb", path]))
    assert list(found) == ["screens[0].reads_from[1]"]
    assert told in found["screens[0].reads_from[1]"]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("./~:\0"), max_size=40))
@example("\U0010ffff")  # which no key can contain
def test_a_path_that_is_taken_stays_inside_and_tidied_means_the_same(path: str) -> None:
    if not path_problem(path):
        place = Words().place(tidy(path))
        assert place.key == Words().place(path).key
        assert place.folder == Words().place(path).folder
        assert tidy(tidy(path)) == tidy(path)


def test_paths_are_kept_in_one_spelling_and_once() -> None:
    (found,) = parse(
        screen(reads_from=["./app//x.rb", "app/x.rb", "app/", "app/./", "lib/.", "./port:1"])
    )
    assert found.reads_from == ("app/x.rb", "app/", "lib/", "./port:1")


def test_the_same_screen_twice_is_refused_with_both_places() -> None:
    assert problems(screen(), screen(name="edit"), screen()) == {
        "screens[2]": "blog/posts/show is already in screens[0]"
    }


@pytest.mark.parametrize(
    ("one", "other"), [("show", "Show"), ("\u00e9", "e\u0301"), ("STRASSE", "straße")]
)
def test_names_that_are_one_folder_on_some_disk_are_the_same(one: str, other: str) -> None:
    assert list(problems(screen(name=one), screen(name=other))) == ["screens[1]"]


def test_the_same_name_in_another_controller_or_module_is_another_screen() -> None:
    found = parse(screen(), screen(controller="pages"), screen(module="shop"))
    assert list(found.groups) == ["blog/posts", "blog/pages", "shop/posts"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"read_from": []}, "did you mean reads_from?"),
        ({"Name": "x"}, "did you mean name?"),
        ({"zzz": 1}, "there is name, module, controller, actions, reads_from"),
        ({"\x1b[31m": 1}, "no such field"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_known_one(
    given: dict[str, Any], told: str
) -> None:
    ((place, problem),) = problems(screen(**given)).items()
    assert told in problem
    assert place.startswith("screens[0].")
    assert place.isprintable()


def test_unknown_fields_elsewhere_are_refused_too() -> None:
    assert problems(screen(), screen_count=1) == {
        "screen_count": "no such field; did you mean screens?"
    }
    assert list(problems(screen(actions={"primary": "a", "secundary": []}))) == [
        "screens[0].actions.secundary"
    ]


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None, [1]])
def test_another_version_is_refused_and_nothing_else_is_said(version: Any) -> None:
    ((place, problem),) = problems(3, version=version).items()
    assert place == "version"
    assert "this program reads 1" in problem


def test_no_version_and_no_screens_are_missing() -> None:
    error = refusal(b"{}")
    assert error.message == "screens.json: 2 errors: version: missing; screens: missing"
    assert problems() == {"screens": "empty; there is nothing to do"}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "this is empty"),
        (b" \n\t", "this is empty"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark"),
        ("{}".encode("utf-16"), "this is UTF-16"),
        (b'{"version": 1,\n"x": "\xe9"}', "line 2: this is not UTF-8"),
        (b'{"version": 1,\n "screens": }', "line 2, column 13: this is not JSON"),
        (b"screens: []", "line 1, column 1: this is not JSON"),
        (b"[]", "an object is needed, not a list"),
        (b"null", "an object is needed, not null"),
        (b'{"version": NaN}', "NaN is not a number"),
        (b'{"version": ' + b"1" * 5000 + b"}", "thousands of digits"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "nested more than"),
        (b'{"version": 1, "screens": [{"name": "\\ud800"}]}', "half a character"),
        (b'{"version": 1, "version": 1, "screens": 3}', "version: given twice"),
        (b'{"version": 1, "screens": {}}', "screens: a list is needed, not an object"),
        (b" " * (SIZE_MAX + 1), "larger than 32 MiB"),
    ],
)
def test_a_document_that_is_not_a_manifest_is_reported(data: bytes, told: str) -> None:
    error = refusal(data)
    assert told in error.message
    assert error.message.startswith("screens.json: ")
    assert len(error.message) < 1000


def test_a_pair_of_escapes_is_one_character() -> None:
    data = json.dumps({"version": 1, "screens": [screen(name="a𝛑b")]}).encode()
    assert b"\\ud8" in data
    assert ScreenManifest.parse(data).screens[0].name == "a𝛑b"


def test_a_duplicate_field_is_reported_with_its_place() -> None:
    text = json.dumps({"version": 1, "screens": [screen()]})
    error = refusal(text.replace('"module"', '"name": "x", "module"').encode())
    assert error.message == "screens.json: screens[0].name: given twice"


@pytest.mark.parametrize("make", ["nothing", "folder", "unreadable"])
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, make: str) -> None:
    file = tmp_path / "screens.json"
    if make == "folder":
        file.mkdir()
    elif make == "unreadable":
        file.symlink_to(file)
    with pytest.raises(ManifestError, match=r"no such file|folder|cannot be read"):
        ScreenManifest.load(file)


def test_a_file_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "screens.json"
    with open(file, "wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(ManifestError, match="larger than 32 MiB"):
        ScreenManifest.load(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_manifest_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = json.dumps({"version": 1, "screens": [screen()]})
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert len(ScreenManifest.load(pipe)) == 1
    writer.join()


def test_ten_thousand_screens_load_in_well_under_a_second(tmp_path: Path) -> None:
    file = tmp_path / "screens.json"
    screens = [
        screen(name=f"s{n}", module=f"m{n % 17}", controller=f"c{n % 600}",
               reads_from=["app/x.rb", f"app/models/{n % 50}.rb"])
        for n in range(10_000)
    ]  # fmt: skip
    file.write_text(json.dumps({"version": 1, "screens": screens}))
    spent = []
    for _attempt in range(3):
        begin = process_time()
        assert len(ScreenManifest.load(file)) == 10_000
        spent.append(process_time() - begin)
    assert min(spent) < 0.9, spent


@given(st.binary(max_size=200))
def test_whatever_the_file_has_it_is_a_manifest_or_an_error(data: bytes) -> None:
    _taken_or_told(lambda: ScreenManifest.parse(data))


def _taken_or_told(read: Callable[[], ScreenManifest]) -> ScreenManifest | None:
    told: ManifestError | None = None
    try:
        return read()
    except ManifestError as error:
        told = error
    assert told.fields["count"] >= 1
    assert told.message.isprintable()
    return None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "module", "controller", "actions", "primary", "secondary",
                         "reads_from", "x", "\n"]), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(_JSON, max_size=3))
def test_whatever_the_screens_are_they_are_taken_or_told(screens: list[Any]) -> None:
    found = _taken_or_told(lambda: parse(*screens))
    if found is not None:
        assert len({folded(one.workflow) for one in found}) == len(screens)
