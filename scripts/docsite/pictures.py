"""Draws the pictures of docs/concepts from small runs: `python -m scripts.docsite.pictures` writes docs/pictures/.

Every arrow is a copy that a simulated node really sent, read off the run's trace; every number is of the priced ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from coterie.accounting.price import price
from coterie.model import Design, Ledger, Publications, Relation, Workload
from coterie.sim.run import SPAN_S, simulate
from coterie.systems import system_named
from coterie.trace import TraceEvent

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
TASTES = ("#0b7a75", "#d9822b", "#7b4fa3", "#3a6ea5")
COPIES = {
    "wanted": "#1a9850",
    "relayed": "#d73027",
    "filtered": "#8c6bb1",
    "duplicate": "#e6ab02",
    "on its way in": "#555555",
}
SEED, LINKS_MAX = 5, 6
mpl.rcParams.update({"svg.hashsalt": "coterie", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9})


def crowd(clients: int, nodes: int, topics: int = 16, wanted: int = 3, published: int = 1) -> Workload:
    """Clients of four tastes, scattered over the nodes; each wants some of its taste's topics.

    One topic in `published` has an event a minute.
    """
    draw = np.random.default_rng(SEED)
    taste = np.arange(clients) % len(TASTES)
    per_taste = topics // len(TASTES)
    rows = [sorted((taste[one] * per_taste + draw.permutation(per_taste)[:wanted]).tolist()) for one in range(clients)]
    interests = Relation.from_rows(rows, topics)
    topic = np.arange(1, topics, published) if published > 1 else np.arange(topics)
    publisher = np.array([int(interests.transposed.row(one)[0]) for one in topic])
    attachment = np.arange(clients) if clients == nodes else draw.permutation(clients) % nodes
    return Workload(
        name="crowd",
        interests=interests,
        publications=Publications.of(publisher, topic, np.full(len(topic), 1 / SPAN_S)),
        attachment=attachment.astype(np.int32),
        node_count=nodes,
        modes=taste.astype(np.int32),
    )


@dataclass
class Shown:
    """A design, what it costs, and the copies of one event in a run of it."""

    name: str
    design: Design
    workload: Workload
    ledger: Ledger
    copies: list[tuple[int, int, str]]
    topic: int


def run(system_name: str, workload: Workload, topic: int = 1, **settings: object) -> Shown:
    system = system_named(system_name)
    parameters = system.configure(settings)
    design = system.plan(workload, parameters, SEED)
    trace: list[TraceEvent] = []
    simulate(system, parameters, design, workload, SEED, tracer=trace.append)
    return Shown(system_name, design, workload, price(design, workload), copies_of(trace, topic), topic)


def copies_of(trace: Sequence[TraceEvent], topic: int) -> list[tuple[int, int, str]]:
    """(from, to, what became of it) of the first event on a topic."""
    event = next(line.event for line in trace if line.what == "published" and line.topic == topic)
    mine = [line for line in trace if line.event == event]
    wanted = {line.node for line in mine if line.what == "delivered"}
    dropped = {line.node for line in mine if line.what == "discarded"}
    found: list[tuple[int, int, str]] = []
    for line in mine:
        if line.what == "sent" and line.traffic in ("event", "inbound"):
            became = "wanted" if line.peer in wanted else "filtered" if line.peer in dropped else "relayed"
            if line.traffic == "inbound":
                became = "on its way in"
            elif any(target == line.peer and before != "on its way in" for _, target, before in found):
                became = "duplicate"
            found.append((line.node, line.peer, became))
    return found


def places(design: Design) -> np.ndarray:
    """Nodes on a circle: where the ring has them, else by number."""
    positions = design.overlay.positions
    count = design.node_count
    rank = np.arange(count) if positions is None else np.argsort(np.argsort(positions))
    angle = np.pi / 2 - 2 * np.pi * rank / count
    return np.column_stack([np.cos(angle), np.sin(angle)])


def draw_links(axes: Axes, design: Design, at: np.ndarray) -> None:
    neighbours = design.overlay.undirected
    count = design.node_count
    if is_dense(design):
        return
    pairs = (
        [(a, b) for a in range(count) for b in range(a)]
        if design.overlay.is_complete
        else [(a, int(b)) for a in range(count) for b in neighbours.row(a) if b < a]
    )
    for a, b in pairs:
        axes.plot(*zip(at[a], at[b], strict=True), color="#cccccc", linewidth=0.6, zorder=1)


def is_dense(design: Design) -> bool:
    """More links than a picture can show."""
    return design.node_count > 12 and design.overlay.link_count > LINKS_MAX * design.node_count


def draw_copies(axes: Axes, shown: Shown, at: np.ndarray) -> None:
    for source, target, became in shown.copies:
        axes.annotate(
            "",
            at[target],
            at[source],
            zorder=3,
            arrowprops={
                "arrowstyle": "-|>",
                "color": COPIES[became],
                "linewidth": 1.6,
                "shrinkA": 6,
                "shrinkB": 6,
                "connectionstyle": "arc3,rad=0.08",
            },
        )


def draw_nodes(axes: Axes, shown: Shown, at: np.ndarray) -> None:
    """Peers are dots in the colour of their taste, filled if they want the topic; brokers have clients around them."""
    workload, node_of = shown.workload, shown.design.placement.node_of
    wants = {int(client) for client in workload.interests.transposed.row(shown.topic)}
    modes = workload.modes if workload.modes is not None else np.zeros(len(node_of), int)
    if workload.is_peer_network:
        for client, node in enumerate(node_of):
            colour = TASTES[modes[client]]
            axes.scatter(*at[node], s=90, facecolor=colour if client in wants else "white", edgecolor=colour, zorder=4)
        return
    for node in range(shown.design.node_count):
        axes.scatter(*at[node], s=170, marker="s", facecolor="white", edgecolor="black", zorder=4)
        axes.annotate(str(node), at[node], ha="center", va="center", zorder=5)
        guests = sorted(np.flatnonzero(node_of == node).tolist(), key=lambda client: modes[client])
        for index, client in enumerate(guests):
            angle = 2 * np.pi * index / max(len(guests), 1)
            spot = at[node] * 1.42 + 0.22 * np.array([np.cos(angle), np.sin(angle)])
            colour = TASTES[modes[client]]
            axes.scatter(*spot, s=22, facecolor=colour if client in wants else "white", edgecolor=colour, zorder=4)


def panel(axes: Axes, shown: Shown, title: str, says: str, has_copies: bool = True, has_links: bool = True) -> None:
    at = places(shown.design)
    if has_links:
        draw_links(axes, shown.design, at)
    if has_copies:
        draw_copies(axes, shown, at)
    draw_nodes(axes, shown, at)
    axes.set_title(title, fontsize=10, fontweight="bold")
    axes.text(0.5, -0.04, says, transform=axes.transAxes, ha="center", va="top", fontsize=8)
    reach = 1.2 if shown.workload.is_peer_network else 1.75
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.axis("off")


def bill(shown: Shown) -> str:
    """The numbers below a panel: of all topics, not only of the one that is drawn."""
    ledger, events = shown.ledger, float(shown.workload.publications.rate.sum())
    copies = ledger.dissemination
    per_event = copies.copies / events
    wasted = (copies.relayed + copies.filtered + copies.duplicate) / events
    return (
        f"{ledger.state.links:,.0f} links{' (too many to draw)' if is_dense(shown.design) else ''}, "
        f"{ledger.state.trees:,.0f} {'channel' if ledger.state.trees == 1 else 'channels'}\n"
        f"{per_event:.1f} copies per event, {wasted:.1f} of them wasted\n"
        f"{ledger.maintenance.upkeep * 60:,.0f} heartbeats a minute, {ledger.delay.hops.mean:.1f} hops"
    )


def legend(figure: mpl.figure.Figure, kinds: Sequence[str]) -> None:
    lines = [Line2D([], [], color=COPIES[kind], linewidth=2, label=f"copy, {kind}") for kind in COPIES if kind in kinds]
    lines.append(Line2D([], [], color="#cccccc", label="link"))
    figure.legend(handles=lines, loc="lower center", ncols=len(lines), frameon=False, fontsize=8)


def save(figure: mpl.figure.Figure, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    path = PICTURES / f"{name}.svg"
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def side_by_side(name: str, panels: Sequence[tuple[Shown, str]]) -> None:
    figure, axes = plt.subplots(1, len(panels), figsize=(3.9 * len(panels), 4.6))
    for one, (shown, title) in zip(axes, panels, strict=True):
        panel(one, shown, title, bill(shown))
    legend(figure, {became for shown, _ in panels for _, _, became in shown.copies})
    figure.subplots_adjust(bottom=0.24, wspace=0.05)
    save(figure, name)


def draw_channels(axes: Axes, shown: Shown) -> None:
    """A box for each channel, in it a dot for each topic, in the colour of the taste that wants it."""
    channels, topics = shown.design.channels.topics, shown.workload.topic_count
    per_taste = topics // len(TASTES)
    width = int(np.ceil(np.sqrt(topics)))
    for channel in range(min(channels.row_count, topics)):
        for index, topic in enumerate(channels.row(channel).tolist()):
            spot = (
                (channel % width * 1.2, -(channel // width) * 1.2) if channels.row_count > 1 else divmod(index, width)
            )
            axes.scatter(*spot, s=60, color=TASTES[topic // per_taste], zorder=3)
    axes.set_title("2 channels", fontsize=10, fontweight="bold")
    says = f"{topics} topics in {channels.row_count} {'channel' if channels.row_count == 1 else 'channels'}"
    axes.text(0.5, -0.04, says, transform=axes.transAxes, ha="center", va="top", fontsize=8)
    axes.margins(0.5)
    axes.set(aspect="equal", xticks=[], yticks=[])


def four_columns() -> None:
    """One design from left to right: where clients sit, what a channel carries, who is linked, where an event goes."""
    workload = crowd(48, 6)
    before, after = run("mesh", workload), run("coterie", workload)
    figure, axes = plt.subplots(1, 5, figsize=(15, 4.2))
    panel(axes[0], before, "what you have: a mesh", bill(before))
    panel(axes[1], after, "1 placement", "clients at a broker where\ntheir topics already are", False, False)
    draw_channels(axes[2], after)
    panel(
        axes[3],
        after,
        "3 overlay",
        f"{after.ledger.state.links:,.0f} links instead of {before.ledger.state.links:,.0f}",
        False,
    )
    panel(axes[4], after, "4 trees", bill(after))
    legend(figure, {became for shown in (before, after) for _, _, became in shown.copies})
    figure.subplots_adjust(bottom=0.24, wspace=0.05)
    save(figure, "four-columns")


def main() -> None:
    four_columns()
    small = {"leaves": 4, "digit_bits": 1}
    many = crowd(40, 40, topics=64, wanted=14, published=16)
    scribe, tamara = run("scribe", many, **small), run("tamara", many, **small)
    side_by_side(
        "tamara", [(scribe, "Scribe: a tree for each topic"), (tamara, "Tamara: topics that go together share one")]
    )
    peers = crowd(64, 64)
    uniform, magnet = run("magnet-uniform", peers), run("magnet", peers)
    side_by_side("magnet", [(uniform, "a ring in no order"), (magnet, "Magnet: the ring ordered by interest")])
    mesh, spidercast = run("mesh", peers), run("spidercast", peers)
    side_by_side(
        "spidercast", [(mesh, "a mesh: links to everybody"), (spidercast, "SpiderCast: few links, topics connected")]
    )
    content, coterie = run("content", peers), run("coterie", peers)
    side_by_side(
        "content", [(content, "content trees: few trees, filtered on the way"), (coterie, "Coterie among peers")]
    )
    brokers = crowd(48, 6)
    placing = [
        (run("mesh", brokers), "a mesh, clients anywhere"),
        (run("dynatops", brokers), "DYNATOPS: alike clients together"),
    ]
    side_by_side("dynatops", [*placing, (run("coterie", brokers), "Coterie")])


if __name__ == "__main__":
    main()
