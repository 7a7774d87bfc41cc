"""Debian's packages in place of the logs of Tamara, section 5.3: install sets as closures, updates as events."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs.nearby import closures
from coterie.model import Change, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, in_time_order
from coterie.workloads.parameters import (
    CHANGES,
    INT32_MAX,
    INTERESTS,
    MODES,
    PUBLICATIONS,
    RATE_MODELS,
    WorkloadParameters,
    above,
    at_least,
    stream,
    within,
)
from coterie.workloads.popularity import draw_modal_interests, zipf
from coterie.workloads.rates import publishers_of, settled, topic_rates
from coterie.workloads.recorded import attach_people
from coterie.workloads.traces import trace_table, trace_text

DAY_S = 86_400.0
HISTORY_END_S = 1_672_531_200  # the upload log is dense until the start of 2023


class Debian(WorkloadParameters, frozen=True, kw_only=True):
    """A user chooses packages, mostly from favourite sections, and gets all they depend on."""

    rate_models: ClassVar[tuple[str, ...]] = ("measured", *RATE_MODELS)

    rates: str = "measured"  # uploads of the package's source per interval, or a model: constant, power-law ...
    interval_s: float = 2 * 3600.0  # M of Figure 9: 2, 12 or 24 hours
    history_s: float = 6 * 365 * DAY_S  # years of uploads that rates are taken from
    nodes: int = 0  # brokers; 0: every user is a node
    subscribers: int = 1000  # how many users
    topics: int = 3000  # the packages installed most; 0: all that are installed by anyone
    choices: int = 10  # packages a user picks; what they need comes along
    sections: int = 2  # sections of the archive a user picks from
    exponent: float = 1.0  # Zipf of the popularity of packages inside a section
    duration_s: float = 365 * DAY_S  # in which the users arrive

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("interval_s", "history_s", "duration_s"):
            above(key, getattr(self, key), 0)
        within("nodes", self.nodes, 0, INT32_MAX)
        within("topics", self.topics, 0, INT32_MAX)
        within("subscribers", self.subscribers, 1, INT32_MAX)
        within("choices", self.choices, 1, 1000)
        within("sections", self.sections, 1, 58)
        at_least("exponent", self.exponent, 0)


def debian(parameters: Debian, seed: int) -> Workload:
    """`modes` of the workload: one of the favourite sections of a user."""
    packages = trace_table("debian12_packages.csv.gz", ("id", "section"))
    installed, favourite = _installations(parameters, packages["section"].astype(np.int64), seed)
    popularity = np.bincount(installed.columns, minlength=installed.column_count)
    wanted = np.count_nonzero(popularity)
    kept = np.sort(np.argsort(-popularity, kind="stable")[: min(parameters.topics or wanted, wanted)])
    number = np.full(installed.column_count, -1)
    number[kept] = np.arange(len(kept))
    inside = number[installed.columns] >= 0
    interests = Relation.from_pairs(
        installed.rows[inside], number[installed.columns[inside]], parameters.subscribers, len(kept)
    )
    draw = stream(seed, PUBLICATIONS)
    return Workload(
        name="debian",
        interests=interests,
        publications=publishers_of(draw, interests, _rates(draw, parameters, kept, interests), parameters.publishers),
        attachment=attach_people(parameters.nodes, parameters.subscribers, seed),
        node_count=parameters.nodes or parameters.subscribers,
        modes=favourite,
    )


def arrivals(parameters: Debian, seed: int) -> Timeline:
    """From an empty system: users join one after the other, each with all its packages at once (section 5.3)."""
    goal = debian(parameters, seed)
    wanted = goal.interests
    joins_s = settled(stream(seed, CHANGES).random(wanted.row_count) * parameters.duration_s)
    start = replace(goal, interests=Relation.empty(wanted.row_count, wanted.column_count))
    return in_time_order(start, [Changes.of(joins_s[wanted.rows], Change.SUBSCRIBE, wanted.rows, wanted.columns)])


def _installations(parameters: Debian, section: NDArray[np.int64], seed: int) -> tuple[Relation, NDArray[np.int32]]:
    """(user -> packages, a favourite section of each user); who is popular inside a section is random."""
    draw, users, count = stream(seed, INTERESTS), parameters.subscribers, len(section)
    sizes = np.bincount(section)
    large = np.flatnonzero(sizes >= parameters.choices)  # small sections have too little to choose from
    within("sections", parameters.sections, 1, len(large))
    by_section = np.argsort(section + draw.random(count) * 0.5, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lottery = stream(seed, MODES).random((users, len(large))) ** (1 / sizes[large])  # weighted by size, without repeats
    favourites = large[np.argsort(-lottery, axis=1)[:, : parameters.sections]].astype(np.int32)
    per_user = np.full(users, parameters.choices, np.int64)
    weights = zipf(int(sizes.max()), parameters.exponent)
    chosen = draw_modal_interests(draw, weights, per_user, favourites, bounds)
    depends = trace_table("debian12_depends.csv.gz", ("package_id", "depends_on_id"))
    needs = Relation.from_pairs(depends["package_id"], depends["depends_on_id"], count, count)
    picks = by_section[chosen.columns].astype(np.int32)
    indptr, columns = closures(needs.indptr, needs.columns, chosen.indptr, picks)
    rows = np.repeat(np.arange(users), np.diff(indptr))
    return Relation.from_pairs(rows, columns, users, count), favourites[:, 0].copy()


def _rates(
    draw: np.random.Generator, parameters: Debian, packages: NDArray[np.int64], interests: Relation
) -> NDArray[np.float64]:
    """Uploads of each package's source per interval; a source outside the log gets the rate of a random one inside."""
    if parameters.rates != "measured":
        return topic_rates(draw, parameters, np.bincount(interests.columns, minlength=len(packages)))
    uploads = trace_table("debian12_uploads.csv.gz", ("unix_time",))["unix_time"].astype(np.float64)
    recent = (uploads > HISTORY_END_S - parameters.history_s) & (uploads <= HISTORY_END_S)
    counts: dict[str, int] = {}
    for source, is_recent in zip(trace_text("debian12_uploads.csv.gz", "source"), recent.tolist(), strict=True):
        counts[source] = counts.get(source, 0) + is_recent
    measured = np.array(list(counts.values()))
    names = trace_text("debian12_packages.csv.gz", "source")
    drawn = draw.choice(measured, size=len(names))
    of_source: dict[str, int] = {}
    for at, source in enumerate(names):
        of_source.setdefault(source, counts.get(source, int(drawn[at])))
    uploads_each = np.array([of_source[names[package]] for package in packages.tolist()], np.float64)
    rates = settled(uploads_each * parameters.interval_s / parameters.history_s)
    return np.maximum(1.0, np.rint(rates)) if parameters.whole_rates else rates
