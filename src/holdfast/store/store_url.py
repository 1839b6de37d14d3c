"""The URL of a store on a server, as text: which part is what, and how it may be shown.

    postgresql://[user@]host[:port]/database[?options][#REPOSITORY]

The fragment names the repository in the database, with `%` before what is not written as it is.
This module does not check the rest, which is up to the driver. It imports nothing that a hook with
an embedded ledger does not need.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What to do about a URL that is not `is_readable`.
WRITE_IT = (
    "write postgresql://user@host/database; in a user name or password, "
    "% / ? # @ : are written %25 %2F %3F %23 %40 %3A"
)

_SCHEMES = ("postgresql:", "postgres:")
#: The options of a URL that are secrets.
_SECRETS = ("password", "sslpassword")


def is_server(url: str) -> bool:
    """Whether a URL names a store on a server."""
    return url.startswith(_SCHEMES)


def split(url: str) -> tuple[str, str]:
    """The URL without its fragment, and the name of the repository in that."""
    base, _, repository = url.partition("#")
    if "%" in repository:
        from urllib.parse import unquote

        repository = unquote(repository)
    return base, repository


def joined(base: str, repository: str) -> str:
    """The URL of one repository in a database."""
    return f"{base}#{repository.replace('%', '%25')}" if repository else base


def is_readable(url: str) -> bool:
    """Whether the end of a user name and password can be told. It cannot if one of them contains a
    character that separates the parts of a URL: that character must be written with `%`."""
    authority, rest = _parts(url)
    if is_server(url) and "//" not in url:
        return False
    return "@" in authority or "@" not in rest or _has_numbered_ports(authority)


def without_password(url: str) -> str:
    """The URL as it may be shown: no password, in the user's part or among the options. A text that
    names a store on this machine is left as it is."""
    scheme, slashes, rest = url.partition("//")
    if url.startswith(("sqlite:", "memory:")):
        return url
    if not slashes:
        return f"{scheme.partition(':')[0]}:" if is_server(url) else url
    authority = _parts(url)[0]
    whole = authority if is_readable(url) else rest
    user, at, _host = whole.rpartition("@")
    if at:
        rest = user.partition(":")[0] + rest[len(user) :]
    base, hash, repository = rest.partition("#")
    place, mark, options = base.partition("?")
    kept = "&".join(_without_secrets(options))
    return f"{scheme}//{place}{mark if kept or not options else ''}{kept}{hash}{repository}"


def _without_secrets(options: str) -> Iterator[str]:
    for option in options.split("&"):
        name = option.partition("=")[0]
        if name not in _SECRETS and "%" not in name:  # no option of libpq needs to be encoded
            yield option


def _parts(url: str) -> tuple[str, str]:
    """The part with the user and the host, and all after it."""
    rest = url.partition("//")[2]
    end = min(len(rest), *(at for at in map(rest.find, "/?#") if at >= 0), len(rest))
    return rest[:end], rest[end:]


def _has_numbered_ports(authority: str) -> bool:
    """Whether what follows each host's colon is a number, as a port is."""
    ports = (host.rpartition("]")[2].partition(":")[2] for host in authority.split(","))
    return all(port.isdigit() or not port for port in ports)


# What the settings may say


#: The longest name of a repository, in characters.
NAME_MAX = 200
WANTED_NAME = f"a name of 1 to {NAME_MAX} printable characters"
WANTED_STORE = (
    '"postgresql://user@host/database"; a password belongs in PGPASSWORD, in the file that '
    "PGPASSFILE names, or in HOLDFAST_STORE"
)


def is_name(text: object) -> bool:
    """Whether a text can be the name of a repository."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= NAME_MAX
        and text.isprintable()
        and not text.isspace()
    )


def is_for_settings(text: object) -> bool:
    """Whether a text names a store on a server without any secret: settings are committed."""
    return isinstance(text, str) and is_server(text) and without_password(text) == text
