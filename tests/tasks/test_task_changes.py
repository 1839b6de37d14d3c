"""What a task has changed, as a patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import task_changes


def test_no_git_is_started_for_a_task_that_changed_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(str(repository), "task-1")
    run.begin()
    Path(run.folder, task_changes.PATCH).write_text("of an attempt that was undone\n")

    def compared(_room: str) -> bytes:
        raise AssertionError("git was started")

    monkeypatch.setattr(task_changes, "_compared", compared)
    assert Path(task_changes.write_patch(run)).read_bytes() == b""
