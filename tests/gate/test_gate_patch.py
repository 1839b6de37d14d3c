"""The files of a patch, read as the client reads them.

The effect of each of these texts was tested with the client's own `apply_patch`.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gate.clients import patch_files


def wrapped(*lines: str, newline: str = "\n") -> str:
    return newline.join(("*** Begin Patch", *lines, "*** End Patch"))


ADD = ("*** Add File: new.txt", "+hello")
UPDATE = ("*** Update File: old.txt", "@@ def f():", "-a", "+b")
MOVE = ("*** Update File: from.txt", "*** Move to: to.txt", "@@", "-a", "+b")
DELETE = ("*** Delete File: gone.txt",)


def test_every_kind_of_change_names_its_files_in_order() -> None:
    text = wrapped(*DELETE, *MOVE, *ADD, *UPDATE)
    assert patch_files.files(text) == ("gone.txt", "from.txt", "to.txt", "new.txt", "old.txt")


def test_a_file_is_named_once() -> None:
    text = wrapped("*** Delete File: a", "*** Add File: a", "+x", *UPDATE, *UPDATE)
    assert patch_files.files(text) == ("a", "old.txt")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("before", ["", "\n\n", "  "])
@pytest.mark.parametrize("behind", ["", "\n", " \n\n", "\r\n"])
def test_line_ends_and_blanks_around_it_do_not_matter(
    newline: str, before: str, behind: str
) -> None:
    text = before + wrapped(*MOVE, *ADD, newline=newline) + behind
    assert patch_files.files(text) == ("from.txt", "to.txt", "new.txt")


def test_headers_may_have_blanks_around_them() -> None:
    text = "  *** Begin Patch \n\t*** Add File: a \n+x\n  *** Delete File: b\t\n *** End Patch"
    assert patch_files.files(text) == ("a", "b")


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("apply_patch <<'EOF'", "EOF"), ('apply_patch <<"EOF"', "EOF"),
        ("apply_patch <<EOF", "EOF"),
        ("applypatch << 'PATCH'", "PATCH"), ("<<'EOF'", "EOF"), ("<<-EOF", "\tEOF"),
        ("apply_patch <<'EOF'", "EOF\n\n"), ("apply_patch <<'EOF'", ""), ("<<EOF", "\nEOF"),
    ],
)  # fmt: skip
def test_a_here_document_around_it_is_looked_through(first: str, last: str) -> None:
    assert patch_files.files(f"{first}\n{wrapped(*ADD)}\n{last}") == ("new.txt",)


def test_the_environment_is_not_a_file() -> None:
    assert patch_files.files(wrapped("*** Environment ID: remote", *ADD)) == ("new.txt",)
    assert patch_files.files(wrapped("  *** Environment ID: remote  ", *ADD)) == ("new.txt",)


LOOKS = [
    "*** Add File: no", "*** Update File: no", "*** Delete File: no", "*** Move to: no",
    "*** End Patch", "*** Begin Patch", "*** Environment ID: no", "*** End of File",
]  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("mark", ["+", "-", " ", "@@ "])
def test_a_line_of_the_change_is_no_header_whatever_it_looks_like(look: str, mark: str) -> None:
    text = wrapped("*** Update File: a", "@@", "-x", mark + look, "+y", *DELETE)
    assert patch_files.files(text) == ("a", "gone.txt")


@pytest.mark.parametrize("look", LOOKS)
def test_a_line_of_a_new_file_is_no_header_whatever_it_looks_like(look: str) -> None:
    assert patch_files.files(wrapped("*** Add File: a", "+" + look, "+", *DELETE)) == (
        "a",
        "gone.txt",
    )


def test_a_move_is_one_only_directly_under_its_file() -> None:
    text = wrapped("*** Update File: a", " *** Move to: no", "-x", "+y")
    assert patch_files.files(text) == ("a",)


def test_the_end_of_a_file_and_blank_lines_belong_to_the_change() -> None:
    text = wrapped(*UPDATE, "*** End of File", "", "*** Delete File: b", *UPDATE, "", *DELETE)
    assert patch_files.files(text) == ("old.txt", "b", "gone.txt")


def test_a_change_may_begin_without_a_place() -> None:
    assert patch_files.files(wrapped("*** Update File: a", "-x", "+y", *DELETE)) == (
        "a",
        "gone.txt",
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("*** Add File:   n", "  n"), ('*** Add File: "n"', '"n"'),
        ("*** Add File: n\x1c", "n\x1c"),
        ("*** Add File: n\xa0", "n"), ("*** Add File: n\x85", "n"), ("*** Add File: n\vm", "n\vm"),
        ("*** Add File: n\u2028*** Delete File: b", "n\u2028*** Delete File: b"),
        ("*** Add File: d/./e/../n", "d/./e/../n"), ("*** Add File: ~/n", "~/n"),
        ("*** Add File: /n", "/n"), ("*** Add File: *** Delete File: b", "*** Delete File: b"),
        ("*** Add File: ü/日本 語.txt", "ü/日本 語.txt"),
    ],
)  # fmt: skip
def test_names_are_the_ones_that_the_client_writes(line: str, name: str) -> None:
    assert patch_files.files(wrapped(line, "+x")) == (name,)


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "hello", "*** Begin Patch", "*** End Patch", "*** Begin Patch\n*** End Patch",
        "*** Add File: n\n+x", "*** Begin Patch\n*** Add File: n\n+x",
        "*** Add File: n\n+x\n*** End Patch", "hello\n" + wrapped(*ADD), wrapped(*ADD) + "\nbye",
        "*** begin patch\n*** add file: n\n+x\n*** end patch", wrapped("*** Add File:n", "+x"),
        wrapped("*** Add File: ", "+x"), wrapped("***  Add File: n", "+x"),
        wrapped("*** Frob File: n"), wrapped(*UPDATE, "*** Frob File: n"), wrapped(*UPDATE, "text"),
        wrapped("*** Begin Patch", *ADD), wrapped(*DELETE, "-x"), wrapped(*ADD, "text"),
        wrapped(*ADD, "*** Environment ID: late"), wrapped(*ADD, newline="\r"),
        "cd elsewhere && apply_patch <<'EOF'\n" + wrapped(*ADD) + "\nEOF",
        "apply_patch <<'EOF' > log\n" + wrapped(*ADD) + "\nEOF",
        "\ufeff" + wrapped(*ADD), "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b",
        wrapped("*** Update File: a", "*** Move to: ", "-x"),
        wrapped("*** Update File: a", "*** Move to: b", "*** Move to: c", "-x"),
    ],
)  # fmt: skip
def test_what_is_no_patch_is_not_understood(text: str) -> None:
    assert patch_files.files(text) is None


name = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=20
)
body = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """The lines of one change, and the files that it touches."""
    kind, file = draw(st.sampled_from("aud")), draw(name)
    if kind == "d":
        return [f"*** Delete File: {file}"], [file]
    texts = draw(st.lists(body | st.sampled_from(LOOKS), max_size=5))
    if kind == "a":
        return [f"*** Add File: {file}", *("+" + text for text in texts)], [file]
    target = draw(st.none() | name)
    marks = draw(st.lists(st.sampled_from("+- "), min_size=5, max_size=5))
    lines = [mark + text for mark, text in zip(marks, texts, strict=False)]
    moves = [] if target is None else [f"*** Move to: {target}"]
    files = [file] if target is None else [file, target]
    return [f"*** Update File: {file}", *moves, "@@", *lines], files


@given(st.lists(changes(), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_any_patch_gives_exactly_its_files(
    parts: list[tuple[list[str], list[str]]], newline: str
) -> None:
    text = wrapped(*(line for lines, _ in parts for line in lines), newline=newline)
    assert patch_files.files(text) == tuple(
        dict.fromkeys(file for _, files in parts for file in files)
    )


@given(st.text(st.characters() | st.sampled_from("*+- @\n\r")) | st.lists(
    st.sampled_from([*LOOKS, "+x", "-x", " x", "@@", "", "<<EOF", "EOF"]) | body
).map("\n".join))  # fmt: skip
@settings(max_examples=300)
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = patch_files.files(text)
    assert found is None or (found and all(found))


def test_a_huge_text_takes_no_time() -> None:
    texts = [
        wrapped("*** Add File: a", *("+x" for _ in range(300_000))),
        wrapped(*(f"*** Delete File: {number}" for number in range(100_000))),
        "*" * 3_000_000, "<" * 3_000_000, "\n" * 1_000_000, " " * 3_000_000 + "x",
    ]  # fmt: skip
    begin = time.process_time()
    for text in texts:
        patch_files.files(text)
    assert time.process_time() - begin < 5
