"""The order of a queue, and which of its items are worth a try."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model import ConflictInfo
from holdfast.work.engine.ready_queue import Queue
from holdfast.work.engine.work_items import LockRequest, WorkItem


def item(name: str, phase: str = "apply", arrival: int = 0, *, escalated: bool = False) -> WorkItem:
    return WorkItem(
        name, name, phase, LockRequest(), arrival=arrival, queued=arrival, escalated=escalated
    )


def in_the_way(path: str, mode: str = "w", held: str = "") -> list[ConflictInfo]:
    return [
        ConflictInfo(
            path=path, mode=mode, held_path=held or path, held_mode="w", holder="x",
            holder_key="x", grant_id="g", since=0, until=None,
        )
    ]  # fmt: skip


def order(queue: Queue) -> list[str]:
    """All items as they would be tried, one after the other."""
    found = []
    while (one := queue.next()) is not None:
        found.append(one.id)
        queue.remove(one.id)
    return found


def test_seed004_12_verify_before_test_before_apply_before_analyze_then_first_come() -> None:
    queue = Queue()
    phases = ["analyze", "apply", "fix", "ci", "test", "verify", "analyze", "verify"]
    for number, phase in enumerate(phases):
        queue.add(item(f"{phase}{number}", phase, number))
    assert order(queue) == [
        "ci3", "verify5", "verify7", "fix2", "test4", "apply1", "analyze0", "analyze6",
    ]  # fmt: skip


def test_seed004_13_the_escalated_come_before_all_others() -> None:
    queue = Queue()
    queue.add(item("fresh", "verify", 1))
    queue.add(item("old", "analyze", 2, escalated=True))
    assert order(queue) == ["old", "fresh"]


def test_a_refused_item_is_not_tried_again_until_its_paths_are_released() -> None:
    queue = Queue()
    queue.add(item("a"))
    queue.block(item("a"), in_the_way("f.py"))
    assert queue.next() is None
    queue.wake(["g.py"])
    assert queue.next() is None
    queue.wake(["f.py"])
    assert queue.next() == item("a")


def test_of_those_that_want_the_same_only_the_first_is_tried() -> None:
    queue = Queue()
    for number in range(1000):
        one = item(f"i{number}", arrival=number)
        queue.add(one)
        queue.block(one, in_the_way("f.py"))
    queue.wake(["f.py"])
    first = queue.next()
    assert first is not None
    assert first.id == "i0"
    queue.block(first, in_the_way("f.py"))
    assert queue.next() is None


def test_those_that_only_read_are_not_held_up_by_one_that_writes() -> None:
    queue = Queue()
    for name, mode in (("writer", "w"), ("reader", "r")):
        queue.add(item(name))
        queue.block(item(name), in_the_way("f.py", mode))
    queue.wake(["f.py"])
    first = queue.next()
    assert first is not None
    assert first.id == "reader" or first.id == "writer"
    queue.block(first, in_the_way("f.py", "w" if first.id == "writer" else "r"))
    second = queue.next()
    assert second is not None
    assert {first.id, second.id} == {"reader", "writer"}


def test_a_folder_and_what_is_in_it_wake_each_other() -> None:
    for wanted, freed in (("app/", "app/x/y.py"), ("app/x/y.py", "app"), ("./", "a.py")):
        queue = Queue()
        queue.add(item("a"))
        queue.block(item("a"), in_the_way(wanted, "r"))
        queue.wake([freed])
        assert queue.next() is not None, (wanted, freed)


def test_a_path_held_under_another_name_wakes_too() -> None:
    queue = Queue()
    queue.add(item("a"))
    queue.block(item("a"), in_the_way("link.py", held="real.py"))
    queue.wake(["real.py"])
    assert queue.next() is not None


def test_one_that_is_refused_for_another_path_waits_there_and_the_next_is_tried() -> None:
    queue = Queue()
    one, two = item("one", arrival=1), item("two", arrival=2)
    for each in (one, two):
        queue.add(each)
        queue.block(each, in_the_way("f.py"))
    queue.wake(["f.py"])
    assert queue.next() == one
    queue.block(one, in_the_way("g.py"))
    assert queue.next() == two


@given(st.data())
def test_no_item_is_lost_and_none_is_tried_in_vain(data: st.DataObject) -> None:
    """Against the plainest of queues: every item has a set of paths, some of which are held."""
    paths = ["a", "b", "c/d", "c/e"]
    queue, held = Queue(), set(data.draw(st.lists(st.sampled_from(paths), unique=True)))
    wants: dict[str, list[str]] = {}
    for number in range(data.draw(st.integers(0, 8))):
        name = f"i{number}"
        wants[name] = data.draw(st.lists(st.sampled_from(paths), min_size=1, unique=True))
        queue.add(item(name, data.draw(st.sampled_from(["apply", "verify"])), number))
    for _ in range(200):
        while (one := queue.next()) is not None:
            missing = [path for path in wants[one.id] if path in held]
            if missing:
                queue.block(one, in_the_way(missing[0]))
            else:
                held.update(wants[one.id])
                queue.remove(one.id)
        startable = [one.id for one in queue if not held.intersection(wants[one.id])]
        assert startable == []
        if not held:
            break
        freed = data.draw(st.sampled_from(sorted(held)))
        held.discard(freed)
        queue.wake([freed])
    assert len(queue) == 0


def test_a_folder_and_its_name_without_a_slash_are_one_place() -> None:
    """A folder that does not exist yet is held under a name without a slash."""
    queue = Queue()
    one = item("one")
    queue.add(one)
    queue.block(one, in_the_way("doc/", "r", held="doc"))
    queue.wake(["doc"])
    assert queue.next() == one
    queue.remove("one")
    assert len(queue) == 0
