"""The public interface: names, parameters, types, and the cost of an import."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast import LockManager

SOURCE = Path(holdfast.__file__).parent

NAMES = [
    "BadKeyError", "ConflictInfo", "Event", "FencingError", "GrantSnapshot", "Holder",
    "HoldfastError", "InvalidInput", "LockConflictError", "LockCycleError", "LockExpiredError",
    "LockGrant", "LockManager", "LockNotHeldError", "LockTimeoutError", "LockViolationError",
    "Lost", "OverLockError", "RecordVersionError", "Refused", "StoreBusyError",
    "StoreCorruptError", "StoreError", "StoreFullError", "StoreNetworkError",
    "StoreReadonlyError", "StoreVersionError", "Verdict", "__version__", "safe_write",
]  # fmt: skip

SPEC_NAMES = [
    "CleanedLock", "CleanupResult", "FailedLock", "LockFile", "LockMetadata", "LockResult",
    "LockStatus", "MachineId", "MachineIdentifier", "MachineInfo", "SpecLocks", "UnlockResult",
]  # fmt: skip

WORK_NAMES = [
    "Again", "Failed", "Layout", "LockRequest", "Next", "Pipeline", "Scheduler", "ScreenManifest",
    "WorkItem",
]  # fmt: skip

PROOF_NAMES = [
    "Agent", "BadEventError", "BadNodeError", "BadTimeoutError", "Claim", "Claims", "Finding",
    "ForeignProofError", "LockBreakRefused", "NoProofError", "NodeAlreadyLocked", "ProofEvent",
    "ProofLedger", "SequenceMismatch", "agents", "make_proof", "verify",
]  # fmt: skip

TREE_NAMES = [
    "BadTreeError", "Change", "Collected", "ConsistencyError", "Finding", "ForeignTreeError",
    "Imported", "LockRecord", "LockState", "NoTreeError", "PartialSnapshotError", "Plan",
    "Progress", "Repository", "Restored", "Settings", "TreeAccessError", "TreeDamagedError",
    "TreeExistsError", "TreeNotAllowedError", "TreeVersionError", "Worktree", "acquire", "around",
    "between", "bring", "check", "create", "examine", "find", "in_place", "plan_gc", "release",
    "remove", "renew", "run_gc", "status", "steal", "take", "verify",
]  # fmt: skip

PATHS = "read_paths: Iterable[Path] = (), write_paths: Iterable[Path] = ()"
LEASE = "ttl: float | None = 1800, reason: str = ''"
SIGNATURES = {
    "acquire": (
        f"*, holder: str | Holder, {PATHS}, timeout: float = 300, {LEASE}, "
        "priority: int = 0, patience: float = 600) -> LockGrant"
    ),
    "active_grants": ") -> Sequence[GrantSnapshot]",
    "ask": f"holder: str | Holder, {PATHS}, *, {LEASE}) -> LockGrant | Refusal",
    "check_conflicts": f"*, {PATHS}) -> Conflicts",
    "close": ") -> None",
    "ensure": f"*, holder: str | Holder, {PATHS}, {LEASE}) -> LockGrant",
    "events": "after: int = 0, limit: int | None = None) -> Iterator[Event]",
    "fenced": "grant: LockGrant | str, token: int | None = None) -> AbstractContextManager[None]",
    "force": "grant_id: str, *, by: str | Holder, reason: str) -> GrantSnapshot",
    "hold": (
        f"*, holder: str | Holder | None = None, {PATHS}, timeout: float = 300, {LEASE}) -> Hold"
    ),
    "now": ") -> int",
    "queue": ") -> list[Ticket]",
    "reap": ") -> list[Ending]",
    "reaper": "interval: float = 60) -> Reaper",
    "release": "grant_id: str, *, holder: str | Holder | None = None) -> bool",
    "renew": (
        "grant_id: str, *, holder: str | Holder | None = None, ttl: float | None = None, "
        "rest: float | None = None) -> LockGrant"
    ),
    "steal": f"*, holder: str | Holder, {PATHS}, {LEASE}) -> LockGrant",
    "try_acquire": f"*, holder: str | Holder, {PATHS}, {LEASE}) -> LockGrant | None",
    "verify": "grant_id: str, path: Path | None = None, *, token: int) -> Verdict",
}
#: Methods that turn callers' words into the rulebook's terms: for the doors, not public.
INWARD = {"at", "holder", "keep_alive", "place", "request"}


def test_the_public_names_are_these() -> None:
    assert sorted(holdfast.__all__) == sorted(NAMES)
    assert dir(holdfast) == sorted(holdfast.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(holdfast, name) is not None
    if isinstance(getattr(holdfast, name), type):
        assert getattr(holdfast, name).__doc__


def test_the_public_names_of_spec_locks_are_these() -> None:
    from holdfast import specs

    assert sorted(specs.__all__) == sorted(SPEC_NAMES)
    assert dir(specs) == sorted(specs.__all__)
    for name in SPEC_NAMES:
        assert getattr(specs, name).__doc__
    with pytest.raises(AttributeError, match="SpecLock"):
        _ = specs.SpecLock


def test_the_public_names_of_the_dispatcher_are_these() -> None:
    from holdfast import work

    assert sorted(work.__all__) == sorted(WORK_NAMES)
    assert dir(work) == sorted(work.__all__)
    for name in WORK_NAMES:
        assert getattr(work, name).__doc__
    with pytest.raises(AttributeError):
        _ = work.Screen


def test_the_public_names_of_proofs_are_these() -> None:
    from holdfast import proof

    assert sorted(proof.__all__) == sorted(PROOF_NAMES)
    for name in PROOF_NAMES:
        assert getattr(proof, name).__doc__


def test_the_public_names_of_trees_are_these() -> None:
    from holdfast import trees

    assert sorted(trees.__all__) == sorted(TREE_NAMES)
    for name in TREE_NAMES:
        assert getattr(trees, name).__doc__


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="LockManger"):
        _ = holdfast.LockManger


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_parameters_of_the_manager_are_these(name: str) -> None:
    expected = SIGNATURES[name]
    joint = "" if expected.startswith(")") else ", "
    assert signature(getattr(LockManager, name)) == unquoted(f"(self{joint}{expected}")


def signature(method: Callable[..., object]) -> str:
    return unquoted(str(inspect.signature(method)))


def unquoted(text: str) -> str:
    """Annotations are strings here, and their quotes differ between versions of Python."""
    return text.replace("'", "")


def test_the_manager_has_no_other_public_methods() -> None:
    public = {name for name in dir(LockManager) if not name.startswith("_")}
    assert public == {*SIGNATURES, *INWARD, "open"}
    assert signature(LockManager.open) == (
        "(where: Path = ., *, store: str | None = None) -> LockManager"
    )


def test_the_parameters_of_a_safe_write_are_these() -> None:
    assert signature(holdfast.safe_write) == (
        "(path: Path, content: str | bytes, *, grant_id: str | None = None, "
        "token: int | None = None, manager: LockManager | None = None, "
        "allowed_write_paths: Iterable[Path] | None = None) -> str"
    )
    assert inspect.getdoc(holdfast.safe_write)


def test_a_manager_is_made_with_nothing_at_all() -> None:
    parameters = inspect.signature(LockManager).parameters
    assert list(parameters) == ["store", "tree", "clock", "is_dead"]
    with LockManager() as manager:
        assert manager.try_acquire(holder="me", write_paths=["x"]) is not None


def test_every_public_method_says_what_it_does() -> None:
    for name in (*SIGNATURES, *INWARD, "open"):
        assert inspect.getdoc(getattr(LockManager, name)), name


def test_a_grant_has_the_promised_fields() -> None:
    for name in (
        "id", "holder", "read_paths", "write_paths", "acquired_at", "expires_at", "released",
        "token", "reason",
    ):  # fmt: skip
        assert hasattr(holdfast.LockGrant, name)


COSTLY = {
    "dataclasses", "typing", "enum", "re", "json", "pathlib", "logging", "uuid", "socket",
    "threading", "asyncio", "datetime", "contextlib", "collections", "functools", "inspect",
    "subprocess", "sqlite3", "importlib",
}  # fmt: skip


def imported_by(code: str) -> set[str]:
    """The modules that some code imports, beyond those of a bare interpreter."""
    script = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); before = set(sys.modules)\n"
        f"{code}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    # -I and -S exclude the imports of an editable install or a site package.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import holdfast",
        "from holdfast import LockManager",
        "from holdfast import safe_write",
        (
            "from holdfast import LockManager\n"
            "m = LockManager()\n"
            "g = m.try_acquire(holder='a', write_paths=['x'])\n"
            "m.release(g.id)"
        ),
    ],
    ids=["the package", "the manager", "a safe write", "a lock in memory"],
)
def test_an_import_brings_in_nothing_costly(code: str) -> None:
    assert imported_by(code) & COSTLY <= ALLOWED


#: `import holdfast.x` by name uses it.
ALLOWED = {"importlib"}


def test_a_lock_on_disk_brings_in_nothing_costly(tmp_path: Path) -> None:
    code = (
        "from holdfast import LockManager\n"
        f"with LockManager.open({str(tmp_path)!r}) as m:\n"
        "    g = m.try_acquire(holder='a', write_paths=['x'])\n"
        "    m.release(g.id)"
    )
    # The database's C module itself uses functools for its cache of statements.
    assert imported_by(code) & COSTLY <= ALLOWED | {"functools", "collections"}


def test_a_refused_lock_does_not_bring_in_what_puts_files_back(tmp_path: Path) -> None:
    code = (
        "from holdfast import LockManager\n"
        f"with LockManager.open({str(tmp_path)!r}) as m:\n"
        "    m.try_acquire(holder='a', write_paths=['x'])\n"
        "    assert m.try_acquire(holder='b', write_paths=['x']) is None"
    )
    late = {"holdfast.manager.files.keepsakes", "holdfast.manager.files.file_restore"}
    assert imported_by(code) & late == set()


def test_the_tests_own_helpers_are_not_imported_with_the_package() -> None:
    assert not any(name.startswith("holdfast.testing") for name in imported_by(
        "from holdfast import LockManager"
    ))  # fmt: skip


@pytest.mark.parametrize("room", ["core", "store", "manager", "specs"])
def test_no_file_on_the_way_imports_something_costly_by_itself(room: str) -> None:
    # Types only; threads for holders, of which an embedded ledger needs one kind only where it is
    # asked for and the other never; and imports for files that were left half done.
    allowed = {"contract.py", "keeper.py", "heartbeat.py", "keepsakes.py", "file_restore.py"}
    for file in sorted((SOURCE / room).glob("*.py")):
        if file.name in allowed:
            continue
        for node in ast.parse(file.read_text()).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                assert name.partition(".")[0] not in COSTLY, f"{file.name} imports {name}"


def test_the_types_ship() -> None:
    assert (SOURCE / "py.typed").exists()
    root = SOURCE.parent.parent
    if (root / "pyproject.toml").exists():
        assert '"py.typed"' in (root / "pyproject.toml").read_text()
