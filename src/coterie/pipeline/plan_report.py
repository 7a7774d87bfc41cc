"""What a plan does and why, for the report: its biggest channels, who moves, which links carry most."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.kernels.placement.limits import limits_of
from coterie.model import Design, Spread, Workload
from coterie.model.relation import Index
from coterie.model.store import load_design, load_workload
from coterie.pipeline import charts
from coterie.pipeline.brokers import read_brokers
from coterie.pipeline.interests import names_in
from coterie.pipeline.job import Outcome, only
from coterie.pipeline.page import PageSection, ReportTable, TableRow, figure
from coterie.pipeline.planning import LEARN, Priced, design_file
from coterie.pipeline.windows import CLIENTS, INTERESTS
from coterie.substrate.placing import DIMENSIONS, EVEN_ENOUGH, client_weights

SHOWN = 12
DAY_S = 86400.0
LINK_PAIRS_MAX = 50_000_000  # (link, topic) pairs looked at to find the busiest links of a flooded overlay


def plan_section(outcome: Outcome, chosen: Priced) -> PageSection:
    work = outcome.folder / "work"
    design = load_design(design_file(only(work / "designs"), chosen.system, chosen.placement))
    encoded = only(work / "workloads")
    learn = load_workload(encoded / LEARN)
    brokers = read_brokers(only(work / "tables"))
    clients = pq.read_table(encoded / INTERESTS / CLIENTS)["client"]
    names = Names(brokers.names if brokers is not None else clients if learn.is_peer_network else None)
    sizes = design.trees.members.lengths
    curve = charts.rank_curve(
        "Channels by number of members", {"channels": sizes.tolist()}, "channel, largest first", "member nodes"
    )
    tables = [_biggest_channels(design, learn, names_in(encoded / INTERESTS))]
    if moves := _moves(design, learn, names):
        tables.append(moves)
    if links := _busiest_links(design, learn, names):
        tables.append(links)
    told = [_summary(design, learn), _reason(design, learn)]
    if not learn.is_peer_network:
        told.append(balance(learn, design.placement.node_of, lambda client: str(clients[client].as_py())))
    return PageSection(f"What the plan does ({chosen.name})", told, [curve], tables)


def balance(learn: Workload, node_of: Index, name: Callable[[int], str]) -> str:
    """How even the plan is, and which single client makes the stated balance impossible."""
    weight = client_weights(learn)
    load = np.zeros((learn.node_count, len(DIMENSIONS)))
    np.add.at(load, node_of, weight)
    hottest = load.max(axis=0) / np.maximum(load.mean(axis=0), 1e-30)
    told = (
        f"The fullest broker has {hottest[0]:.2f} times the mean of connections (stated: at most "
        f"{1 + EVEN_ENOUGH.connections:.2f}) and {hottest[1]:.2f} times the mean of messages (stated: at most "
        f"{1 + EVEN_ENOUGH.messages:.2f})."
    )
    blamed = limits_of(weight, np.ones_like(load), EVEN_ENOUGH.by_dimension).heaviest
    if blamed is None:
        return told
    return (
        f"{told} More even is impossible: {name(blamed.client)} alone takes {blamed.weight:.3g} "
        f"{DIMENSIONS[blamed.dimension]}, and {blamed.limit:.3g} is the limit of a broker."
    )


class Names:
    """What a reader knows a node by: the broker's name, the peer's, else its number."""

    def __init__(self, names: pa.Array | pa.ChunkedArray | None) -> None:
        self._names = names

    def node(self, node: int) -> str:
        if self._names is None or node >= len(self._names):
            return f"node {node}"
        return str(self._names[node].as_py())


def _summary(design: Design, learn: Workload) -> str:
    degrees = design.overlay.degrees
    moved = int(np.count_nonzero(design.placement.node_of != learn.attachment))
    return (
        f"{design.channels.count:,} channels serve {learn.topic_count:,} topics; {moved:,} of "
        f"{learn.subscriber_count:,} clients move to another node; nodes keep {degrees.mean():.1f} links on "
        f"average and {int(degrees.max(initial=0)):,} at most."
    )


def _reason(design: Design, learn: Workload) -> str:
    """The two levers of any plan: fewer nodes that want an event, fewer structures to keep alive."""
    before, after = (
        float(learn.rates @ _audience(learn, node_of)) * DAY_S for node_of in (None, design.placement.node_of)
    )
    wanted = int(np.count_nonzero(np.bincount(learn.interests.columns, minlength=learn.topic_count)))
    told = f"The events of a day are wanted at {after:,.0f} nodes in all"
    if before != after:
        told += f", {before:,.0f} before subscribers moved"
    edges, links = len(design.trees.node), design.overlay.link_count
    structure = (
        f"{edges:,} tree edges run over {links:,} links" if edges else f"{links:,} links are all there is to keep"
    )
    return f"{told}. For {wanted:,} topics that somebody wants, {structure}."


def _audience(learn: Workload, node_of: NDArray[np.int32] | None) -> NDArray[np.int64]:
    """How many nodes want each topic."""
    return np.bincount(learn.node_interests(node_of).columns, minlength=learn.topic_count)


def _biggest_channels(design: Design, learn: Workload, names: pa.Array) -> ReportTable:
    sizes = design.trees.members.lengths
    rows: list[TableRow] = []
    for channel in np.argsort(-sizes, kind="stable").tolist():
        topics = design.channels.topics.row(channel)
        if len(topics) == 0 or sizes[channel] == 0 or len(rows) == SHOWN:
            continue
        listed = ", ".join(names[int(topic)].as_py() for topic in topics[:4]) + (" ..." if len(topics) > 4 else "")
        rows.append(
            TableRow([listed, f"{len(topics):,}", f"{sizes[channel]:,}", figure(learn.rates[topics].sum() * DAY_S)])
        )
    return ReportTable(["biggest channels: topics", "topics", "members", "events per day"], rows)


def _moves(design: Design, learn: Workload, names: Names) -> ReportTable | None:
    """The nodes most subscribers move to."""
    arrived = np.bincount(
        design.placement.node_of[design.placement.node_of != learn.attachment], minlength=learn.node_count
    )
    if not arrived.any():
        return None
    was = np.bincount(learn.attachment, minlength=learn.node_count)
    wanted = [learn.node_interests(node_of).lengths for node_of in (None, design.placement.node_of)]
    rows = [
        TableRow(
            [names.node(node)] + [f"{of[node]:,}" for of in (arrived, was, design.placement.load, wanted[0], wanted[1])]
        )
        for node in np.argsort(-arrived, kind="stable")[:SHOWN].tolist()
        if arrived[node]
    ]
    header = ["most arrivals: node", "arrive", "subscribers before", "after", "topics wanted before", "after"]
    return ReportTable(header, rows)


def _busiest_links(design: Design, learn: Workload, names: Names) -> ReportTable | None:
    """Links by the events of the channels that use them."""
    found = _flooded_links(design, learn) if design.trees.spread is Spread.FLOOD else _tree_links(design, learn)
    if found is None or len(found[0]) == 0:
        return None
    ends, channels, events = found
    rows = []
    for at in np.lexsort([ends[:, 1], ends[:, 0], -events])[:SHOWN].tolist():
        pair = [names.node(int(node)) for node in ends[at]]
        rows.append(TableRow([*pair, f"{channels[at]:,.0f}", figure(events[at] * DAY_S)]))
    header = ["busiest links: one end", "other end", "channels", "events per day of these"]
    return ReportTable(header, rows, (0, 1))


Links = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]  # ends, channels, events


def _tree_links(design: Design, learn: Workload) -> Links:
    trees, topics = design.trees, design.channels.topics
    rate = np.bincount(topics.rows, learn.rates[topics.columns], design.channels.count)
    low = np.minimum(trees.node, trees.parent).astype(np.int64)
    key, at = np.unique(low * design.node_count + np.maximum(trees.node, trees.parent), return_inverse=True)
    events = np.bincount(at, np.repeat(rate, trees.edge_counts), len(key)).astype(np.float64)
    ends = np.column_stack(np.divmod(key, design.node_count))
    return ends, np.bincount(at, minlength=len(key)).astype(np.float64), events


def _flooded_links(design: Design, learn: Workload) -> Links | None:
    """A flooded link carries what both its ends want."""
    from scipy.sparse import csr_array

    links = design.overlay.undirected
    forward = links.rows < links.columns
    one, other = links.rows[forward].astype(np.int64), links.columns[forward].astype(np.int64)
    wanted = learn.node_interests(design.placement.node_of)
    if float(wanted.lengths[one].sum()) > LINK_PAIRS_MAX:
        return None
    ones = np.ones(wanted.pair_count)
    interests = csr_array((ones, wanted.columns, wanted.indptr), shape=(wanted.row_count, wanted.column_count))
    both = interests[one].multiply(interests[other]).tocsr()
    return np.column_stack([one, other]), np.asarray(both.sum(axis=1)).ravel(), both @ learn.rates
