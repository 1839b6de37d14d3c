"""The stage of the demo of tasks: a small shop, a list of eight tasks, and what each agent does.

All of it is made up, and small enough to read: the files have one line each. The list names no
files. Only its agent knows which files a task touches, and Holdfast learns it at the write.

    shop/            the repository, with tasks.toml
    agent.py         every agent
    parts.json       what the agents do
    marks/           by which they meet
    dispatch.log     the output of the dispatchers
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.cli.demo import demo_tasks_agent
from holdfast.cli.demo.demo_process import DemoError, clean_environment, name_setting
from holdfast.manager.files.paths import LEDGER_FOLDER

SLOTS = 5
REPOSITORY = "shop"
LIST = "tasks.toml"
#: Files in the repository beside the application; no task writes them.
SETTINGS = (LIST, "holdfast.toml")
DISPATCH_LOG = "dispatch.log"
#: How long an agent thinks before a line, and in the middle of it.
SECONDS = 0.35

CART, GIFTS, PRICES, ORDERS = "shop/cart.py", "shop/gifts.py", "shop/prices.py", "shop/orders.py"
MAIL, RECEIPTS, CHANGES, GUIDE = "shop/mail.py", "shop/receipts.py", "CHANGELOG.md", "docs/guide.md"
ENGLISH, FRENCH, VERSION = "texts/en.toml", "texts/fr.toml", "VERSION"

#: Each task with its prompt.
PROMPTS = {
    "discounts": "Add discounts to the cart.",
    "gift-cards": "Sell gift cards.",
    "cents": "Count money in cents, in prices and in orders.",
    "dates": "Sort orders by date, and date the prices.",
    "receipts": "Send a receipt by mail.",
    "french": "Translate into French.",
    "guide": "Write a guide.",
    "release": "Prepare the release.",
}

#: Which task comes after which others.
AFTER: dict[str, Sequence[str]] = {
    "french": ("gift-cards", "dates", "receipts"),
    "guide": ("gift-cards", "dates", "receipts"),
    "release": ("french", "guide"),
}

#: Two that want one file: the second waits until the first is done.
FIRST, SECOND, SHARED = "discounts", "gift-cards", CHANGES
#: Two that each want what the other has. The older is the one that comes first in the list.
OLDER, YOUNGER = "cents", "dates"
CRASHES = ("receipts", MAIL)
#: Those that are in the middle of an edit when the dispatcher is killed.
STALLS = {"french": ENGLISH, "guide": GUIDE}

#: A mark that the director leaves for the agents: by the ledger, a task waits for a file.
WAITS = "waits"

#: What each agent does, step by step. `when` delays an edit, between reading and writing, until
#: another agent has come so far; `until` is a step of its own.
PARTS: dict[str, list[dict[str, Any]]] = {
    "discounts": [
        {"edit": CART},
        {"edit": CHANGES, "when": f"gift-cards read {CHANGES}"},
        {"until": f"gift-cards {WAITS} {CHANGES}"},
    ],
    "gift-cards": [{"edit": GIFTS}, {"edit": CHANGES, "when": f"discounts wrote {CHANGES}"}],
    "cents": [{"edit": PRICES}, {"edit": ORDERS, "when": f"dates wrote {ORDERS}"}],
    "dates": [{"edit": ORDERS}, {"edit": PRICES, "when": f"cents {WAITS} {ORDERS}"}],
    "receipts": [{"edit": RECEIPTS}, {"edit": MAIL, "trouble": demo_tasks_agent.CRASH}],
    "french": [{"edit": FRENCH}, {"edit": ENGLISH, "trouble": demo_tasks_agent.STALL}],
    "guide": [{"edit": GUIDE, "trouble": demo_tasks_agent.STALL}],
    "release": [{"edit": VERSION}, {"edit": CHANGES}],
}

_NEW = (GIFTS, RECEIPTS, FRENCH)


def files_of(task: str) -> list[str]:
    """The files that a task edits, in order."""
    return sorted(step["edit"] for step in PARTS[task] if "edit" in step)


def application() -> dict[str, str]:
    """The files of the application as they are at first, each with its one line."""
    files = [path for task in PARTS for path in files_of(task) if path not in _NEW]
    return {path: f"# {path}\n" for path in sorted(set(files))}


def build(folder: str, pace: float) -> bool:
    """Make the repository. False if there is no git for it."""
    root = f"{folder}/{REPOSITORY}"
    git = shutil.which("git")
    script = {"seconds": SECONDS * pace, "parts": PARTS}
    files = {
        "parts.json": json.dumps(script, indent=1),
        f"{REPOSITORY}/{LIST}": task_list(folder, commit=git is not None),
        f"{REPOSITORY}/holdfast.toml": (
            f"{name_setting(folder)}[sandbox]\nwrite = [{_toml(f'{folder}/marks/')}]\n"
        ),
        **{f"{REPOSITORY}/{path}": text for path, text in application().items()},
    }
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
        with open(f"{folder}/{path}", "w", encoding="utf-8") as new:
            new.write(text)
    shutil.copyfile(demo_tasks_agent.__file__, f"{folder}/agent.py")
    os.mkdir(f"{folder}/marks")
    if git is not None:
        _begin_history(root)
    # Made here and now, so that no ledger above the temporary folder is nearer.
    os.mkdir(f"{root}/{LEDGER_FOLDER}")
    return git is not None


def mark(folder: str, task: str, path: str) -> None:
    """Let the agents know that a task waits for a file."""
    name = demo_tasks_agent.flat(f"{task} {WAITS} {path}")
    with open(f"{folder}/marks/{name}", "w", encoding="utf-8"):
        pass


def task_list(folder: str, *, commit: bool) -> str:
    """The list, as a person would write it."""
    # -I and -S: the interpreter starts faster, because the agents are many and short.
    agent = [sys.executable, "-I", "-S", f"{folder}/agent.py", "{name}", "{prompt}"]
    lines = [f"slots = {SLOTS}", f"commit = {_toml(commit)}", f"command = {_toml(agent)}"]
    for name, prompt in PROMPTS.items():
        lines += ["", "[[task]]", f"name = {_toml(name)}", f"prompt = {_toml(prompt)}"]
        lines += [f"after = {_toml(AFTER[name])}"] if name in AFTER else []
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Texts, lists of texts and booleans have the same form in TOML as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def environment() -> dict[str, str]:
    """The environment for the dispatcher and for git: nothing in it leads to another repository,
    and no setting of the user's git (signatures, hooks, templates) applies to this one."""
    kept = {name: text for name, text in clean_environment().items() if name[:4] != "GIT_"}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(root: str, *words: str) -> bytes:
    """The output of git in the repository. Raises DemoError."""
    done = subprocess.run(
        ["git", "-C", root, *words], env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise DemoError(f"git {words[0]} did not work: {said}", hint="try git itself")
    return done.stdout


def _begin_history(root: str) -> None:
    identity: Mapping[str, str] = {"user.name": "Ann", "user.email": "ann@example.org"}
    git(root, "init", "--quiet")
    for name, text in identity.items():
        git(root, "config", name, text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "a small shop")
