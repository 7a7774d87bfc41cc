"""An operator's side of members who leave: find the node, have it drained or removed, wait and say how it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from coterie.errors import ConfigError, RunError
from coterie.plans.admin import ask

POLL_S = 0.3
Place = tuple[str, int]
PHASES = {
    "asked": "the others are asked",
    "clients": "its clients are sent away",
    "sessions": "its sessions are taken by others",
    "log": "its log goes to those who keep it",
    "removal": "it is taken off the list",
}


class NetworkMembers:
    """The admin interfaces of a network, some of which may not answer."""

    def __init__(self, places: Sequence[Place], token: str) -> None:
        self.places, self.token = list(places), token

    def ask(self, place: Place, path: str, method: str = "GET") -> Any:
        return ask(*place, path, self.token, method)

    def documents(self) -> list[tuple[Place, dict[str, Any]]]:
        """What the nodes that answer say of the list, the newest first."""
        found = [(place, said) for place in self.places if (said := self.ask(place, "/members")) is not None]
        if not found:
            raise RunError(f"no node answers at {', '.join(f'{host}:{port}' for host, port in self.places)}")
        return sorted(found, key=lambda one: -one[1]["epoch"])

    def latest(self) -> dict[str, Any]:
        return self.documents()[0][1]

    def number_of(self, name: str) -> int:
        """A node by its number or its name."""
        members = self.latest()["members"]
        for one in members:
            if name in (str(one["id"]), one["name"]):
                return int(one["id"])
        told = ", ".join(f"{one['id']} ({one['name']})" for one in members if one["state"] != "removed")
        raise ConfigError("NODE", name, f"a member: {told}")

    def place_of(self, node: int) -> Place | None:
        for place in self.places:
            said = self.ask(place, "/health")
            if said is not None and said.get("node") == node:
                return place
        return None

    def state_of(self, node: int) -> str:
        """Its state by the newest list that anybody knows."""
        return next((str(one["state"]) for one in self.latest()["members"] if one["id"] == node), "")


def drain(network: NetworkMembers, node: int, told: Callable[[str], None], limit_s: float) -> None:
    """Until it has left."""
    place = network.place_of(node)
    if place is None:
        raise RunError(f"node {node} does not answer; `coterie remove {node}` takes a dead node off the list")
    said = network.ask(place, "/drain", "POST")
    phase, handed, deadline_s = "", (0, 0), time.monotonic() + limit_s
    while said is not None:
        now = said["drain"]
        if now["phase"] != phase:
            phase = now["phase"]
            rest = f" ({now['clients']} clients, {now['sessions']} sessions are there)" if phase == "clients" else ""
            told(f"node {node}: {PHASES.get(phase, phase)}{rest}")
        if time.monotonic() > deadline_s:
            raise RunError(
                f"node {node} has not left after {limit_s:g} s ({PHASES.get(phase, phase)}: {now['clients']} clients, "
                f"{now['sessions']} sessions); it goes on, run the command again to see how far it is"
            )
        time.sleep(POLL_S)
        said = network.ask(place, "/members")
        handed = now["handed_over"], now["sent_away"]
    others = NetworkMembers([one for one in network.places if one != place] or network.places, network.token)
    if others.places != network.places and others.state_of(node) != "removed":
        raise RunError(f"node {node} went before it had left: start it again, and it goes on leaving")
    told(f"node {node} has left; {handed[1]} clients were sent away, {handed[0]} sessions handed over")


def remove(network: NetworkMembers, node: int, is_forced: bool, told: Callable[[str], None], limit_s: float) -> None:
    """Until the list says so. Nothing is asked of the node itself."""
    asked = next((place for place, _ in network.documents() if network.ask(place, "/health")["node"] != node), None)
    if asked is None:
        raise RunError("no other node answers: name its admin interface with --admin")
    told(cost_told(network.ask(asked, f"/remove?node={node}")))
    said = network.ask(asked, f"/remove?node={node}{'&force=1' if is_forced else ''}", "POST")
    number = max(said["changes"], key=int)
    deadline_s = time.monotonic() + limit_s
    while said is None or said["changes"].get(number, "under way") == "under way":
        if time.monotonic() > deadline_s:
            raise RunError(
                f"node {node} is not removed after {limit_s:g} s: a majority of the members has to answer. Bring one "
                "back, or say --force if there are only two and this one is dead"
            )
        time.sleep(POLL_S)
        said = network.ask(asked, "/members")
    outcome = said["changes"].get(number, "")
    if outcome.startswith("refused"):
        raise RunError(f"node {node} is not removed: {outcome.removeprefix('refused: ')}")
    told(f"node {node} is removed; its number is not used again")


def cost_told(cost: dict[str, Any]) -> str:
    node, keepers, there = cost["node"], cost["keepers"], cost["keepers_in_reach"]
    if there:
        return (
            f"node {node}: what it acknowledged is kept by {_listed(there)}, who take over its sessions; what it had "
            "received at QoS 0 is lost"
        )
    if keepers:
        return (
            f"node {node}: its copies are with {_listed(keepers)}, none of whom is in reach: without them its sessions "
            "and what only it had are lost"
        )
    return f"node {node}: nobody keeps copies for it: its sessions, and what only it had, are lost"


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(f"node {node}" for node in nodes)
