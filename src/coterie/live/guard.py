"""What an HTTP interface checks before it answers: a token, and that no web page of somebody else is asking.

A browser sends requests on behalf of any page. A page cannot set Host (a name that was made to point here keeps its
name), Origin or Sec-Fetch-Site, and it does not know the token. No I/O.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

PAGE_RULES = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
Refusal = tuple[int, str]


def host_of(place: str) -> str:
    """The host of `host:port`, `[v6]:port` or a bare host."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.rpartition(":")[0] if place.count(":") == 1 else place


def is_address(host: str) -> bool:
    """Addresses and localhost mean what they say; any other name can be made to point here by whoever owns it."""
    if host == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_own_origin(origin: str, place: str) -> bool:
    return origin in (f"http://{place}", f"https://{place}")


class Guard:
    """`names` are the hosts by which it may be called, besides addresses and localhost."""

    def __init__(self, token: str, names: Iterable[str] = ()) -> None:
        self._token = token.encode()
        self._names = frozenset(name.lower() for name in names)

    def refusal(self, headers: Mapping[str, str], is_page: bool = False) -> Refusal | None:
        """Why a request is not answered, or None. A page without anything in it may be gone to from anywhere."""
        place = headers.get("host", "").lower()
        if not (is_address(host_of(place)) or host_of(place) in self._names):
            return 421, "this host name is not known here; call it by its address, or list the name in admin.hosts"
        if is_page and headers.get("sec-fetch-mode") == "navigate":
            return None
        origin = headers.get("origin")
        if origin is not None and not is_own_origin(origin.lower(), place):
            return 403, "pages of other origins are not answered"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "pages of other sites are not answered"
        return None

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        given = headers.get("authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, b"Bearer " + self._token) and bool(self._token)


def may_open_socket(origin: str | None, place: str, allowed: Iterable[str]) -> bool:
    """Whether a WebSocket may be opened: browsers name the page's origin, other clients mostly none or our own."""
    if origin is None or "*" in allowed or origin.lower() in {one.lower().rstrip("/") for one in allowed}:
        return True
    place = place.lower()
    return is_own_origin(origin.lower(), place) and is_address(host_of(place))
