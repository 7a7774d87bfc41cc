"""Tamara's bulk form: users, topics and clusters as arrays, changed operation by operation by compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.clusters import state as tamara_state
from coterie.kernels.clusters import tamara
from coterie.kernels.clusters.greedycover import settle_users
from coterie.model import Change, Relation, Timeline
from coterie.systems.tamara.costs import SIMPLE, CostFunctions
from coterie.systems.tamara.parameters import TamaraParameters

CELLS_MAX = 250_000_000  # users x topics: what the arrays of the bulk form may span; what is touched is far less
PAIRS_MAX = 2_000_000  # subscriptions: where everybody wants nearly everything, time grows with their square
_TOPICS_WITH_ROOM = 10_000  # up to here clusters may be twice as many as topics, beyond half as many


@dataclass(frozen=True, eq=False)
class History:
    """Costs per interval after some numbers of operations; `plain` is what Scribe alone would pay."""

    operations: NDArray[np.int64]
    plain_maintenance: NDArray[np.float64]
    plain_dissemination: NDArray[np.float64]
    maintenance: NDArray[np.float64]  # MC
    dissemination: NDArray[np.float64]  # DC
    messages: NDArray[np.float64]  # beyond MC and DC, so far: joining, surveys, cluster updates

    @property
    def plain(self) -> NDArray[np.float64]:
        return self.plain_maintenance + self.plain_dissemination

    @property
    def overall(self) -> NDArray[np.float64]:
        """OC."""
        return self.maintenance + self.dissemination

    def overhead(self, intervals: float) -> NDArray[np.float64]:
        """Messages beyond OC per interval, if the operations took so many intervals in all (Tamara+ minus Tamara)."""
        share = np.diff(self.operations, prepend=0) / max(int(self.operations[-1]), 1)
        spent = np.diff(self.messages, prepend=0.0)
        return np.divide(spent, share * intervals, out=np.zeros_like(spent), where=share > 0)


class TopicClusters:
    """The whole system's state. `apply` runs operations; everything else reads."""

    def __init__(
        self,
        user_count: int,
        rate: NDArray[np.float64],
        parameters: TamaraParameters | None = None,
        functions: CostFunctions = SIMPLE,
        seed: int = 0,
        is_audited: bool = False,
    ) -> None:
        if user_count * len(rate) > CELLS_MAX:
            raise ConfigError(
                "workload", f"{user_count} x {len(rate)}", f"at most {CELLS_MAX} users x topics; use the planner"
            )
        chosen = parameters or TamaraParameters()
        room = 2 * max(len(rate), 1) if len(rate) <= _TOPICS_WITH_ROOM else len(rate) // 2
        clusters = min(chosen.clusters_max, room)
        self.state = tamara_state.empty_state(user_count, len(rate), clusters, rate)
        self.costs = functions.tables(user_count, len(rate))
        self.rules = tamara.Triggers(
            chosen.confidence, chosen.survey_size, chosen.survey_share, chosen.is_adaptive, is_audited
        )
        self._draw = np.random.default_rng(seed)

    @property
    def topic_count(self) -> int:
        return len(self.state.rate)

    def start_with(self, interests: Relation, clusters: Relation) -> None:
        """Into an empty system: these clusters and users, each covered greedily (section 5.2, "match perfectly")."""
        assert not self.state.interest.any(), "the system is not empty"
        state = self.state
        state.interest[interests.rows, interests.columns] = 1
        state.wanting[:] = np.bincount(interests.columns, minlength=self.topic_count)
        settle_users(state, self.costs, clusters.indptr, clusters.columns)
        state.counts[:] = 0
        state.moves[:] = 0

    def apply(
        self, change: NDArray[np.uint8], who: NDArray[np.int32], what: NDArray[np.int32], samples: int = 1
    ) -> History:
        """Run the operations in order; the history has `samples` rows, the last one at the end."""
        about_topics = change <= Change.UNSUBSCRIBE
        is_leaving = (change[about_topics] == Change.UNSUBSCRIBE).astype(np.uint8)
        at = np.linspace(0, len(is_leaving), samples + 1)[1:].astype(np.int64)
        table = np.zeros((samples, 5))
        tamara.run_operations(
            self.state,
            self.costs,
            self.rules,
            is_leaving,
            np.ascontiguousarray(who[about_topics], np.int32),
            np.ascontiguousarray(what[about_topics], np.int32),
            at,
            table,
            self._draw,
        )
        return History(at, *table.T)

    def follow(self, timeline: Timeline, samples: int = 1) -> History:
        return self.apply(timeline.change, timeline.who, timeline.what, samples)

    # --- what there is ---

    @property
    def maintenance(self) -> float:
        return tamara_state.maintenance_cost(self.state, self.costs)

    @property
    def dissemination(self) -> float:
        return tamara_state.dissemination_cost(self.state, self.costs)

    @property
    def overall(self) -> float:
        return self.maintenance + self.dissemination

    def clusters(self) -> Relation:
        """Cluster -> topics, those in use, in the order of `memberships`' columns."""
        state = self.state
        rows = [state.topics[cluster, : state.topic_count[cluster]].tolist() for cluster in self._used()]
        return Relation.from_rows(rows, self.topic_count)

    def memberships(self) -> Relation:
        """User -> clusters."""
        is_member = self.state.place[:, self.topic_count + self._used()] > 0
        rows, columns = np.nonzero(is_member)
        return Relation.from_pairs(rows, columns, *is_member.shape)

    def direct(self) -> Relation:
        """User -> topics it is subscribed to directly."""
        rows, columns = np.nonzero(self.state.place[:, : self.topic_count] > 0)
        return Relation.from_pairs(rows, columns, len(self.state.interest), self.topic_count)

    def counts(self) -> dict[str, int]:
        """Messages beyond OC by reason and how often each thing was done, since the start."""
        names = "joins notices surveyed proposals informed tosses surveys created added removed merged destroyed"
        return dict(zip(f"{names} audited raised".split(), self.state.counts.tolist(), strict=True))

    def check(self) -> None:
        """The coverage invariant of section 2 and the consistency of the arrays; AssertionError where one is broken."""
        state = self.state
        is_member = state.place[:, self.topic_count :] > 0
        carried = is_member.astype(np.int32) @ state.inside.T.astype(np.int32)
        is_direct = state.place[:, : self.topic_count] > 0
        assert np.array_equal(carried, state.cover), "cover counts are off"
        assert not (is_direct & (carried > 0)).any(), "a direct subscription is covered by a cluster"
        assert np.array_equal(is_direct | (carried > 0), is_direct | (state.cover > 0))
        assert np.array_equal(state.interest == 1, is_direct | ((carried > 0) & (state.interest == 1)))
        assert np.array_equal((state.place > 0).sum(axis=0), state.size), "sizes are off"

    def _used(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.state.topic_count > 0)
