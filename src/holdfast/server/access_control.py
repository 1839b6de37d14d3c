"""Access control. Every page in a browser on this machine, and every user of it, can reach the
server.

- After DNS rebinding, the page of another site sends its own name as the host, and is refused.
- A form or a script of another site sends its origin, and is refused. A GET changes nothing, nor
  does a body that a form could send.
- A token is required if other machines can reach the server, or if one is given.
- A request that changes something must carry the page's own secret. Each server generates one,
  keeps it in its memory, shows it only in the address that it prints, and never sends it in an
  answer: agents on this machine can reach the server too, and may read, but decide nothing. The
  secret follows the `#` of the address, and the page sends it in a header: a cookie would be sent
  to every server on this machine, including those that agents start.

On a machine with several users the loopback address keeps none of them out: give a token.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from holdfast.core.errors import HoldfastError

COOKIE = "holdfast"
#: What a browser sends for a request of the server's own page, or for an address that was typed.
_OWN_SITES = ("same-origin", "none")


class WebError(HoldfastError):
    """A request that the server refuses. `status` is the HTTP status."""

    status = 400
    code = "E_REQUEST"


class ForbiddenError(WebError):
    """The request comes from another site, or names another host."""

    status = 403
    code = "E_FORBIDDEN"


class TokenError(WebError):
    """The token or the secret is missing or wrong."""

    status = 401
    code = "E_TOKEN"


def is_loopback(host: str) -> bool:
    """Whether a host can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Decides whether a request is allowed."""

    def __init__(self, host: str, port: int, token: str, secret: str) -> None:
        """Every request needs the `token`, unless it is empty; a change needs the `secret`. If the
        secret is empty, this server is read only."""
        self._port = port
        self._is_local = is_loopback(host)
        self._names = {"localhost"} if self._is_local else {host.lower(), socket.gethostname()}
        self.token = token
        self.secret = secret

    def check(self, headers: Mapping[str, str], *, changes: bool) -> None:
        """Raises ForbiddenError or TokenError."""
        host = headers.get("Host", "")
        if not self._is_own(host):
            raise ForbiddenError(
                f"this server is not {host[:100]!r}", hint="use the address that it printed"
            )
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise ForbiddenError(
                "requests from other sites are refused", hint="open the page itself"
            )
        site = headers.get("Sec-Fetch-Site", "none")
        if changes and site not in _OWN_SITES:
            raise ForbiddenError(
                "requests from other sites are refused", hint="open the page itself"
            )
        if changes and not self.secret:
            raise ForbiddenError(
                "this server was started by an agent, so it is read only",
                hint="let a person run holdfast serve, or decide with holdfast decide",
            )
        if changes and not _bears(headers, self.secret):
            raise TokenError(
                "to decide, stop or start anything takes the page's secret",
                hint="open the full address that the server printed when it started; "
                "programs send Authorization: Bearer SECRET",
            )
        if self.token and not (changes or self._knows(headers)):
            raise TokenError(
                "a token is required", hint="send Authorization: Bearer TOKEN, or open /?token=…"
            )

    def came_with_token(self, target: str) -> bool:
        """Whether the address contains the right token, as the printed one does."""
        given = parse_qs(urlsplit(target).query).get("token", [""])[0]
        return bool(self.token) and _same(given, self.token)

    def cookie(self) -> str:
        """The cookie for a browser that has presented the token."""
        return f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self._port or parts.path or parts.query or "@" in host:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._is_local

    def _knows(self, headers: Mapping[str, str]) -> bool:
        if _bears(headers, self.token) or _bears(headers, self.secret):
            return True
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        return cookie is not None and _same(cookie.value, self.token)


def _bears(headers: Mapping[str, str], secret: str) -> bool:
    kind, _, bearer = headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and bool(secret) and _same(bearer.strip(), secret)


def _same(one: str, other: str) -> bool:
    """Whether two texts are equal, compared in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())
