"""Programs below `run --lease` that try everything to change files that another holder has."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import lease_attacks_more
from helpers_processes import LINUX_ONLY
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_siege import X86_64, Siege
from lease_attacks import ATTACKS, HELD, MAY_FAIL, make, state

pytestmark = [LINUX_ONLY, NEEDS_LANDLOCK, X86_64]

#: Without root these attacks change nothing on any machine.
NEED_ROOT = {
    "by_handle", "by_another_user", "chown", "chown_of_a_reader", "chown_with_no_path", "lchown",
    "in_another_mount_namespace", "mounted_elsewhere",
    "with_another_root", "with_another_root_and_back",
}  # fmt: skip


@pytest.fixture
def siege() -> Iterator[Siege]:
    made = Siege()
    yield made
    try:
        made.stands()
    finally:
        made.close()


Tried = dict[str, tuple[dict[str, Any], list[object]]]


def tried(below: bool) -> Tried:
    """The result of each attack, and the state before it."""
    siege = Siege()
    places = siege.root / "attacks"
    opened = []
    env = {"OTHER": str(os.getpid())}
    try:
        for name in ATTACKS:
            make(places / name)
        before = {name: state(places / name) for name in ATTACKS}
        for name in ("descriptor_of_another", "stolen_descriptor"):
            opened.append((places / name / "held.txt").open("r+b"))
            env[name.upper()] = str(opened[-1].fileno())
        line = [sys.executable, lease_attacks_more.__file__, str(places), *ATTACKS]
        if below:
            siege.hold(*(f"attacks/{name}/{held}" for name in ATTACKS for held in HELD))
            answer = siege.run(*line, env=env)
        else:
            answer = siege.plainly(*line, env=env)
        assert answer.code == 0, answer
        siege.stands()
        return {name: (one, before[name]) for name, one in json.loads(answer.out).items()}
    finally:
        for file in opened:
            file.close()
        siege.close()


@pytest.fixture(scope="module")
def below() -> Tried:
    return tried(True)


@pytest.fixture(scope="module")
def plainly() -> Tried:
    return tried(False)


def as_json(found: object) -> object:
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_held_stays_what_it_is(below: Tried, name: str) -> None:
    came, before = below[name]
    assert came["held"] == as_json(before), came["said"]
    assert came["served"] == "", "the broker no longer serves other programs"


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in MAY_FAIL])
def test_the_same_attack_changes_it_where_nothing_is_held(plainly: Tried, name: str) -> None:
    # Else the test above would prove nothing.
    if name in NEED_ROOT and os.geteuid() != 0:
        pytest.skip("needs root")
    came, before = plainly[name]
    assert came["held"] != as_json(before), came
