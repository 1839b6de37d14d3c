"""Tools that write a new file beside the one that they replace, in a task that declares its files:
as Claude Code and editors do."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, shell
from holdfast.work.tasks import task_states

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")

#: Names as Claude Code, editors and build tools make them.
BESIDE = ["docs/new.md.tmp.977.521144f916c2", "docs/new.md~", "docs/.new.md.swp"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    (made.root / "docs").mkdir()
    return made


@pytest.mark.parametrize("name", BESIDE)
def test_a_declared_file_can_be_replaced_by_one_that_was_written_beside_it(
    checkout: Checkout, name: str
) -> None:
    script = shell(f"echo new > {name}", f"mv {name} docs/new.md")
    found = checkout.dispatch(checkout.task("replaces", script, writes=("docs/new.md",)))
    assert found["replaces"].state == task_states.DONE, found["replaces"].tail
    assert found["replaces"].files == ("docs/new.md",)
    assert checkout.read("docs/new.md") == "new\n"


def test_a_declared_file_can_be_changed_by_sed_in_place_and_only_where_it_is(
    checkout: Checkout,
) -> None:
    found = checkout.dispatch(
        checkout.task("there", "sed -i s/a0/a1/ a.txt", writes=("a.txt",)),
        checkout.task("elsewhere", "sed -i s/x/y/ src/x.py", writes=("b.txt",)),
        checkout.task("beside", "sed -i s/c0/c1/ c.txt", writes=("b.txt",)),
    )
    assert (found["there"].state, found["there"].files) == (task_states.DONE, ("a.txt",))
    assert found["elsewhere"].state == found["beside"].state == task_states.FAILED
    assert checkout.status() == " M a.txt\n"


def test_a_file_beside_a_declared_one_that_replaces_nothing_does_not_stay(
    checkout: Checkout,
) -> None:
    found = checkout.dispatch(
        checkout.task("leaves it", f"echo half > {BESIDE[0]}", writes=("docs/new.md",))
    )
    assert found["leaves it"].state == task_states.DONE
    assert found["leaves it"].files == ()
    assert checkout.status() == ""


@pytest.mark.parametrize("name", ["docs/new.md.txt", "docs/other.md.tmp.977.52", "new.md.tmp.1"])
def test_a_name_that_stands_in_for_no_declared_file_is_refused(
    checkout: Checkout, name: str
) -> None:
    found = checkout.dispatch(
        checkout.task("strays", f"echo x > {name}", writes=("docs/new.md",))
    )  # fmt: skip
    assert found["strays"].state == task_states.FAILED
    assert checkout.status() == ""


def test_an_existing_file_of_such_a_name_is_refused(checkout: Checkout) -> None:
    checkout.write({BESIDE[0]: "mine\n"})
    found = checkout.dispatch(
        checkout.task("strays", f"echo x > {BESIDE[0]}", writes=("docs/new.md",))
    )
    assert found["strays"].state == task_states.FAILED
    assert checkout.read(BESIDE[0]) == "mine\n"
