"""Changing a running network over to a plan: whose part is whose, the four phases, and the bill before and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from coterie.cli.adminclient import ask
from coterie.errors import ConfigError, CoterieError, InputError, RunError
from coterie.model import Ledger
from coterie.model.plan import HomePart, Slice, slices
from coterie.pipeline.plans import PlanStore
from coterie.runtime.planes import PlanPart

READY_S = 60.0  # how long a new plan may take to be built
SWITCH_S = 5.0  # how long the word to switch may take to reach everybody
MOVING_S = 3.0  # clients that have not gone after so long are not going to
POLL_S = 0.2
BILL = (
    *("dissemination.wanted", "dissemination.inbound", "dissemination.relayed", "dissemination.filtered"),
    *("dissemination.duplicate", "dissemination.copies", "maintenance.tree_keepalives"),
    *("maintenance.link_keepalives", "maintenance.associations", "control.messages"),
    *("volume.copies", "volume.upkeep", "volume.control", "volume.total"),
)


class LiveNetwork:
    """The admin interfaces of all nodes."""

    def __init__(self, places: Sequence[tuple[str, int]], token: str = "") -> None:
        self.places, self.token = list(places), token

    def ask(self, path: str, method: str = "GET", bodies: Sequence[bytes] | None = None) -> list[dict[str, Any]]:
        """Every node's answer, in the order of the places; RunError if one does not answer."""
        said = bodies or [b""] * len(self.places)
        with ThreadPoolExecutor(min(16, len(self.places))) as pool:
            return list(pool.map(lambda place, body: self._one(place, path, method, body), self.places, said))

    def _one(self, place: tuple[str, int], path: str, method: str, body: bytes) -> dict[str, Any]:
        found = ask(place[0], place[1], path, self.token, method, body, timeout_s=30.0)
        if found is None:
            raise RunError(f"no node answers at {place[0]}:{place[1]}; a plan needs all of them")
        document: dict[str, Any] = found
        return document

    def ask_one(self, place: int, path: str, method: str = "GET", body: bytes = b"") -> dict[str, Any]:
        return self._one(self.places[place], path, method, body)

    def order(self, phase: str, generation: int, parts: Sequence[PlanPart] | None = None) -> list[dict[str, Any]]:
        orders: list[dict[str, Any]] = [{"phase": phase, "generation": generation} for _ in self.places]
        for one, part in zip(orders, parts or (), strict=False):
            one["part"] = part
        return self.ask("/plan", "POST", [msgspec.json.encode(one) for one in orders])


@dataclass(frozen=True)
class PlanForNetwork:
    """A plan in the words of a running network: slices in the order of its nodes, clients by node number."""

    version: int
    system: str
    slices: list[Slice]
    clients: dict[str, int]
    settings: dict[str, Any]


def fit(store: PlanStore, version: int, network: LiveNetwork) -> PlanForNetwork:
    """The plan counts nodes, topics and clients; the network knows them by name."""
    design = store.design(version)
    folder = store.folder(version)
    healths = network.ask("/health")
    numbers = _node_numbers(folder, healths, design.node_count)
    topics = _names(folder / "topics.parquet", "topic")
    cut = [_renamed(part, numbers, topics) for part in slices(design, version=version)]
    order = {one["node"]: place for place, one in enumerate(healths)}
    clients = {
        name: numbers[node]
        for name, node in zip(
            _names(folder / "subscribers.parquet", "subscriber"), design.placement.node_of.tolist(), strict=False
        )
    }
    settings = {name: value for name, value in design.settings.items() if name != "seed"}
    return PlanForNetwork(version, design.system, sorted(cut, key=lambda one: order[one.node]), clients, settings)


def _node_numbers(folder: Path, healths: list[dict[str, Any]], count: int) -> list[int]:
    """Node of the plan -> number in the network: by name where the plan has names."""
    if len(healths) != count:
        raise ConfigError("plan", f"{count} nodes", f"a plan for the network's {len(healths)} nodes")
    if not (folder / "nodes.parquet").exists():
        return sorted(one["node"] for one in healths)
    number_of = {one["name"]: one["node"] for one in healths}
    names = _names(folder / "nodes.parquet", "node")
    if strangers := sorted(set(names) - set(number_of)):
        raise ConfigError("plan", strangers[0], f"nodes of this network: {', '.join(sorted(number_of))}")
    return [number_of[name] for name in names]


def _renamed(part: Slice, numbers: list[int], topics: list[str]) -> Slice:
    channels = tuple(
        msgspec.structs.replace(one, topics=tuple(topics[topic] for topic in one.topics if isinstance(topic, int)))
        for one in part.channels
    )
    neighbours = tuple(msgspec.structs.replace(one, node=numbers[one.node]) for one in part.neighbours)
    homes = tuple(
        HomePart(numbers[one.node], tuple(topics[topic] for topic in one.topics if isinstance(topic, int)))
        for one in part.homes
    )
    return msgspec.structs.replace(part, node=numbers[part.node], neighbours=neighbours, channels=channels, homes=homes)


def _names(path: Path, column: str) -> list[str]:
    try:
        names: list[str] = pq.read_table(path).column(column).to_pylist()
    except (OSError, KeyError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    return names


def change_over(network: LiveNetwork, plan: PlanForNetwork, told: Callable[[str], None] = lambda text: None) -> None:
    """Send clients where they should be, then load, start, wait until it is ready everywhere, and switch.

    Clients go first, so that structures which nodes learn from what they see are made for where everybody is. If the
    plan cannot be built it is dropped: the network stays with the one it has.
    """
    before = network.ask("/plan")
    started_s = time.monotonic()
    body = msgspec.json.encode({"version": plan.version, "clients": plan.clients})
    network.ask("/placement", "POST", [body] * len(network.places))
    moved = _wait_moved(network, plan)
    told(f"{moved} clients went to where plan {plan.version} wants them ({time.monotonic() - started_s:.1f} s)")
    generation = 1 + max(max(one["generation"], (one["next"] or one)["generation"]) for one in before)
    parts = [PlanPart(generation=generation, slice=one, settings=plan.settings) for one in plan.slices]
    try:
        network.order("load", generation, parts)
        network.order("start", generation)
        _wait(network, lambda one: bool(one["next"] and one["next"]["is_ready"]), "build the plan")
    except CoterieError:
        _drop(network)
        raise
    told(f"plan {plan.version} is built beside the one in use ({time.monotonic() - started_s:.1f} s)")
    order = msgspec.json.encode({"phase": "switch", "generation": generation})
    network.ask_one(0, "/plan", "POST", order)  # the others hear of it from their neighbours
    try:
        _wait(network, lambda one: one["generation"] == generation, "switch", SWITCH_S)
    except RunError:
        network.order("switch", generation)  # whoever the flood did not reach
        _wait(network, lambda one: one["generation"] == generation, "switch")
    told(f"plan {plan.version} is in force at all {len(before)} nodes ({time.monotonic() - started_s:.1f} s)")


def _wait_moved(network: LiveNetwork, plan: PlanForNetwork) -> int:
    """Until nobody has moved for a while: some do not follow, and nobody is waited for. Returns how many have moved."""
    first = left = _misplaced(network, plan)
    changed_s = time.monotonic()
    while left and time.monotonic() - changed_s < MOVING_S:
        time.sleep(POLL_S)
        found = _misplaced(network, plan)
        if found != left:
            left, changed_s = found, time.monotonic()
    return len(first - left)


def _misplaced(network: LiveNetwork, plan: PlanForNetwork) -> set[str]:
    nodes = [one["node"] for one in network.ask("/health")]
    homes = network.ask("/placement")
    at = {client: node for node, home in zip(nodes, homes, strict=True) for client in home["clients"]}
    return {client for client, node in at.items() if plan.clients.get(client, node) != node}


def _wait(
    network: LiveNetwork, is_done: Callable[[dict[str, Any]], bool], what: str, limit_s: float | None = None
) -> None:
    limit_s = READY_S if limit_s is None else limit_s
    deadline_s = time.monotonic() + limit_s
    while waiting := [place for place, one in enumerate(network.ask("/plan")) if not is_done(one)]:
        if time.monotonic() > deadline_s:
            raise RunError(
                f"{len(waiting)} nodes did not {what} within {limit_s:g} s; see the log of node {waiting[0]}"
            )
        time.sleep(POLL_S)


def _drop(network: LiveNetwork) -> None:
    for place in network.places:
        ask(place[0], place[1], "/plan", network.token, "POST", b'{"phase": "drop"}')


# --- the bill ---


def predicted(store: PlanStore, version: int) -> dict[str, float] | None:
    """What the plan is predicted to cost, per second."""
    foretold = store.manifest(version).get("predicted")
    return msgspec.convert(foretold, Ledger).columns() if foretold else None


def measured(network: LiveNetwork, over_s: float = 0.0) -> dict[str, float]:
    """What the nodes counted, per second: since the plan is in force, or in the coming seconds."""
    counted, span_s = _counted(network)
    if over_s:
        time.sleep(over_s)
        later, later_s = _counted(network)
        counted, span_s = {name: later[name] - counted[name] for name in later}, later_s - span_s
    return {name: value / max(span_s, 1e-9) for name, value in counted.items()}


def _counted(network: LiveNetwork) -> tuple[dict[str, float], float]:
    """(counts of all nodes together, in how many seconds)."""
    books = network.ask("/ledger")
    total = {name: sum(one["columns"][name] * one["in_force_s"] for one in books) for name in BILL}
    total["loss.delivered"] = float(sum(one["deliveries"] for one in books))
    return total, max(one["in_force_s"] for one in books)


def side_by_side(
    store: PlanStore, version: int, network: LiveNetwork, over_s: float = 0.0
) -> dict[str, tuple[float | None, float]]:
    """Predicted and measured, per second; copies per delivered message last."""
    rate, foretold = measured(network, over_s), predicted(store, version) or {}
    rows: dict[str, tuple[float | None, float]] = {
        name: (foretold.get(name), rate[name]) for name in (*BILL, "loss.delivered") if foretold.get(name) or rate[name]
    }
    owed = foretold.get("loss.delivered")
    rows["copies per delivery"] = (
        foretold["dissemination.copies"] / owed if owed else None,
        rate["dissemination.copies"] / rate["loss.delivered"] if rate["loss.delivered"] else 0.0,
    )
    return rows
