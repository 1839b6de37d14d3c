"""Markdown checklists: which items are tasks, and that a tick changes one character."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from holdfast.gate import replacement
from holdfast.work.tasks.lists import checklist
from holdfast.work.tasks.lists.checklist import items, tick
from holdfast.work.tasks.lists.list_reader import TasksError, read_tasks


def names(text: str) -> list[str]:
    return [item.name for item in items(text) if not item.is_ticked]


def test_items_that_are_ticked_at_the_same_moment_are_all_ticked(tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    names = [f"item {number}" for number in range(24)]
    file.write_text("".join(f"- [ ] {name}\n" for name in names))
    threads = [threading.Thread(target=tick, args=(str(file), name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_text() == "".join(f"- [x] {name}\n" for name in names)


def test_each_kind_of_marker_begins_an_item() -> None:
    text = (
        "- [ ] a\n* [ ] b\n+ [ ] c\n1. [ ] d\n2) [ ] e\n   - [ ] f\n- [x] g\n- [X] h\n- i\n[ ] j\n"
    )
    assert names(text) == ["a", "b", "c", "d", "e"]
    assert [item.name for item in items(text) if item.is_ticked] == ["g", "h"]


def test_an_indented_list_is_a_list() -> None:
    assert names("text\n\n  - [ ] a\n\t- [ ] nested\n  - [ ] b\n") == ["a", "b"]


def test_items_in_code_and_in_comments_do_not_count() -> None:
    text = (
        "```md\n- [ ] a\n```\n~~~~\n- [ ] b\n~~~\n- [ ] c\n~~~~\n<!--\n- [ ] d\n-->\n"
        "<!-- x -->\n- [ ] e\n```\n- [ ] f\n"
    )
    assert names(text) == ["e"]


def test_the_prompt_is_the_text_and_the_lines_indented_below_it() -> None:
    text = """\
- [ ] rename `User`

  Also in **docs**:
    - users
  ```
- [ ] code
  ```
  end

- [ ] next
not part of it
"""
    first, second = items(text)
    assert first.name == "rename User"
    lines = [
        "rename `User`", "", "Also in **docs**:", "  - users", "```", "- [ ] code", "```", "end",
    ]  # fmt: skip
    assert first.prompt.splitlines() == lines
    assert (second.name, second.prompt) == ("next", "next")


def test_an_item_covers_the_items_nested_in_it_ticked_or_not() -> None:
    text = "- [ ] a\n  - [ ] b\n  - [x] c\n- [x] d\n  - [ ] e\n"
    (one,) = [item for item in items(text) if not item.is_ticked]
    assert (one.name, one.prompt) == ("a", "a\n- [ ] b\n- [x] c")


def test_markup_is_left_out_of_names_and_kept_in_prompts() -> None:
    (one,) = items("- [ ] see [the **guide**](https://x.org/a) for `__init__`\n")
    assert one.name == "see the guide for __init__"
    assert "](https://x.org/a)" in one.prompt


def test_a_name_has_nothing_that_cannot_be_seen() -> None:
    assert names("- [ ] a\u202eb\u200b\u00a0c\n") == ["ab c"]


@pytest.mark.parametrize("box", [" ", "x"])
def test_two_items_of_one_text_are_refused_with_both_lines(tmp_path: Path, box: str) -> None:
    file = tmp_path / "TODO.md"
    file.write_text(f"- [{box}] same\n\n- [ ] **Same**\n- [ ]\n")
    with pytest.raises(TasksError, match=r"2 errors: line 3: 'Same' is already in line 1"):
        read_tasks(str(file), str(tmp_path))


def test_a_checklist_of_which_all_is_ticked_has_no_task_left(tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("- [x] a\n")
    found = read_tasks(str(file), str(tmp_path))
    assert (len(found), found.is_checklist) == (0, True)


def test_a_tick_changes_one_byte_and_keeps_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    before = b"\xef\xbb\xbf# \xff\r\n- [ ] one\r\n\t* [ ] two\r* [ ] three\n\n1. [ ] four"
    file.write_bytes(before)
    file.chmod(0o640)
    assert tick(str(file), "four")
    assert file.read_bytes() == before.replace(b"1. [ ]", b"1. [x]")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert tick(str(file), "one")
    assert file.read_bytes() == before.replace(b"1. [ ]", b"1. [x]").replace(
        b"- [ ] one", b"- [x] one"
    )
    assert os.listdir(tmp_path) == ["TODO.md"]


def test_a_task_keeps_its_name_when_it_is_ticked(tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("- [ ] one `x`\n")
    (before,) = items(file.read_text())
    assert tick(str(file), before.name)
    (after,) = items(file.read_text())
    assert (after.name, after.is_ticked) == (before.name, True)


def test_an_item_that_is_ticked_gone_nested_or_ambiguous_is_not_ticked(tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    text = "- [x] one\n- [ ] two\n  - [ ] in\n- [ ] two\n"
    file.write_text(text)
    for name in ("one", "gone", "in", "two"):
        assert not tick(str(file), name)
    assert file.read_text() == text
    assert not tick(str(tmp_path / "none.md"), "one")


def test_the_file_that_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real/TODO.md", tmp_path / "TODO.md"
    file.write_text("- [ ] one\n")
    link.symlink_to("real/TODO.md")
    assert tick(str(link), "one")
    assert link.is_symlink()
    assert file.read_text() == "- [x] one\n"


def test_an_edit_that_a_person_saves_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("- [ ] one\n")
    real = replacement.replacement
    edits = iter(["- [ ] new\n- [ ] one\n"])

    def slow(*words: object, **more: object) -> object:
        for text in edits:
            file.write_text(text)
        return real(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(checklist, "replacement", slow)
    assert tick(str(file), "one")
    assert file.read_text() == "- [ ] new\n- [x] one\n"


def test_ticks_of_many_threads_are_made_together_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "TODO.md"
    names = [f"item {number}" for number in range(40)]
    file.write_text("".join(f"- [ ] {name}\n" for name in names))
    real, times = checklist.tick, []

    def counted(path: str, *some: str) -> bool:
        times.append(len(some))
        return real(path, *some)

    monkeypatch.setattr(checklist, "tick", counted)
    ticker = checklist.Ticker(str(file))
    threads = [threading.Thread(target=ticker.tick, args=([name],)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_text() == "".join(f"- [x] {name}\n" for name in names)
    assert sum(times) == len(names)
    ticker.tick(names)
    assert times[-1] == len(names), "all of them in one go"
