"""Which store has the ledger of a tree, and under which name a server knows the tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast import LockManager
from holdfast.core.root_errors import BadKeyError, SettingsError, StoreError
from holdfast.manager import ledger, ledger_location, manager
from holdfast.manager.clock import SystemClock
from holdfast.manager.files.paths import home_root
from holdfast.manager.ledger import Ledger
from holdfast.store import open_store
from holdfast.store.store_url import split, without_password

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "postgresql://anna@db.example/locks"
SECRET = "postgresql://anna:s3cret@db.example/locks"

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git command")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs of the stores that were opened; no server is needed."""
    urls: list[str] = []

    def fake(url: str, **more: Any) -> Any:
        if url.startswith("postgres"):
            urls.append(url)
            url = "memory:"
        return open_store(url, **more)

    for module in (ledger, manager):
        monkeypatch.setattr(module, "open_store", fake)
    return urls


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *own, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with two commits."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    commit(folder, "second")
    return folder


def first_of(folder: Path) -> str:
    return git(folder, "rev-list", "--max-parents=0", "HEAD")


def settings(folder: Path, text: str) -> None:
    (folder / "holdfast.toml").write_text(text)


def kept(folder: Path) -> Any:
    return json.loads((folder / ".holdfast/server.json").read_text())


def at(folder: Path) -> str:
    return ledger_location.store_of(str(folder))


# Which store


def test_a_tree_has_its_own_ledger_unless_a_server_is_named(tmp_path: Path) -> None:
    assert at(tmp_path) == f"sqlite://{tmp_path}/.holdfast/ledger.db"
    assert not ledger_location.is_on_server(str(tmp_path))
    assert list(tmp_path.iterdir()) == [], "to ask creates nothing"


@needs_git
def test_the_variable_names_the_server_and_the_first_commit_the_repository(
    clone: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    with LockManager.open(clone / "app"):
        pass
    with Ledger.at(str(clone)):
        pass
    assert opened == [f"{URL}#{first_of(clone)}"] * 2


def test_the_settings_name_the_server_for_everybody(tmp_path: Path, opened: list[str]) -> None:
    settings(tmp_path, f'store = "{URL}"  # all hosts\nrepository = "shop"\n[gate]\nwake = true\n')
    with LockManager.open(tmp_path):
        pass
    assert opened == [f"{URL}#shop"]


@needs_git
def test_the_variable_comes_before_the_settings(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(clone, f'store = "{URL}"\n')
    monkeypatch.setenv("HOLDFAST_STORE", "postgresql:///other")
    assert at(clone).startswith("postgresql:///other#")


def test_a_store_on_this_machine_in_the_variable_is_for_commands_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///elsewhere/ledger.db")
    assert at(tmp_path) == f"sqlite://{tmp_path}/.holdfast/ledger.db"


@pytest.mark.parametrize(
    "text",
    [f'store = "{SECRET}"', f'store = "{URL}?password=s3cret"', 'store = "sqlite:///s3cret"',
     'store = "mysql://anna:s3cret@db"', "store = 3", f'"store" = \'{SECRET}\'',
     f"store = '''\n{SECRET}'''"],
)  # fmt: skip
def test_a_password_in_the_settings_is_refused_and_the_message_says_where_it_belongs(
    tmp_path: Path, text: str
) -> None:
    settings(tmp_path, f"{text}\n")
    with pytest.raises(SettingsError) as caught:
        at(tmp_path)
    said = caught.value.message + caught.value.hint
    for name in ("PGPASSWORD", "PGPASSFILE", "HOLDFAST_STORE"):
        assert name in said
    assert "s3cret" not in str(caught.value.to_dict())
    assert ledger_location.has_ledger(str(tmp_path)), "whoever opens it learns why it is refused"


def test_settings_that_name_a_store_and_cannot_be_parsed_open_no_ledger_at_all(
    tmp_path: Path,
) -> None:
    settings(tmp_path, f'store = "{URL}\n[gate\n')
    with pytest.raises(SettingsError, match="this is not TOML"):
        at(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["# store, restore\n[gate\n", 'restore = "x"\n', '[work]\nstore = "x"\n', 'store = ""\n',
     '[work.a]\nprompt = """\nstore = 1\n"""\n'],
)  # fmt: skip
def test_other_mentions_of_a_store_change_nothing(tmp_path: Path, text: str) -> None:
    settings(tmp_path, text)
    assert at(tmp_path).startswith("sqlite:")
    assert not ledger_location.is_on_server(str(tmp_path))


def test_a_url_given_to_python_opens_that_store_and_marks_no_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (f"{SECRET}#shop", f"{URL.replace('postgresql', 'postgres')}#shop"):
        with LockManager.open(url) as made:
            assert made.tree is not None
            assert made.tree.root == str(tmp_path)
    assert opened == [f"{SECRET}#shop", "postgres://anna@db.example/locks#shop"]
    assert list(tmp_path.iterdir()) == []


@needs_git
def test_a_url_given_to_python_without_a_name_gets_that_of_the_tree(
    clone: Path, opened: list[str]
) -> None:
    with LockManager.open(clone, store=URL):
        pass
    assert opened == [f"{URL}#{first_of(clone)}"]
    settings(clone, 'repository = "shop"\n')
    with LockManager.open(clone, store=URL):
        pass
    assert opened[1:] == [f"{URL}#shop"]
    assert not (clone / ".holdfast").exists()


# A clone that knows its server


@needs_git
def test_a_clone_keeps_its_name_and_the_url_without_its_password(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", f"{SECRET}?sslmode=require")
    found = at(clone)
    name = first_of(clone)
    assert found == f"{SECRET}?sslmode=require#{name}", "the server needs the password"
    assert kept(clone) == {"store": f"{URL}?sslmode=require", "repository": name, "commit": name}
    assert (clone / ".holdfast/.gitignore").read_text() == "*\n"


@needs_git
def test_the_name_is_found_with_git_only_once(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    found = at(clone)
    before = (clone / ".holdfast/server.json").stat()
    monkeypatch.setenv("PATH", "/nowhere")
    assert at(clone) == found
    assert (clone / ".holdfast/server.json").stat() == before, "and nothing is written again"


@needs_git
def test_a_shell_without_the_variable_is_refused_and_begins_no_second_ledger(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", SECRET)
    at(clone)
    monkeypatch.delenv("HOLDFAST_STORE")
    for opening in (LockManager.open, Ledger.at):
        with pytest.raises(StoreError) as caught:
            opening(str(clone))
        assert URL in caught.value.message
        assert "HOLDFAST_STORE" in caught.value.hint
        assert "remove .holdfast/server.json" in caught.value.hint
    assert ledger_location.has_ledger(str(clone))
    assert ledger_location.is_on_server(str(clone))
    assert not (clone / ".holdfast/ledger.db").exists()
    (clone / ".holdfast/server.json").unlink()
    with LockManager.open(clone) as back:
        assert back.store.url == f"sqlite://{clone}/.holdfast/ledger.db"


@needs_git
def test_a_damaged_note_of_the_server_is_no_way_back_to_an_embedded_ledger(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / ".holdfast").mkdir()
    (clone / ".holdfast/server.json").write_text("[")
    with pytest.raises(StoreError, match="is on a server, and nothing here names"):
        at(clone)
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    at(clone)
    assert kept(clone)["store"] == URL


@needs_git
def test_a_linked_worktree_uses_the_name_and_the_note_of_its_repository(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    git(clone, "worktree", "add", "-q", str(tmp_path / "linked"))
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    with LockManager.open(tmp_path / "linked") as made:
        assert made.tree is not None
        assert made.tree.root == str(clone)
    assert opened == [f"{URL}#{first_of(clone)}"]
    assert kept(clone)["store"] == URL
    assert not (tmp_path / "linked/.holdfast").exists()


@needs_git
def test_a_bare_repository_with_worktrees_keeps_its_note_in_its_own_folder(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(clone), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "linked"))
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    root = home_root(str(tmp_path / "linked"))
    assert root == str(tmp_path / "bare.git")
    assert ledger_location.store_of(root) == f"{URL}#{first_of(clone)}"
    assert kept(tmp_path / "bare.git")["repository"] == first_of(clone)


def test_a_folder_that_is_no_repository_gets_no_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", f"{URL}#home")
    assert at(tmp_path) == f"{URL}#home"
    assert list(tmp_path.iterdir()) == [], "it would be the nearest ledger for everything below"


def test_a_symbolic_link_is_refused_for_a_ledger_on_a_server_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".holdfast").symlink_to("elsewhere")
    monkeypatch.setenv("HOLDFAST_STORE", f"{URL}#x")
    with pytest.raises(BadKeyError, match="symbolic link"):
        at(tmp_path)


# The name


@needs_git
def test_all_clones_of_a_repository_have_the_same_name(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    git(tmp_path, "clone", "-q", str(clone), "other")
    commit(tmp_path / "other", "third")
    assert at(tmp_path / "other") == at(clone)


@needs_git
def test_of_several_first_commits_the_least_is_the_name(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(clone, "checkout", "-q", "--orphan", "second")
    commit(clone, "another first")
    git(clone, "merge", "-q", "--allow-unrelated-histories", "-m", "both", "main")
    firsts = first_of(clone).split()
    assert len(firsts) == 2
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    assert at(clone) == f"{URL}#{min(firsts)}"


@needs_git
def test_the_settings_come_before_the_fragment_and_that_before_the_history(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", f"{URL}#our shop")
    assert at(clone) == f"{URL}#our shop"
    settings(clone, 'repository = "shop"\n')
    assert at(clone) == f"{URL}#shop"
    settings(clone, "")
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    assert at(clone) == f"{URL}#{first_of(clone)}", "a name that was set does not stay"


def test_a_name_with_a_percent_sign_is_the_same_name_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, 'repository = "100%20"\n')
    monkeypatch.setenv("HOLDFAST_STORE", f"{URL}#our%20shop")
    assert at(tmp_path) == f"{URL}#100%2520"
    assert split(at(tmp_path)) == (URL, "100%20")
    settings(tmp_path, "")
    assert at(tmp_path) == f"{URL}#our shop"


@needs_git
def test_a_tree_below_its_repository_has_a_name_of_its_own(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / "apps/shop/.holdfast").mkdir(parents=True)
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    assert at(clone / "apps/shop") == f"{URL}#{first_of(clone)}:apps/shop"


@needs_git
def test_the_variables_of_a_git_hook_do_not_change_the_name(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    commit(tmp_path / "other", "unrelated")
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    found = at(clone)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert found == f"{URL}#{first_of(clone)}"


def shallow(folder: Path, clone: Path) -> None:
    git(folder.parent, "clone", "-q", "--depth", "1", f"file://{clone}", folder.name)


def empty(folder: Path, clone: Path) -> None:
    folder.mkdir()
    git(folder, "init", "-q")


def plain(folder: Path, clone: Path) -> None:
    (folder / ".holdfast").mkdir(parents=True)


@needs_git
@pytest.mark.parametrize("make", [shallow, empty, plain])
def test_a_repository_whose_first_commit_is_unknown_must_be_named(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path, Path], None],
) -> None:  # fmt: skip
    folder = tmp_path / "nameless"
    make(folder, clone)
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    with pytest.raises(SettingsError) as caught:
        at(folder)
    assert "has no name on the server" in caught.value.message
    assert 'repository = "…"' in caught.value.hint
    assert not (folder / ".holdfast/server.json").exists()
    settings(folder, 'repository = "shop"\n')
    assert at(folder) == f"{URL}#shop"


def test_without_git_the_repository_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="git cannot be run"):
        at(tmp_path)


@pytest.mark.parametrize("name", ['"a\\tb"', f'"{"x" * 201}"', "3", '" "', '["a"]'])
def test_a_name_that_cannot_be_printed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings(tmp_path, f"repository = {name}\n")
    monkeypatch.setenv("HOLDFAST_STORE", URL)
    with pytest.raises(SettingsError, match=r"repository in .* must be a name"):
        at(tmp_path)


@pytest.mark.parametrize(
    "url",
    ["postgresql:locks", "postgresql://anna:s3/cret@db/locks", "postgresql://anna:s3#cret@db/locks",
     "postgresql://anna:s3?cret@db/locks#shop", f"{SECRET}#a\tb", f"{SECRET}#{'x' * 201}"],
)  # fmt: skip
def test_a_url_that_cannot_be_read_is_refused_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", url)
    with pytest.raises(BadKeyError) as caught:
        at(tmp_path)
    assert "cret" not in str(caught.value.to_dict())


# As it may be shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (SECRET, URL),
        (f"{SECRET}#shop", f"{URL}#shop"),
        ("postgresql://a:b:c@d@db:5432/x?sslmode=require", "postgresql://a@db:5432/x?sslmode=require"),
        ("postgresql://db/x?user=a&password=b&sslpassword=c#n", "postgresql://db/x?user=a#n"),
        ("postgresql://db/x?password=b", "postgresql://db/x"),
        ("postgresql://db/x?p%61ssword=b&a=c", "postgresql://db/x?a=c"),
        ("postgresql://:b@db/x", "postgresql://@db/x"),
        ("postgresql://a:b@[::1]:5432,h2:5433/x", "postgresql://a@[::1]:5432,h2:5433/x"),
        ("postgresql://a:b/c@db/x", "postgresql://a@db/x"),
        ("postgresql://a:b?c@db/x", "postgresql://a@db/x"),
        ("postgresql://a:b#c@db/x", "postgresql://a@db/x"),
        ("postgresql://db:5432/a@b", "postgresql://db:5432/a@b"),
        ("postgresql:///x?host=/run/p", "postgresql:///x?host=/run/p"),
        ("postgresql://db/x?", "postgresql://db/x?"),
        ("sqlite:///a:b@c/ledger.db", "sqlite:///a:b@c/ledger.db"),
        ("memory:", "memory:"),
        ("mysql://a:b@db/x", "mysql://a@db/x"),
        ("postgresql:a:b@db/x", "postgresql:"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert without_password(shown) == shown


# Its price


def test_a_hook_of_an_embedded_ledger_imports_nothing_for_servers(tmp_path: Path) -> None:
    settings(tmp_path, '# no store\nnotify = ["x"]\n')
    source = str(Path(holdfast.__file__).parent.parent)
    script = (
        f"import sys; sys.path.insert(0, {source!r})\n"
        "from holdfast.manager.ledger import Ledger\n"
        f"Ledger.at({str(tmp_path)!r}).close()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    costly = {
        "holdfast.manager.server_location", "holdfast.manager.files.plain_toml", "tomllib",
        "subprocess", "urllib", "json", "psycopg", "holdfast.store.postgres",
    }  # fmt: skip
    assert not costly & set(done.stdout.split())


def test_a_store_on_a_server_is_opened_with_the_systems_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def fake(url: str, **more: Any) -> Any:
        given.update(more)
        return open_store("memory:", clock=more["clock"], is_dead=more["is_dead"])

    monkeypatch.setattr(ledger, "open_store", fake)
    settings(tmp_path, f'store = "{URL}"\nrepository = "shop"\n')
    with Ledger.at(str(tmp_path), end=5.0) as made:
        assert made.end == given["end"] == 5.0
        assert isinstance(given["clock"], SystemClock)
