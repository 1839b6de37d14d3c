"""Shared by all tests: stores, the record of the tests that ran, and the separate stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("holdfast.testing.conformance")

from helpers_init import SOURCE, Site  # noqa: E402
from helpers_postgres import Run, Server  # noqa: E402
from helpers_processes import Crowd  # noqa: E402
from holdfast.gate.door import bundle  # noqa: E402
from holdfast.manager.clock import FakeClock  # noqa: E402
from holdfast.manager.manager import LockManager  # noqa: E402
from holdfast.store import open_store  # noqa: E402
from holdfast.testing.conformance import OpenStore, Processes, Scene  # noqa: E402
from promises import NAMED  # noqa: E402
from record import Record  # noqa: E402
from run import APART  # noqa: E402
from stage import Stage, settled  # noqa: E402

if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

# The time of an example depends more on the other load of the machine.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

HERE = Path(__file__).parent
STORES = ("memory", "sqlite", "postgres")
#: Those that outlive their process.
KEPT = ("sqlite", "postgres")
#: Who has the PostgreSQL server of this run.
RUNS: list[Run] = []


@pytest.fixture(autouse=True, scope="session")
def settings_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the user's own settings, such as the machine's id, in a folder of the tests."""
    made = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(made))
        yield made


@pytest.fixture(scope="session")
def postgres_server() -> Server:
    """The PostgreSQL server that all tests of this run share. No test stops it."""
    return RUNS[-1].server()


def opener(store: str, folder: Path) -> OpenStore:
    """How to open stores of one kind below a folder. Those of a server have names made from it."""

    def open_one(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        if store == "postgres":
            return postgres_store(f"{folder}/{name}", clock=clock, is_dead=is_dead)
        url = "memory:" if store == "memory" else f"sqlite://{folder}/{name}/ledger.db"
        if store == "sqlite":
            (folder / name).mkdir(exist_ok=True)
        return open_store(url, clock=clock, is_dead=is_dead)

    return open_one


def postgres_store(
    name: str, *, clock: Clock, is_dead: IsDead, lease_seconds: float | None = None
) -> Store:
    """The ledger of this name on the server of the run, with a clock that the test controls."""
    url = RUNS[-1].server().url(f"tests/{sha1(name.encode()).hexdigest()}")
    from holdfast.store.postgres.server_store import PostgresStore

    return PostgresStore(url, is_dead=is_dead, clock=clock, lease_seconds=lease_seconds)


@pytest.fixture(params=STORES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """One ledger of each kind, with a clock and processes that the test controls."""
    with Scene(opener(request.param, tmp_path)) as made:
        yield made


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Scene]:
    """A ledger on disk."""
    with Scene(opener("sqlite", tmp_path)) as made:
        yield made


@pytest.fixture
def clock(scene: Scene) -> FakeClock:
    return scene.clock


@pytest.fixture
def processes(scene: Scene) -> Processes:
    return scene.processes


@pytest.fixture
def manager(scene: Scene) -> LockManager:
    """A manager on that ledger that takes paths literally."""
    return scene.manager


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with some files, and a `.git` that makes it a repository."""
    return furnish(tmp_path / "repository")


@pytest.fixture
def stage(repository: Path) -> Iterator[Stage]:
    """A repository with agents, whose clock and processes the test controls."""
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Stage(repository)
    yield made
    made.close()


def furnish(root: Path) -> Path:
    """Put the files of a repository into an empty place."""
    for file in ("app/x.rb", "app/models/user.rb", "lib/y.rb"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("old\n")
    (root / ".git").mkdir()
    return root


@pytest.fixture(scope="session")
def stub_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A copy of the package, with a hook that only answers. No test changes it."""
    made = Site(tmp_path_factory.mktemp("stub-site"))
    yield made
    made.check()


@pytest.fixture(scope="session")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A copy of the package, with its own hook. No test changes it."""
    made = Site(tmp_path_factory.mktemp("real-site"), (SOURCE / "gate/hook.py").read_text())
    yield made
    made.check()


@pytest.fixture(scope="session")
def bundled() -> None:
    """Hooks of this package start as fast as after `init`."""
    bundle.write(str(SOURCE))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with room for a ledger."""
    folder = tmp_path / "repo"
    (folder / ".holdfast").mkdir(parents=True)
    return folder


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Processes that the test starts; they are ended with the test."""
    with Crowd(tmp_path) as made:
        yield made


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect separate stages only if pytest's command line names a path in them."""
    folder = HERE / collection_path.relative_to(HERE).parts[0] if collection_path != HERE else HERE
    if folder.name not in APART:
        return None
    words = (word.partition("::")[0] for word in config.args)
    asked = (Path(config.invocation_params.dir, word).resolve() for word in words)
    return None if any(path.is_relative_to(folder) for path in asked) else True


def pytest_configure(config: pytest.Config) -> None:
    """Keep the record in the process that others report to, if there are several."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(NAMED), "record of what ran")
    RUNS.append(Run(config))
    config.pluginmanager.register(RUNS[-1], "servers of the run")


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for a condition that other threads or processes bring about."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, f"waited {seconds} s in vain until {what}"
        sleep(0.002)
