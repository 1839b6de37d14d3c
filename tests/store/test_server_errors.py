"""Each thing that is wrong with a server, or with its URL, is one sentence that says which."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from helpers_postgres import ROLE, Server, free_port, other_user, own_server
from holdfast.core.errors import (
    BadKeyError,
    HoldfastError,
    StoreError,
    StoreReadonlyError,
    StoreVersionError,
)
from holdfast.manager import store_check
from holdfast.manager.clock import SystemClock
from holdfast.store import open_store

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")


def opened(url: str) -> None:
    """Open a store, and decide nothing."""
    end = monotonic() + 1
    open_store(url, clock=SystemClock(), is_dead=lambda *_: None, end=end).close()


def why(url: str) -> HoldfastError:
    """The error of opening a store: one line, without the password, with a next step."""
    with pytest.raises(HoldfastError) as caught:
        opened(url)
    error = caught.value
    assert "\n" not in error.message + error.hint
    assert error.hint
    assert "secret" not in f"{error.message} {error.hint} {error.fields}"
    return error


def bad(url: str) -> str:
    """What a check says that is not in order."""
    return "; ".join(one.said for one in store_check.check(url) if one.level == "failed")


@pytest.fixture
def database(postgres_server: Server) -> Iterator[str]:
    """A database of this test, with the role's rights."""
    name = f"errors_{secrets.token_hex(4)}"
    postgres_server.make_database(name)
    yield name
    postgres_server.cut_all(name)
    postgres_server.run(f"drop database {name} with (force)")


@pytest.fixture
def stranger(postgres_server: Server, database: str) -> Iterator[str]:
    """The URL of a role that may connect to the database of this test, and nothing else."""
    role = f"stranger_{secrets.token_hex(4)}"
    postgres_server.make_role(role, "secret")
    postgres_server.run(f"grant connect on database {database} to {role}")
    yield f"postgresql://{role}:secret@127.0.0.1:{postgres_server.port}/{database}#app"
    postgres_server.cut_all(database)
    postgres_server.run(f"drop owned by {role}", database=database)
    postgres_server.run(f"revoke all on database {database} from {role}")
    postgres_server.run(f"drop role {role}")


def test_a_wrong_password(postgres_server: Server) -> None:
    error = why(postgres_server.url("app").replace(postgres_server.password, "secret"))
    assert "refused the user or the password" in error.message
    assert "PGPASSWORD" in error.hint


def test_no_password(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    error = why(postgres_server.url("app", password=False))
    assert "asks for a password, and none was given" in error.message


def test_a_wrong_user(postgres_server: Server) -> None:
    error = why(postgres_server.url("app").replace(ROLE, "nobody"))
    assert 'the user or the password: password authentication failed for user "nobody"' in str(
        error
    )
    assert "correct the user" in error.hint


def test_a_wrong_host(postgres_server: Server) -> None:
    error = why(postgres_server.url("app").replace("127.0.0.1", "no-such-host.invalid"))
    assert "does not know the server's name" in error.message
    assert "no-such-host.invalid" in error.message


def test_a_wrong_port(postgres_server: Server) -> None:
    port = free_port()
    error = why(postgres_server.url("app", port=port))
    assert f"port {port} failed: Connection refused" in error.message
    assert "start the server" in error.hint


def test_a_port_that_is_no_number(postgres_server: Server) -> None:
    url = postgres_server.url("app").replace(f":{postgres_server.port}", ":abc")
    assert 'invalid integer value "abc"' in why(url).message


def test_an_unknown_option(postgres_server: Server) -> None:
    error = why(postgres_server.url("app", options={"nonsense": "1"}))
    assert isinstance(error, BadKeyError)
    assert '"nonsense"' in error.message


def test_a_wrong_database(postgres_server: Server) -> None:
    error = why(postgres_server.url("app", database="nowhere"))
    assert error.message.endswith('database "nowhere" does not exist')
    assert "create the database" in error.hint


def test_a_database_that_the_role_may_not_use(postgres_server: Server, stranger: str) -> None:
    error = why(stranger.rpartition("/")[0] + "/postgres_2#app")
    assert 'database "postgres_2" does not exist' in error.message
    error = why(stranger.rpartition("/")[0] + "/holdfast#app")
    assert "the user may not use this database" in error.message
    assert "grant connect" in error.hint


def test_a_role_that_may_not_make_the_tables(postgres_server: Server, stranger: str) -> None:
    error = why(stranger)
    assert isinstance(error, StoreReadonlyError)
    assert "permission denied for schema" in error.message or "may not make" in error.message
    assert "may not make them" in bad(stranger)


def test_a_role_without_rights_on_the_tables(
    postgres_server: Server, database: str, stranger: str
) -> None:
    opened(postgres_server.url("app", database=database))
    error = why(stranger)
    assert isinstance(error, StoreReadonlyError)
    assert "the role lacks rights: permission denied for schema holdfast" in error.message
    assert "grant usage on schema holdfast" in error.hint
    assert "lacks rights: usage of the schema holdfast" in bad(stranger)
    role = stranger.partition("//")[2].partition(":")[0]
    for sql in (f"grant usage on schema holdfast to {role}",
                f"grant select on all tables in schema holdfast to {role}"):  # fmt: skip
        postgres_server.run(sql, database=database)
    assert "permission denied for table repositories" in why(stranger.replace("#app", "#b")).message
    assert "lacks rights: delete, insert, update on holdfast.events" in bad(stranger)


def test_a_role_or_a_server_that_only_reads(postgres_server: Server, database: str) -> None:
    opened(postgres_server.url("app", database=database))
    only = postgres_server.url(
        "new", database=database, options={"options": "-cdefault_transaction_read_only=on"}
    )
    error = why(only)
    assert isinstance(error, StoreReadonlyError)
    assert "cannot be written" in error.message
    assert "primary" in error.hint
    assert "its transactions are read-only" in bad(only)


def test_a_newer_format(postgres_server: Server, database: str) -> None:
    url = postgres_server.url("app", database=database)
    opened(url)
    postgres_server.run("insert into holdfast.migrations values (99)", database=database)
    error = why(url)
    assert isinstance(error, StoreVersionError)
    assert "a newer version of Holdfast (format 99" in error.message
    assert "pip install --upgrade" in error.hint
    assert "format 99" in bad(url)


def test_an_encoding_that_has_no_room_for_every_path(postgres_server: Server) -> None:
    name = f"latin_{secrets.token_hex(4)}"
    postgres_server.run(
        f"create database {name} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0"
    )
    try:
        url = postgres_server.url("app", database=name)
        assert "has the encoding LATIN1, and paths need UTF8" in why(url).message
        assert "LATIN1" in bad(url)
    finally:
        postgres_server.run(f"drop database {name} with (force)")


def test_a_role_whose_sessions_are_all_used(postgres_server: Server, stranger: str) -> None:
    role = stranger.partition("//")[2].partition(":")[0]
    postgres_server.run(f"alter role {role} connection limit 0")
    error = why(stranger)
    assert "the server has no session left: too many connections for role" in error.message
    assert "raise max_connections" in error.hint


def test_a_server_without_tls(postgres_server: Server) -> None:
    error = why(postgres_server.url("app", options={"sslmode": "require"}))
    assert "the encrypted connection was not made: server does not support SSL" in error.message
    assert "sslmode" in error.hint


# Certificates


def _certificate(folder: Path, name: str, host: str) -> tuple[Path, Path]:
    """A certificate of its own signing for a host, and its key."""
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={host}", "-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1", "-keyout", key,
         "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server with TLS, and the folder of its certificate and of another one."""
    folder = tmp_path_factory.mktemp("certificates")
    _certificate(folder, "other", "localhost")
    made, key = _certificate(folder, "server", "db.example")
    with own_server() as server:
        user = other_user()
        for file in (made, key):
            there = server.data / file.name
            there.write_bytes(file.read_bytes())
            there.chmod(0o600)
            if user:
                os.chown(there, user["user"], user["group"])
        with (server.data / "postgresql.conf").open("a") as settings:
            settings.write("ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n")
        server.restart()
        yield server, folder


def secure_url(server: Server, mode: str, root: Path) -> str:
    return server.url("app", options={"sslmode": mode, "sslrootcert": root})


def test_a_certificate_that_is_verified(secure: tuple[Server, Path]) -> None:
    server, folder = secure
    url = secure_url(server, "verify-full", folder / "server.crt")
    opened(url)
    assert bad(url) == ""
    encryption = {one.about: one for one in store_check.check(url)}["encryption"]
    assert encryption.facts == {"tls": True, "verified": True}


def test_a_certificate_of_another_authority(secure: tuple[Server, Path]) -> None:
    server, folder = secure
    error = why(secure_url(server, "verify-full", folder / "other.crt"))
    assert "the encrypted connection was not made" in error.message
    authorities = folder / "other.crt"
    said = f"certificate verify failed: it is signed by none of the authorities in {authorities}"
    assert said in error.message
    assert "sslrootcert" in error.hint


def test_a_certificate_for_another_host(secure: tuple[Server, Path]) -> None:
    server, folder = secure
    url = secure_url(server, "verify-full", folder / "server.crt")
    error = why(url.replace("127.0.0.1", "localhost"))
    assert 'server certificate for "db.example"' in error.message
    assert 'does not match host name "localhost"' in error.message


AUTHORITY = """
[ca]
default_ca = here
[here]
dir = {folder}
database = $dir/index.txt
new_certs_dir = $dir
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
"""


@contextmanager
def signed(secure: tuple[Server, Path], since: str, until: str) -> Iterator[Path]:
    """The server has a certificate that an authority has signed for this time; the file of the
    authority."""
    server, folder = secure
    here = folder / f"authority-{since}-{until}"
    here.mkdir()
    (here / "index.txt").touch()
    (here / "settings").write_text(AUTHORITY.format(folder=here))
    root, root_key = _certificate(here, "root", "an authority")
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db.example",
         "-keyout", here / "server.key", "-out", here / "request"],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(
        ["openssl", "ca", "-batch", "-notext", "-config", here / "settings", "-cert", root,
         "-keyfile", root_key, "-startdate", since, "-enddate", until, "-in", here / "request",
         "-out", here / "server.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    _show(server, here)
    try:
        yield root
    finally:
        _show(server, folder)


def _show(server: Server, folder: Path) -> None:
    """Have the server use the certificate in a folder."""
    for name in ("server.crt", "server.key"):
        (server.data / name).write_bytes((folder / name).read_bytes())
    server.restart()


def test_a_certificate_of_an_authority(secure: tuple[Server, Path]) -> None:
    with signed(secure, "20200101000000Z", "20990101000000Z") as root:
        opened(secure_url(secure[0], "verify-full", root))


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("20200101000000Z", "20200102000000Z", "it has expired"),
        ("20980101000000Z", "20990101000000Z", "it is not valid yet"),
    ],
    ids=["expired", "not yet valid"],
)
def test_a_certificate_whose_time_is_not_now(
    secure: tuple[Server, Path], since: str, until: str, said: str
) -> None:
    with signed(secure, since, until) as root:
        url = secure_url(secure[0], "verify-full", root)
        assert f"certificate verify failed: {said}" in why(url).message
        with pytest.raises(StoreError, match=said):
            list(store_check.check(url))


def test_a_root_certificate_that_is_missing(secure: tuple[Server, Path]) -> None:
    server, folder = secure
    error = why(secure_url(server, "verify-ca", folder / "none.crt"))
    assert f'root certificate file "{folder}/none.crt" does not exist' in error.message


# A server that is away


def test_a_server_that_was_stopped() -> None:
    with own_server() as server:
        url = server.url("app")
        opened(url)
        server.stop()
        error = why(url)
        assert "cannot be reached" in error.message
        assert "start the server" in error.hint
        assert "No such file" in why(server.url("app", by_socket=True)).message
        with pytest.raises(StoreError, match="cannot be reached"):
            list(store_check.check(url))
        server.start()
        opened(url)
