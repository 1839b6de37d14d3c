"""safe_write: what a grant covers is what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import LockManager, LockViolationError, safe_write


def test_seed004_15_what_a_grant_only_reads_is_not_written(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(
            holder="ann", read_paths=["app/x.rb", "lib/"], write_paths=["app/new.rb"]
        )
        assert grant is not None
        for path in ("app/x.rb", "lib/y.rb"):
            with pytest.raises(LockViolationError) as caught:
                safe_write(path, "new", grant_id=grant.id, manager=manager)
            assert caught.value.fields["reason"] == "not_covered"
            assert (repository / path).read_text() == "old\n"
