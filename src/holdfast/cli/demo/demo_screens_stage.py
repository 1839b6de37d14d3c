"""The stage of the demo: a small shop with a blog, its screens, and the part of each agent.

All of it is made up, and small enough to read: the files have one line each. What is realistic is
how they are shared. Several merges write `config/routes.rb` and the texts, screens of one
controller read the model of another, and all read the access rules.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

from holdfast.cli.demo import demo_screens_agent
from holdfast.cli.demo.demo_process import name_setting
from holdfast.manager.files.paths import LEDGER_FOLDER

SLOTS = 6

ROUTES = "config/routes.rb"
TEXTS = "config/locales/en.yml"
MONEY = "app/helpers/money_helper.rb"
ACCESS = "app/controllers/concerns/access.rb"
PRODUCT = "app/models/shop/product.rb"
ORDER = "app/models/shop/order.rb"

#: Each screen with the files that it writes in addition to its controller and its view, and how
#: long its agent thinks, if that differs from the others.
SCREENS: dict[str, dict[str, tuple[list[str], float]]] = {
    "shop/products": {
        "index": ([ROUTES], 1.2), "show": ([], 0.9), "search": ([], 1.4), "edit": ([PRODUCT], 1.1),
    },
    "shop/carts": {"show": ([TEXTS], 1.3), "add": ([MONEY], 1.7), "checkout": ([], 1.5)},
    "shop/orders": {
        "index": ([], 3.6), "show": ([], 1.0), "cancel": ([ROUTES], 1.2), "refund": ([MONEY], 1.4),
    },
    "blog/posts": {"index": ([TEXTS], 1.0), "show": ([], 0.8), "edit": ([ROUTES], 1.3)},
    "blog/comments": {"index": ([], 0.9), "moderate": ([], 1.2), "reply": ([TEXTS], 1.0)},
    "admin/users": {"index": ([], 0.8), "show": ([], 1.0), "invite": ([ROUTES, ACCESS], 1.3)},
    "admin/reports": {"sales": ([MONEY], 1.2), "visitors": ([], 3.2), "export": ([], 0.9)},
}  # fmt: skip

#: What screens read in addition to their own controller, views and model.
READS = {
    "shop/carts": [PRODUCT, MONEY],
    "shop/orders/show": [PRODUCT, MONEY],
    "shop/orders/refund": [MONEY],
    "blog/comments": [ACCESS, TEXTS],
    "blog/posts/index": [ROUTES],
    "admin/users": [ACCESS],
    "admin/reports/sales": [PRODUCT, ORDER],
    "admin/reports/export": [ORDER, ROUTES],
}

#: Which agent gets into trouble, in which phase, and how.
CRASHES = ("apply", "blog/comments")
HANGS = ("test", "shop/orders")
STRAYS = ("apply", "admin/reports", ORDER)

#: How long all other agents think.
SECONDS = {"analyze": 1.0, "apply": 1.8, "test": 0.6, "fix": 0.6, "verify": 0.3}
#: A hanging test is ended after this long; the others never take nearly as long.
HANG_SECONDS = 2.0


def screen_names() -> list[str]:
    """All screens, with their controllers."""
    return [f"{group}/{name}" for group, names in SCREENS.items() for name in names]


def application() -> dict[str, str]:
    """The files of the application, each with its one line."""
    files = [ROUTES, TEXTS, MONEY, ACCESS]
    for group, names in SCREENS.items():
        files += [_controller(group), _model(group)]
        files += [_view(f"{group}/{name}") for name in names]
    return {path: f"# {path}\n" for path in dict.fromkeys(files)}


def build(root: str, pace: float) -> bool:
    """Make the repository. False if there is no git for it."""
    files = {
        **application(),
        "screens.json": json.dumps(_manifest(), indent=1),
        "holdfast.toml": name_setting(root) + _settings(pace),
        "agents/script.json": json.dumps(_script(pace), indent=1),
    }
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w", encoding="utf-8") as new:
            new.write(text)
    shutil.copyfile(demo_screens_agent.__file__, f"{root}/agents/agent.py")
    os.mkdir(f"{root}/tmp")
    git = shutil.which("git")
    if git is not None:
        subprocess.run(
            [git, "-C", root, "init", "--quiet"], check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    # Made here and now, so that no ledger above the temporary folder is nearer.
    os.mkdir(f"{root}/{LEDGER_FOLDER}")
    return git is not None


def _controller(group: str) -> str:
    return f"app/controllers/{group}_controller.rb"


def _model(group: str) -> str:
    return f"app/models/{group.removesuffix('s')}.rb"


def _view(screen: str) -> str:
    return f"app/views/{screen}.html.erb"


def _manifest() -> dict[str, Any]:
    screens = []
    for screen in screen_names():
        group, _, name = screen.rpartition("/")
        module, _, controller = group.partition("/")
        screens.append(
            {
                "name": name, "module": module, "controller": controller,
                "actions": {"primary": name, "secondary": []},
                "reads_from": [*READS.get(group, ()), *READS.get(screen, ())],
            }
        )  # fmt: skip
    return {"version": 1, "screens": screens}


def _settings(pace: float) -> str:
    """The settings for the agents. All of them may write below `tmp/`."""
    lines = ["[sandbox]", 'write = ["tmp/"]', "", "[work]", f"slots = {SLOTS}"]
    for phase in SECONDS:
        more = ["{output}", "{reads}"] if phase == "analyze" else ["{files}"]
        # -I and -S: the interpreter starts faster, because the agents are many and short.
        words = [sys.executable, "-I", "-S", "agents/agent.py", phase, "{workflow}", *more]
        lines += ["", f"[work.{phase}]", f"command = {json.dumps(words)}"]
        if phase == HANGS[0]:
            lines.append(f"timeout_seconds = {HANG_SECONDS + pace:g}")
    return "\n".join(lines) + "\n"


def _script(pace: float) -> dict[str, Any]:
    """What the agents find, and which get into trouble."""
    parts: dict[str, dict[str, Any]] = {phase: {} for phase in SECONDS}
    for group, names in SCREENS.items():
        for name, (targets, seconds) in names.items():
            screen = f"{group}/{name}"
            parts["analyze"][screen] = {
                "seconds": seconds,
                "findings": [f"{name} can be simpler"],
                "targets": [_controller(group), _view(screen), *targets],
            }
    phase, group, path = STRAYS
    parts[phase][group] = {"trouble": demo_screens_agent.STRAY, "stray": path}
    for (phase, group), trouble in (
        (CRASHES, demo_screens_agent.CRASH),
        (HANGS, demo_screens_agent.HANG),
    ):
        parts[phase][group] = {"trouble": trouble}
    return {"pace": pace, "seconds": SECONDS, "parts": parts}
