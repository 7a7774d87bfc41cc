"""A tree of mosquitto bridges per topic: one connection per link, and on it a line for every topic that must cross.

Per topic the links form a tree, so nothing loops and nothing comes twice. mosquitto takes changed bridges up at a
restart only (2.0 ignores them silently on reload). Topics that no line names do not cross; prefixes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coterie.fleets.crossing import crossings_of_trees
from coterie.fleets.export import haproxy
from coterie.fleets.export.target import LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import Filters, FleetLayout
from coterie.fleets.probing import Way
from coterie.fleets.trees import Pair, Tree, trees_per_topic
from coterie.mqtt.topics import has_wildcard

FILE = "coterie-bridges.conf"
DIRECTIONS = {(True, False): "out", (False, True): "in", (True, True): "both"}


def place_of(fleet: BrokerFleet, broker: str) -> Path:
    folder = fleet.named(broker).config
    if folder is None:
        raise fleet.missing(fleet.key(broker, "config"), "the folder that its include_dir names")
    return folder / FILE


def bridges(fleet: BrokerFleet, trees: dict[str, Tree]) -> dict[str, str]:
    """Broker -> the bridges it dials; of two brokers the one that comes first in the fleet file does."""
    order = {name: at for at, name in enumerate(fleet.names)}
    crossings = crossings_of_trees(trees)
    texts: dict[str, list[str]] = {name: ["# made by `coterie export --to mosquitto-bridges`"] for name in fleet.names}
    links: dict[Pair, None] = {}
    for one, other in crossings:
        links[(one, other) if order[one] < order[other] else (other, one)] = None
    for here, there in sorted(links, key=lambda pair: (order[pair[0]], order[pair[1]])):
        out, back = set(crossings.get((here, there), ())), set(crossings.get((there, here), ()))
        name = f"{fleet.named(here).bridge_name}-{there}"
        texts[here] += ["", f"connection {name}", f"address {fleet.named(there).link_address}"]
        texts[here] += [f"remote_clientid {name}", "cleansession false", "try_private true", "notifications false"]
        texts[here] += ["restart_timeout 1 5", f"topic {fleet.probe.topic}/{here}/{there} both 0"]
        texts[here] += [f"topic {topic} {DIRECTIONS[topic in out, topic in back]} 1" for topic in sorted(out | back)]
    return {name: "\n".join([*lines, ""]) for name, lines in texts.items()}


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    texts = bridges(fleet, trees_per_topic(wanted, fleet.limits.prefixes))
    return [
        Piece(f"mosquitto-bridges/{name}.conf", text, place_of(fleet, name), name, needs_restart=True)
        for name, text in texts.items()
    ]


def ways(fleet: BrokerFleet) -> list[Way]:
    """Every bridge carries a topic of its own in both directions."""
    found = []
    for one in fleet.broker:
        place = place_of(fleet, one.name)
        for line in place.read_text().splitlines() if place.is_file() else ():
            if line.startswith(f"topic {fleet.probe.topic}/") and line.endswith(" both 0"):
                topic = line.removeprefix("topic ").removesuffix(" both 0")
                here, there = topic.split("/")[-2:]
                found += [Way(here, there, topic), Way(there, here, topic)]
    return found


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    remarks = haproxy.needed(fleet)
    for one in fleet.broker:
        if one.config is None:
            remarks.append(Remark(f"{fleet.key(one.name, 'config')} is missing: the folder of its include_dir", True))
        if not one.restart:
            remarks.append(
                Remark(f"{fleet.key(one.name, 'restart')} is missing: bridges change at a restart only", True)
            )
    covered = Filters(fleet.limits.prefixes)
    wild = sorted(
        {
            one
            for some in wanted.filters.values()
            for one in some
            if has_wildcard(one) and one not in fleet.limits.prefixes
        }
    )
    if wild:
        remarks.append(
            Remark(f"topics nobody has published yet do not cross to whoever wants {', '.join(wild[:3])}"
                   f"{' and others' if len(wild) > 3 else ''}: put a prefix in limits.prefixes")
        )  # fmt: skip
    spaced = [topic for topic in wanted.known_topics if any(letter.isspace() for letter in topic)]
    if spaced:
        remarks.append(Remark(f"topic {spaced[0]!r} cannot be written in a bridge's line: it holds a space", True))
    if not wanted.sources:
        remarks.append(Remark("the plan does not say who publishes: every broker may, which makes bigger trees"))
    lonely = [topic for topic in wanted.known_topics if not wanted.readers(topic) and not covered.match(topic)]
    if lonely:
        remarks.append(Remark(f"{len(lonely)} topics are wanted nowhere and stay where they are published"))
    return remarks


TARGET = Target(
    name="mosquitto-bridges",
    says="mosquitto: a tree of bridges per topic, the fewest copies; takes a restart of the brokers",
    shape=LinkShape.TREE_PER_TOPIC,
    pieces=pieces,
    moves=Mover.BALANCER,
    check=check,
    ways=ways,
)
