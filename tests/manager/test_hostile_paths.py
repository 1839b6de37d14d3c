"""Hostile texts: refused, or exactly one key, and never a way out of the tree."""

from __future__ import annotations

import json
import os
import stat
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core import keys
from holdfast.core.errors import BadKeyError
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import Place, Tree, Words
from hostile import LINKS, TABLE, Row, World, build

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = [
    pytest.param(
        realpath.look_by_descriptor,
        marks=pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux has O_PATH"),
    ),
    realpath.look_by_name,
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def tree(world: World) -> Tree:
    return Tree(world.root)


def outcome(tree: Tree | Words, text: str) -> Place | None:
    """The place, or None for a refusal. Any other exception is a failure of the test."""
    try:
        return tree.place(text)
    except BadKeyError:
        return None


def test_the_table_is_large_and_every_row_says_one_thing() -> None:
    assert len(TABLE) >= 500
    assert len({row.id for row in TABLE}) == len(TABLE)
    for row in TABLE:
        assert bool(row.key) != bool(row.refused), row.id


def test_no_two_rows_try_the_same_text() -> None:
    seen: dict[str, str] = {}
    for row in TABLE:
        assert seen.setdefault(row.text, row.id) == row.id


@pytest.mark.parametrize("row", TABLE, ids=lambda row: ascii(row.id))
def test_a_hostile_text_is_refused_for_its_reason_or_is_one_key(
    row: Row, world: World, tree: Tree
) -> None:
    text = world.text(row)
    if row.key:
        assert tree.place(text).key == row.key
        return
    with pytest.raises(BadKeyError) as caught:
        tree.place(text)
    assert row.refused in caught.value.message


@pytest.mark.parametrize("look", LOOKS)
def test_no_text_of_the_table_leads_out_of_the_tree(
    world: World, tree: Tree, look: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realpath, "look", look)
    for row in TABLE:
        place = outcome(tree, world.text(row))
        assert (place.key if place else "") == row.key, row.id
        if place is not None:
            check_inside(place, world)


def check_inside(place: Place, world: World) -> None:
    """Check an accepted text with code that shares nothing with `place`."""
    if not place.real:
        assert keys.kind(place.key) in keys.GENERIC_KINDS
        return
    if os.path.lexists(place.real):
        assert not stat.S_ISLNK(os.lstat(place.real).st_mode)
    real = os.path.realpath(place.real)
    assert real == place.real
    assert real == world.root or real.startswith(f"{world.root}/")
    assert not f"{real}/".startswith((f"{world.root}/.holdfast/", f"{world.root}/nested/"))
    components = place.key.removeprefix("./").split("/")
    assert place.key == keys.ROOT or not {"", ".", ".."} & set(components)
    assert unicodedata.is_normalized("NFC", place.key)
    assert keys.kind(place.key) == "path"
    assert keys.overlap(keys.ROOT, place.key)
    assert place.key == keys.ROOT or "" < place.key < "\U0010ffff"
    place.key.encode()


def test_equal_files_have_equal_keys_or_one_inode(world: World, tree: Tree) -> None:
    seen: dict[tuple[int, int], Place] = {}
    compared = 0
    for row in TABLE:
        place = outcome(tree, world.text(row))
        if place is None or not place.real or not os.path.exists(place.real):
            continue
        status = os.stat(place.real)
        first = seen.setdefault((status.st_dev, status.st_ino), place)
        compared += first is not place
        if place.links > 1:
            assert place.inode == first.inode != ""
        else:
            assert place == first, row.id
    assert compared > 50


def test_an_accepted_text_leads_where_the_kernel_leads_it(world: World, tree: Tree) -> None:
    compared = 0
    for row in TABLE:
        text = world.text(row)
        place = outcome(tree, text)
        if place is None or not place.real:
            continue
        try:
            said = os.stat(text if text.startswith("/") else f"{world.root}/{text}")
        except OSError:
            assert not place.inode
            continue
        compared += 1
        assert os.path.samestat(said, os.stat(place.real)), row.id
    assert compared > 80


def test_the_path_of_a_place_leads_to_the_same_place_again(world: World, tree: Tree) -> None:
    words = Words()
    for row in TABLE:
        text = world.text(row)
        place = outcome(tree, text)
        if place is not None:
            assert tree.place(place.path) == place, row.id
        by_words = outcome(words, text)
        if by_words is not None:
            assert words.place(by_words.path) == by_words, row.id


def test_by_words_alone_no_text_of_the_table_leads_up_or_to_a_broken_key(world: World) -> None:
    words = Words()
    for row in TABLE:
        place = outcome(words, world.text(row))
        if place is not None and keys.kind(place.key) == "path":
            components = set(place.key.removeprefix("./").split("/"))
            assert place.key == keys.ROOT or not {"", ".", ".."} & components
            assert (place.real, place.inode, place.links) == ("", "", 0)


def test_every_refusal_can_be_printed_stored_and_acted_upon(world: World, tree: Tree) -> None:
    for row in TABLE:
        if row.refused:
            with pytest.raises(BadKeyError) as caught:
                tree.place(world.text(row))
            error = caught.value
            assert error.hint
            assert len(error.message) < 5_000
            assert "\n" not in error.message
            json.dumps(error.to_dict(), ensure_ascii=False).encode()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_no_text_of_the_table_leaks_a_descriptor(world: World, tree: Tree) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for row in TABLE:
        outcome(tree, world.text(row))
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_case_folds_the_table_still_gives_no_way_out(world: World) -> None:
    folding = Tree(world.root)
    folding.folds = True
    for row in TABLE:
        place = outcome(folding, world.text(row))
        if place is not None and place.real:
            check_inside(place, world)
        if row.refused:
            assert place is None, row.id


any_text = st.text(st.characters(exclude_categories=()), max_size=300)
fragments = st.sampled_from(
    [
        "..", ".", "", "app", "x.rb", "links", "nested", ".holdfast", "missing", "README.md",
        "outside", "repo", "~", " ", "port:1", "res:box", "e\u0301", "\u00e9", "\uff0e\uff0e",
        "\u200b", "\\", "\x00", *LINKS,
    ]
)  # fmt: skip
pieced = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "./", "../", "<root>/", "<outside>/", "//"]),
    st.lists(st.one_of(fragments, fragments, fragments, any_text), max_size=12),
    st.sampled_from(["", "/", "/.", "/.."]),
)


@settings(max_examples=600, deadline=None)
@given(text=st.one_of(any_text, pieced), folds=st.booleans())
@example(text="\udcff", folds=True)
@example(text="port:\u0663", folds=False)
@example(text="\u200b../x", folds=True)
@example(text="\u200b/x", folds=True)
def test_arbitrary_text_never_escapes_and_never_raises_anything_else(
    world: World, text: str, folds: bool
) -> None:
    tree = Tree(world.root)
    tree.folds = folds
    text = world.text(Row("", text))
    place = outcome(tree, text)
    if place is not None:
        check_inside(place, world)
        assert tree.place(place.path) == place
    by_words = outcome(Words(), text)
    if by_words is not None:
        assert Words().place(by_words.path) == by_words
