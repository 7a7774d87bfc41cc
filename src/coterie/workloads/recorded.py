"""Recorded demand as workloads: Wikipedia edits of a month and of a day, and CiteULike's readers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.model import Change, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, in_time_order
from coterie.workloads.parameters import (
    ATTACHMENT,
    INT32_MAX,
    INTERESTS,
    PUBLICATIONS,
    RATE_MODELS,
    WorkloadParameters,
    above,
    one_of,
    stream,
    within,
)
from coterie.workloads.rates import publishers_of, settled, topic_rates
from coterie.workloads.traces import trace_table

DAY_S = 86_400.0
Longs = NDArray[np.int64]


class Recorded(WorkloadParameters, frozen=True, kw_only=True):
    """Which part of a trace to take, and on how many nodes."""

    rate_models: ClassVar[tuple[str, ...]] = ("measured", *RATE_MODELS)

    rates: str = "measured"  # events of a topic in the trace per interval, or a model: constant, power-law ...
    interval_s: float = DAY_S  # rates are events per so many seconds
    nodes: int = 0  # brokers, people at nodes drawn evenly; 0: everybody is a node
    topics: int = 0  # how many topics of the trace; 0: all
    subscribers: int = 0  # people, drawn evenly from the trace; 0: all
    selection: str = "popular"  # of topics: the most popular, or random (Magnet section 4.5: 3,000 random pages)

    def __post_init__(self) -> None:
        super().__post_init__()
        above("interval_s", self.interval_s, 0)
        for key in ("nodes", "topics", "subscribers"):
            within(key, getattr(self, key), 0, INT32_MAX)
        one_of("selection", self.selection, ("popular", "random"))


class Wiki(Recorded, frozen=True, kw_only=True):
    """Edits of one month on 1,000 pages: who edits a page wants it, every edit is an event."""


class Wiki24h(Recorded, frozen=True, kw_only=True):
    """Edits of one day in 51 languages."""

    is_with_robots: bool = True  # whether edits by robots count


class Citeulike(Recorded, frozen=True, kw_only=True):
    """Readers and the articles they keep; nothing is recorded about how often articles change."""

    rates: str = "constant"


@dataclass(frozen=True, eq=False)
class Events:
    """Who did something about what when."""

    who: Longs
    what: Longs
    time_s: NDArray[np.float64]  # from the first event on


def wiki_events() -> Events:
    table = trace_table("wiki_edits_1month.csv.gz", ("user", "page", "t_seconds"))
    return _events(table["user"], table["page"], table["t_seconds"])


def wiki24h_events(is_with_robots: bool) -> Events:
    table = trace_table("wiki_edits_24h_multilang.csv.gz", ("unix_time", "channel", "user", "page", "robot"))
    kept = np.ones(len(table["user"]), bool) if is_with_robots else table["robot"] == 0
    pages = int(table["page"].max()) + 1  # the same title in two languages is two pages
    page = table["channel"].astype(np.int64) * pages + table["page"].astype(np.int64)
    return _events(table["user"][kept], page[kept], table["unix_time"][kept])


def wiki(parameters: Wiki, seed: int) -> Workload:
    return _workload("wiki", parameters, _selected(parameters, wiki_events(), seed), seed)


def wiki24h(parameters: Wiki24h, seed: int) -> Workload:
    return _workload(
        "wiki24h", parameters, _selected(parameters, wiki24h_events(parameters.is_with_robots), seed), seed
    )


def citeulike(parameters: Citeulike, seed: int) -> Workload:
    table = trace_table("citeulike_t_user_item.csv.gz", ("user", "item"))
    events = _events(table["user"], table["item"], np.zeros(len(table["user"])))
    return _workload("citeulike", parameters, _selected(parameters, events, seed), seed)


def wiki_edits(parameters: Wiki, seed: int) -> Timeline:
    """People subscribe to a page with their first edit of it."""
    return _as_it_happened(wiki(parameters, seed), _selected(parameters, wiki_events(), seed))


def wiki24h_edits(parameters: Wiki24h, seed: int) -> Timeline:
    events = _selected(parameters, wiki24h_events(parameters.is_with_robots), seed)
    return _as_it_happened(wiki24h(parameters, seed), events)


def _events(who: NDArray[np.generic], what: NDArray[np.generic], time_s: NDArray[np.generic]) -> Events:
    """Densely numbered, in time order."""
    time = time_s.astype(np.float64)
    order = np.argsort(time, kind="stable")
    subject, target = (np.unique(column, return_inverse=True)[1][order] for column in (who, what))
    return Events(subject.astype(np.int64), target.astype(np.int64), time[order] - time.min())


def _selected(parameters: Recorded, events: Events, seed: int) -> Events:
    """The people and topics asked for; people whom the topics leave without interest go, before people are drawn."""
    draw = stream(seed, INTERESTS)
    kept = np.ones(len(events.who), bool)
    if parameters.topics:
        topics = int(events.what.max()) + 1
        within("topics", parameters.topics, 1, topics)
        pairs = np.unique(events.who * topics + events.what, return_index=True)[1]
        popularity = np.bincount(events.what[pairs], minlength=topics)
        order = (
            np.argsort(-popularity, kind="stable") if parameters.selection == "popular" else draw.permutation(topics)
        )
        kept &= np.isin(events.what, order[: parameters.topics])
    if parameters.subscribers:
        people = np.unique(events.who[kept], return_index=True)[0]
        within("subscribers", parameters.subscribers, 1, len(people))
        kept &= np.isin(events.who, draw.permutation(people)[: parameters.subscribers])
    return _events(events.who[kept], events.what[kept], events.time_s[kept])


def _workload(name: str, parameters: Recorded, events: Events, seed: int) -> Workload:
    people, topics = int(events.who.max()) + 1, int(events.what.max()) + 1
    interests = Relation.from_pairs(events.who, events.what, people, topics)
    draw = stream(seed, PUBLICATIONS)
    if parameters.rates == "measured":
        intervals = max(events.time_s[-1] / parameters.interval_s, 1.0)
        rates = settled(np.bincount(events.what, minlength=topics) / intervals)
        rates = np.maximum(1.0, np.rint(rates)) if parameters.whole_rates else rates
    else:
        rates = topic_rates(draw, parameters, np.bincount(interests.columns, minlength=topics))
    return Workload(
        name=name,
        interests=interests,
        publications=publishers_of(draw, interests, rates, parameters.publishers),
        attachment=attach_people(parameters.nodes, people, seed),
        node_count=parameters.nodes or people,
    )


def attach_people(nodes: int, people: int, seed: int) -> NDArray[np.int32]:
    if not nodes:
        return np.arange(people, dtype=np.int32)
    return stream(seed, ATTACHMENT).integers(nodes, size=people, dtype=np.int32)


def _as_it_happened(workload: Workload, events: Events) -> Timeline:
    interests = workload.interests
    first = np.unique(events.who * interests.column_count + events.what, return_index=True)[1]
    start = replace(workload, interests=Relation.empty(interests.row_count, interests.column_count))
    subscribed = Changes.of(events.time_s[first], Change.SUBSCRIBE, events.who[first], events.what[first])
    return in_time_order(start, [subscribed])
