"""Every error code is in the guide, with the exit code that it leads to, and no other is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import holdfast
from holdfast.cli import exit_code
from holdfast.core.errors import HoldfastError

SOURCE = Path(holdfast.__file__).parent
GUIDE = Path(__file__).parents[2] / "docs/errors.md"
#: What is not to be imported: programs run when they are, and one is for type checkers only.
NO_MODULES = ("holdfast.__main__", "holdfast.gate.hook", "holdfast.store.contract")
#: Their exit codes are not those of their class.
OF_THEIR_OWN = ("E_COMMAND", "E_HOLDFAST")


def classes() -> dict[str, type[HoldfastError]]:
    """All errors with a code of their own, by code."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if module.name not in NO_MODULES:
            importlib.import_module(module.name)
    found: dict[str, type[HoldfastError]] = {}
    front: list[type[HoldfastError]] = [HoldfastError]
    while front:
        one = front.pop()
        front += one.__subclasses__()
        if "code" in vars(one) and one.__module__.startswith("holdfast."):
            assert found.setdefault(one.code, one) is one, f"{one.code} is two errors"
    return found


def rows() -> dict[str, str]:
    lines = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `E_")]
    return {line.split("`")[1]: line.rsplit("|", 2)[1].strip() for line in lines}


def codes_in_source() -> set[str]:
    """All that is spelled like a code in the sources, whether it has a class or not."""
    files = [file for end in ("py", "js") for file in SOURCE.rglob(f"*.{end}")]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return {code for text in texts for code in re.findall(r"\bE_[A-Z_]*[A-Z]\b", text)}


def test_every_code_is_in_the_guide_and_no_other() -> None:
    assert set(rows()) == codes_in_source()
    assert classes().keys() <= codes_in_source()
    assert {"E_INTERNAL", "E_ORPHAN_INTENT"} <= codes_in_source() - classes().keys()


def test_the_guide_says_the_exit_code_of_each() -> None:
    for code, one in classes().items():
        told = rows().get(code)
        if told and code not in OF_THEIR_OWN:
            assert told == str(exit_code(one("x"))), code


def test_codes_are_spelled_like_codes() -> None:
    assert all(re.fullmatch(r"E_[A-Z][A-Z_]*[A-Z]", code) for code in classes())
