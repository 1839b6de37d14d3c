"""Keys as a terminal sends them, and scrolling a text with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.terminal import keystrokes
from holdfast.cli.terminal.keystrokes import KeyReader
from holdfast.cli.terminal.pager import Pager
from holdfast.cli.terminal.tables import wide

SEQUENCES = {
    b"\x1b[A": keystrokes.UP, b"\x1bOA": keystrokes.UP, b"\x1b[B": keystrokes.DOWN,
    b"\x1b[1;2B": keystrokes.DOWN,
    b"\x1b[5~": keystrokes.PAGE_UP, b"\x1b[6;3~": keystrokes.PAGE_DOWN, b"\x1b[H": keystrokes.HOME,
    b"\x1b[1~": keystrokes.HOME, b"\x1b[7~": keystrokes.HOME, b"\x1b[F": keystrokes.END,
    b"\x1bOF": keystrokes.END,
    b"\x1b[8~": keystrokes.END, b"k": keystrokes.UP, b"j": keystrokes.DOWN, b"g": keystrokes.HOME,
    b"G": keystrokes.END,
    b" ": keystrokes.PAGE_DOWN, b"b": keystrokes.PAGE_UP,
}  # fmt: skip
#: Function keys, the arrows to the sides, answers of a terminal to questions, letters.
OTHERS = [
    b"\x1b[C", b"\x1b[D", b"\x1bOP", b"\x1b[11~", b"\x1b[3~", b"\x1b[2 q", b"\x1b[0n", b"x",
    "é".encode(), b"\r", b"\t", b"\x1b[1;5q",
]  # fmt: skip


@pytest.mark.parametrize("typed", SEQUENCES)
def test_a_key_is_known_by_what_the_terminal_sends(typed: bytes) -> None:
    assert KeyReader().feed(typed) == [SEQUENCES[typed]]


@pytest.mark.parametrize("typed", [b"q", b"Q", b"\x03"])
def test_q_and_an_interrupt_quit(typed: bytes) -> None:
    assert KeyReader().feed(typed) == [keystrokes.QUIT]


@given(
    st.lists(st.sampled_from([*SEQUENCES, *OTHERS]), min_size=1, max_size=8), st.data()
)  # fmt: skip
def test_keys_in_pieces_are_the_same_keys_and_none_quits(
    typed: list[bytes], data: st.DataObject
) -> None:
    whole, reader, found = b"".join(typed), KeyReader(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += reader.feed(whole[:size])
        whole = whole[size:]
    assert found == [SEQUENCES[one] for one in typed if one in SEQUENCES]


def test_a_lone_escape_takes_nothing_away_from_the_key_after_it() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.feed(b"q") == [keystrokes.QUIT]
    assert reader.feed(b"\x1b") == []
    assert reader.feed(b"\x1b[A") == [keystrokes.UP]


def test_a_sequence_without_end_is_dropped() -> None:
    reader = KeyReader()
    reader.feed(b"\x1b[" + b"1" * 100)
    assert reader.feed(b"q") == [keystrokes.QUIT]


# Scrolling

BODY = [f"line {one}" for one in range(1, 31)]


def shown(pager: Pager, height: int = 12, body: list[str] = BODY) -> list[str]:
    return pager.frame("title", body, 80, height)


def test_a_frame_is_the_title_as_much_as_fits_and_the_keys() -> None:
    found = shown(Pager())
    assert (found[0], found[1], found[10]) == ("title", "line 1", "line 10")
    assert len(found) == 12
    assert found[-1].endswith("q quits · 1-10 of 30")
    assert shown(Pager(), 5, ["one"]) == ["title", "one", "", "", found[-1].rpartition(" · ")[0]]


@pytest.mark.parametrize(
    ("pressed", "first"),
    [
        ([keystrokes.DOWN], 2), ([keystrokes.UP], 1), ([keystrokes.PAGE_DOWN], 10),
        ([keystrokes.PAGE_DOWN] * 9, 21),
        ([keystrokes.END], 21), ([keystrokes.END, keystrokes.DOWN, keystrokes.UP], 20),
        ([keystrokes.END, keystrokes.HOME], 1),
        ([keystrokes.END, keystrokes.PAGE_UP], 12),
    ],
)  # fmt: skip
def test_keys_move_it_and_not_beyond_its_ends(pressed: list[str], first: int) -> None:
    pager = Pager()
    shown(pager)
    for key in pressed:
        pager.press(key)
    assert shown(pager)[1] == f"line {first}"


def test_when_the_text_becomes_shorter_its_end_is_shown() -> None:
    pager = Pager()
    shown(pager)
    pager.press(keystrokes.END)
    assert shown(pager, body=BODY[:15])[1:11] == BODY[5:15]


@given(st.integers(1, 60), st.integers(1, 40))
def test_a_frame_is_never_larger_than_the_screen(width: int, height: int) -> None:
    found = Pager().frame("t", ["x"] * 50, width, height)
    assert len(found) == height
    assert wide(found[-1]) <= width
