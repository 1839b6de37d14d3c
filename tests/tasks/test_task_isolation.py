"""What a task has seen of a file that it writes stays true until it ends: even that there was no
such file, and even for files whose folder it renames."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from helpers_processes import until
from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, shell, until_file
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_states

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def marks(checkout: Checkout) -> Path:
    """A folder that tasks can write, where scripts meet."""
    found = checkout.home / "marks"
    found.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{found}/"]\n'})
    return found


def _goes_when_one_waits(checkout: Checkout, marks: Path) -> threading.Thread:
    """Lets a script continue when a task waits."""

    def wait() -> None:
        with LockManager.open(str(checkout.root)) as manager:
            until(lambda: manager.queue(), "a task stands in line")
        (marks / "go").touch()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_name_that_a_task_made_and_removed_is_its_own_until_it_ends(
    checkout: Checkout, marks: Path
) -> None:
    first = shell("set -C", "echo first > new.txt", "rm new.txt", f"touch {marks}/removed",
                  until_file(f"{marks}/go"), "cat new.txt || echo nothing >| a.txt")  # fmt: skip
    second = shell(until_file(f"{marks}/removed"), "echo second > new.txt")
    thread = _goes_when_one_waits(checkout, marks)
    found = checkout.dispatch(checkout.task("first", first), checkout.task("second", second))
    thread.join()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert (checkout.read("a.txt"), checkout.read("new.txt")) == ("nothing\n", "second\n")


def test_removing_a_file_that_another_task_has_removed_waits_for_that_task(
    checkout: Checkout, marks: Path
) -> None:
    """If that one fails, the file exists again, and is removed nevertheless."""
    fails = shell("rm a.txt", f"touch {marks}/removed", until_file(f"{marks}/go"), "exit 3")
    removes = shell(until_file(f"{marks}/removed"), "rm -f a.txt", "echo removed > b.txt")
    thread = _goes_when_one_waits(checkout, marks)
    found = checkout.dispatch(
        checkout.task("fails", fails), checkout.task("removes", removes, tries=2)
    )
    thread.join()
    assert {name: one.state for name, one in found.items()} == {
        "fails": task_states.FAILED,
        "removes": task_states.DONE,
    }
    assert not (checkout.root / "a.txt").exists()


def test_a_wait_for_a_file_that_another_task_has_removed_ends_with_a_stale_error(
    checkout: Checkout, marks: Path
) -> None:
    """The file was gone when the write came, and is gone when its turn comes: but it was read
    before."""
    writes = shell("n=$(cat a.txt)", f"touch {marks}/read", until_file(f"{marks}/removed"),
                   'echo "$n and mine" > a.txt')  # fmt: skip
    removes = shell(until_file(f"{marks}/read"), "rm a.txt", f"touch {marks}/removed",
                    until_file(f"{marks}/go"))  # fmt: skip
    thread = _goes_when_one_waits(checkout, marks)
    found = checkout.dispatch(checkout.task("writes", writes), checkout.task("removes", removes))
    thread.join()
    assert found["removes"].state == task_states.DONE
    assert found["writes"].state == task_states.FAILED  # there is nothing to read any more
    assert not (checkout.root / "a.txt").exists()


@pytest.mark.parametrize("writes", [None, ("a.txt",)])
def test_to_remove_what_is_not_there_is_no_error_for_rm_f(
    checkout: Checkout, writes: tuple[str, ...] | None
) -> None:
    task = checkout.task("removes", "rm -f none.txt; echo x > a.txt", writes=writes)
    assert checkout.dispatch(task)["removes"].state == task_states.DONE


def test_a_folder_with_a_file_that_another_task_changed_is_renamed_only_when_it_was_read_again(
    checkout: Checkout, marks: Path
) -> None:
    renames = shell("n=$(cat src/x.py)", f"touch {marks}/read", until_file(f"{marks}/written"),
                    "mv src lib", 'echo "$n and mine" > lib/x.py')  # fmt: skip
    writes = shell(until_file(f"{marks}/read"), "echo theirs > src/x.py")

    def watch() -> None:
        until(lambda: (marks / "read").exists(), "it was read")
        until(lambda: checkout.records()["writes"].state == task_states.DONE, "it was written")
        (marks / "written").touch()

    thread = threading.Thread(target=watch)
    thread.start()
    found = checkout.dispatch(checkout.task("renames", renames), checkout.task("writes", writes))
    thread.join()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("lib/x.py") == "theirs and mine\n"


def test_a_folder_is_not_renamed_before_another_task_has_ended_that_writes_in_it(
    checkout: Checkout, marks: Path
) -> None:
    writes = shell("echo theirs >> src/x.py", f"touch {marks}/written", until_file(f"{marks}/go"))
    renames = shell(until_file(f"{marks}/written"), "mv src lib")
    thread = _goes_when_one_waits(checkout, marks)
    found = checkout.dispatch(
        checkout.task("writes", writes), checkout.task("renames", renames, tries=2)
    )
    thread.join()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("lib/x.py") == "x\ntheirs\n"
