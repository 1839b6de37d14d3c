"""Who may ask. A server on this machine can be reached by every page that a browser shows, and by
every user of the machine.

- A page of another site that is called by a name which suddenly means this machine (DNS
  rebinding) says its own name as the host, and is refused.
- A page of another site that sends a form or a script's request here says its origin, and is
  refused. Nothing is changed by a GET, nor by a body that a form could send.
- Where others can reach the server, and wherever one is given, a token is asked for.
- A request for a change must carry the page's own secret. It is made up by each server, is
  nowhere but in its memory and in the address that it prints, and no request is answered with it:
  agents on this machine can reach the server too, and may look, but decide nothing. It stands
  behind the `#` of the address, and the page sends it in a header: a cookie would go to every
  server of this machine, those that agents start among them.

On a machine with several users the loopback address alone keeps none of them out: give a token.
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
#: What a browser says of a request that its own page made, or that a person typed.
_OWN_SITES = ("same-origin", "none")


class WebError(HoldfastError):
    """A request that is not answered as it wishes. `status` is that of HTTP."""

    status = 400
    code = "E_REQUEST"


class ForbiddenError(WebError):
    """From the wrong place."""

    status = 403
    code = "E_FORBIDDEN"


class TokenError(WebError):
    """Without the token or the secret, or with a wrong one."""

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
    """Decides whether a request is let in."""

    def __init__(self, host: str, port: int, token: str, secret: str) -> None:
        """`token` is asked of all, if it is not empty; `secret` of those who change something. If
        that is empty, this server only shows."""
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
            raise ForbiddenError("another site may not ask here", hint="open the page itself")
        site = headers.get("Sec-Fetch-Site", "none")
        if changes and site not in _OWN_SITES:
            raise ForbiddenError("another site may not ask here", hint="open the page itself")
        if changes and not self.secret:
            raise ForbiddenError(
                "this server was started by an agent, so it only shows",
                hint="let a person start one: holdfast serve; or decide: holdfast decide",
            )
        if changes and not _bears(headers, self.secret):
            raise TokenError(
                "only people who have the page's secret may decide, stop or start anything",
                hint="open the page by the whole address that was printed where it was started; "
                "programs send Authorization: Bearer SECRET",
            )
        if self.token and not (changes or self._knows(headers)):
            raise TokenError(
                "this needs the token", hint="send Authorization: Bearer TOKEN, or open /?token=…"
            )

    def came_with_token(self, target: str) -> bool:
        """Whether the address itself has the right token, as the one that is printed does."""
        given = parse_qs(urlsplit(target).query).get("token", [""])[0]
        return bool(self.token) and _same(given, self.token)

    def cookie(self) -> str:
        """What lets a browser in that came with the token once."""
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
    """Compared in a time that tells nothing."""
    return hmac.compare_digest(one.encode(), other.encode())
