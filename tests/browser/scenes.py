"""Repositories with full ledgers, quickly made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Here
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.screens import assignment, workflow_states
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.workflow_records import Flows


def crowd(root: Path, *, items: int, events: int, out: int = 8) -> LockManager:
    """A ledger with so many items, of which `out` are at work and the others wait for their files,
    and at least so many events."""
    (root / ".git").mkdir(parents=True, exist_ok=True)
    manager = LockManager.open(str(root))
    desk, host = ItemStore(manager), Here()
    for number in range(items):
        module, controller = number % 17, number % 100
        request = LockRequest.of(
            [f"app/views/module{module}/things{controller}/", "app/models/base.rb"],
            [f"app/controllers/module{module}/things{controller}_controller.rb",
             f"app/shared/concern{number % out}.rb"],
        )  # fmt: skip
        data = {"group": f"module{module}/things{controller}", "targets": [], "round": 0}
        item = desk.enqueue(f"module{module}/things{controller}", "apply", request, data)
        assert item is not None
        if number < out:
            claimed = desk.claim(item, host.holder(item))
            assert isinstance(claimed, tuple)
    done = transactions.look(manager, lambda view: view.head)
    number = 0
    while done < events:
        path = f"lib/part{number % 40}/file{number % 200}.rb"
        grant = manager.try_acquire(holder=f"agent-{number % 12}", write_paths=[path])
        assert grant is not None
        manager.release(grant.id)
        number, done = number + 1, done + 2
    return manager


AGENT = """
import json, os, sys, time
phase, screen, output, controller, pace = sys.argv[1:6]
print(f"{phase} {controller} begins", flush=True)
time.sleep(float(pace))
if phase == "analyze":
    targets = [f"app/controllers/blog/{controller}_controller.rb", "app/shared.rb"]
    found = {"screen": screen, "findings": ["one"], "write_targets": targets}
    with open(output, "w") as file:
        json.dump(found, file)
print(f"{phase} {controller} is done", flush=True)
"""

TOML = """
[work]
slots = 2
[work.analyze]
command = [{python}, "agent.py", "analyze", "{{screen}}", "{{output}}", "{{controller}}", "{pace}"]
[work.apply]
command = [{python}, "agent.py", "apply", "-", "-", "{{controller}}", "{pace}"]
"""


def workshop(root: Path, *, pace: float = 0.0) -> Path:
    """A repository with two controllers to work on, and an agent that takes `pace` seconds."""
    for name in ("posts", "comments"):
        file = root / f"app/controllers/blog/{name}_controller.rb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("old\n")
    (root / ".git").mkdir(exist_ok=True)
    (root / "agent.py").write_text(AGENT)
    (root / "holdfast.toml").write_text(TOML.format(python=json.dumps(sys.executable), pace=pace))
    screens: list[dict[str, object]] = [
        {"name": name, "module": "blog", "controller": controller, "actions": {"primary": name},
         "reads_from": []}
        for controller in ("posts", "comments")
        for name in ("index", "show")
    ]  # fmt: skip
    (root / "screens.json").write_text(json.dumps({"version": 1, "screens": screens}))
    return root


def analysed(manager: LockManager, root: Path) -> None:
    """Bring both controllers of a workshop to the state in which a person has to decide."""
    manifest = ScreenManifest.load(str(root / "screens.json"))
    assignment.assign(manager, manifest, review=True)
    desk, host, flows = ItemStore(manager), Here(), Flows(manager)
    for group, screens in manifest.groups.items():
        flows.move(group, workflow_states.QUEUED)
        flows.move(group, workflow_states.ANALYZING)
        ids = []
        for screen in screens:
            wanted = LockRequest.of([f"app/controllers/{group}_controller.rb"])
            item = desk.enqueue(screen.workflow, "analyze", wanted, {"group": group})
            ids.append(item.id)
            claimed = desk.claim(item, host.holder(item))
            assert isinstance(claimed, tuple)
            targets = [f"app/controllers/{group}_controller.rb", "app/shared.rb"]
            desk.end(claimed[0], data={"write_targets": targets, "findings": 1})
        flows.move(group, workflow_states.AWAITING_DECISIONS, data={"analyses": ids})
