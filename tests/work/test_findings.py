"""What an analysis must contain: checked against its schema, and never trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidInput, OverLockError
from holdfast.cli import exit_code
from holdfast.manager.files.paths import Tree, Words
from holdfast.work.screens.findings import (
    SIZE_MAX,
    TARGETS_MAX,
    Findings,
    FindingsError,
    aggregate,
)
from holdfast.work.screens.manifest import Screen

SCREEN = Screen("Post Detail", "blog", "posts", "show")


def output(**changes: Any) -> bytes:
    """A valid output with these changes; a change to ... removes the field."""
    found = {"screen": "Post Detail", "findings": [], "write_targets": [], **changes}
    return json.dumps({name: one for name, one in found.items() if one is not ...}).encode()


def refusal(data: bytes, tree: Tree | None = None) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        Findings.parse(data, SCREEN, tree, source="findings.json")
    return caught.value


def test_an_output_is_read_from_the_file_that_the_agent_wrote(tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    file.write_bytes(output(findings=[{"text": "x"}], write_targets=["app/x.rb"], summary="more"))
    found = Findings.load(file, SCREEN, Tree(str(tmp_path)))
    assert found == Findings("Post Detail", ({"text": "x"},), ("app/x.rb",))


@pytest.mark.parametrize("field", ["screen", "findings", "write_targets"])
def test_a_missing_field_is_reported(field: str) -> None:
    error = refusal(output(**{field: ...}))
    assert error.message == f"findings.json: {field}: missing"
    assert (error.code, exit_code(error)) == ("E_FINDINGS", 2)
    assert error.fields["screen"] == "blog/posts/Post Detail"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("screen", "Another", "screen: 'Another', but this is the analysis of 'Post Detail'"),
        ("screen", 3, "screen: a text is needed, not 3"),
        ("findings", {}, "findings: a list is needed, not an object"),
        ("findings", "none", "findings: a list is needed, not the text 'none'"),
        ("write_targets", "app/x.rb", "write_targets: a list is needed"),
        ("write_targets", None, "write_targets: a list is needed, not null"),
        ("write_targets", ["a.rb", 3], "write_targets[1]: a path is needed, not 3"),
        ("write_targets", [["a.rb"]], "write_targets[0]: a path is needed, not a list"),
        ("write_targets", ["../x"], "write_targets[0]: '../x' contains .."),
        ("write_targets", ["app/../../x"], "contains .."),
        ("write_targets", ["/etc/passwd"], "write_targets[0]: '/etc/passwd' is absolute"),
        ("write_targets", ["~/.bashrc"], "is absolute"),
        ("write_targets", [""], "write_targets[0]: empty"),
        ("write_targets", ["a\x1b[2J"], "write_targets[0]: "),
        ("write_targets", ["db:test"], "is a resource"),
        ("write_targets", ["x"] * (TARGETS_MAX + 1), "at most 10000 are accepted"),
    ],
)
def test_an_invalid_field_is_reported_with_its_place(field: str, value: Any, told: str) -> None:
    error = refusal(output(**{field: value}))
    assert isinstance(error, FindingsError)
    assert told in error.message
    assert error.message.isprintable()
    assert len(error.message) < 500


def test_all_mistakes_come_at_once() -> None:
    error = refusal(output(screen="x", findings=3, write_targets=["ok.rb", "../x", 5]))
    assert [one["place"] for one in error.fields["problems"]] == [
        "screen", "findings", "write_targets[1]", "write_targets[2]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "this is empty"),
        (b"I have finished the analysis.", "line 1, column 1: this is not JSON"),
        (b"```json\n{}\n```", "line 1, column 1: this is not JSON"),
        (b"[]", "an object is needed, not a list"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b'{"screen": "\xe9"}', "this is not UTF-8"),
        (b'{"findings": ' + b"[" * 100_000, "nested too deeply"),
        (output(findings=json.loads("[" * 70 + "]" * 70)), "nested more than"),
        (b'{"screen": "a", "screen": "b"}', "screen: given twice"),
        (output(findings=["\ud800"]), "half a character"),
        (b" " * (SIZE_MAX + 1), "larger than 8 MiB"),
    ],
)
def test_a_document_that_is_not_an_output_is_reported(data: bytes, told: str) -> None:
    error = refusal(data)
    assert isinstance(error, FindingsError)
    assert told in error.message


@pytest.mark.parametrize("path", ["app/models/", "app/models", "app/models/.", "link", "."])
def test_a_folder_among_the_targets_is_an_over_lock_error(repository: Path, path: str) -> None:
    (repository / "link").symlink_to("app")
    error = refusal(output(write_targets=["app/x.rb", path]), Tree(str(repository)))
    assert isinstance(error, OverLockError)
    assert error.code == "E_OVER_LOCK"
    assert "write_targets[1]: " in error.message
    assert "is a folder" in error.message
    assert error.fields["screen"] == "blog/posts/Post Detail"
    assert "prompt" in error.hint


def test_a_folder_is_an_over_lock_error_by_its_words_too() -> None:
    error = refusal(output(write_targets=["app/new/", "../x"]))
    assert isinstance(error, OverLockError)
    assert [one["place"] for one in error.fields["problems"]] == [
        "write_targets[0]", "write_targets[1]",
    ]  # fmt: skip


def test_a_link_out_of_the_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "out").symlink_to(tmp_path)
    error = refusal(output(write_targets=["out/x.rb"]), Tree(str(repository)))
    assert "write_targets[0]: 'out/x.rb' lies outside the tree" in error.message


def test_two_names_of_one_file_are_one_target(repository: Path) -> None:
    (repository / "alias").symlink_to("app")
    data = output(write_targets=["./app//x.rb", "alias/x.rb", "app/x.rb", "new.rb"])
    found = Findings.parse(data, SCREEN, Tree(str(repository)))
    assert found.write_targets == ("app/x.rb", "new.rb")


@pytest.mark.parametrize("make", ["nothing", "folder", "link", "pipe", "huge"])
def test_an_agent_cannot_keep_us_waiting_with_what_it_leaves_behind(
    tmp_path: Path, make: str
) -> None:
    file = tmp_path / "findings.json"
    if make == "folder":
        file.mkdir()
    elif make == "link":
        (tmp_path / "real.json").write_bytes(output())
        file.symlink_to("real.json")
    elif make == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo(file)
    elif make == "huge":
        with open(file, "wb") as stream:
            stream.truncate(1 << 30)
    with pytest.raises(FindingsError, match=r"findings\.json: this|findings\.json: there is"):
        Findings.load(file, SCREEN)


def test_the_targets_of_a_controller_are_those_of_all_its_screens_in_order() -> None:
    outputs = [
        Findings("a", (), ("x.rb", "y.rb")),
        Findings("b", (), ()),
        Findings("c", (), ("z.rb", "x.rb")),
    ]
    assert aggregate(outputs) == ("x.rb", "y.rb", "z.rb")
    assert aggregate([]) == ()


_TARGET = st.text(st.characters(codec="utf-8") | st.sampled_from("./~:\0"), max_size=30)


@given(st.lists(_TARGET | st.integers(), max_size=5))
def test_a_target_that_is_taken_is_a_file_below_the_root(targets: list[Any]) -> None:
    try:
        found = Findings.parse(output(write_targets=targets), SCREEN)
    except InvalidInput:
        return
    for path in found.write_targets:
        place = Words().place(path)
        assert not place.folder
        assert ".." not in place.key.split("/")
