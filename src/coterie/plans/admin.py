"""Asks nodes over their admin interface: one of them, or all of a network at once."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import msgspec

from coterie.errors import RunError
from coterie.plans.orders import PlanPart

AT_ONCE = 16
ANSWER_S = 30.0  # how long a node may take: to load its part of a large plan, for one


def ask(
    host: str, port: int, path: str, token: str = "", method: str = "GET", body: bytes = b"", timeout_s: float = 5.0
) -> Any:
    """The document at this path; None if nobody answers there."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except OSError:
        return None
    except http.client.HTTPException:
        raise RunError(f"{host}:{port} is not the admin interface of a node: it does not speak HTTP") from None
    finally:
        connection.close()
    if answer.status == 401:
        raise _without_token(host, port, token)
    if answer.status != 200:
        raise RunError(f"node at {host}:{port} answered {answer.status} to {path}: {content.decode(errors='replace')}")
    if (answer.getheader("Content-Type") or "").startswith("text/"):
        return content.decode()
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        raise RunError(f"{host}:{port} is not the admin interface of a node: {path} is not JSON there") from None


def processes_of(places: Sequence[tuple[str, int]], token: str) -> list[tuple[str, int]]:
    """Where a node is several processes behind one admin interface, those of all of them."""
    found: list[tuple[str, int]] = []
    for host, port in places:
        said = ask(host, port, "/health", token)
        found += [(host, one) for one in said.get("admin_ports", [port])] if said else [(host, port)]
    return found


def nobody_at(host: str, port: int) -> RunError:
    told = "start a network with `coterie up`, or say --base-port or --admin"
    return RunError(f"no node answers at {host}:{port}; {told}")


def _without_token(host: str, port: int, token: str) -> RunError:
    if token:
        return RunError(f"{host}:{port} has another admin token: give the one in its admin.token file")
    return RunError(f"{host}:{port} wants its admin token: give --token (or COTERIE_TOKEN), or --data of `coterie up`")


class LiveNetwork:
    """The admin interfaces of all nodes."""

    def __init__(self, places: Sequence[tuple[str, int]], token: str = "") -> None:
        self.places, self.token = list(places), token

    def ask(self, path: str, method: str = "GET", bodies: Sequence[bytes] | None = None) -> list[dict[str, Any]]:
        """Every node's answer, in the order of the places; RunError if one does not answer."""
        said = bodies or [b""] * len(self.places)
        with ThreadPoolExecutor(min(AT_ONCE, len(self.places))) as pool:
            told = (repeat(path), repeat(self.token), repeat(method), said, repeat(ANSWER_S))
            found = list(pool.map(ask, *zip(*self.places, strict=True), *told))
        for place, one in zip(self.places, found, strict=True):
            if one is None:
                raise nobody_at(*place)
        return found

    def healths(self) -> list[dict[str, Any]]:
        """What every node says of itself; without the token it says too little, and that is told."""
        found = self.ask("/health")
        for place, one in zip(self.places, found, strict=True):
            if "node" not in one:
                raise _without_token(*place, self.token)
        return found

    def order(self, phase: str, generation: int, parts: Sequence[PlanPart] | None = None) -> list[dict[str, Any]]:
        """A step of a change of plans, for everybody (`orders.PlanOrder`)."""
        orders: list[dict[str, Any]] = [{"phase": phase, "generation": generation} for _ in self.places]
        for one, part in zip(orders, parts or (), strict=False):
            one["part"] = part
        return self.ask("/plan", "POST", [msgspec.json.encode(one) for one in orders])
