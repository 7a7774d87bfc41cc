"""Decides after a window whether the network should change: DYNATOPS, Algorithm 2, for the designs of any system.

The cost of a configuration is its whole bill (messages per second) over the coming free period. Step 2 asks whether
that is worth a computation at all, step 3 plans with every candidate system, and a new plan is published only if it
saves more over the free period than the change itself costs. A decision is known by its window: asking again after a
crash finds what was published and publishes nothing new.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from coterie.accounting.price import price
from coterie.errors import ConfigError, CoterieError
from coterie.model import Design, Ledger
from coterie.model.store import load_design, load_workload, save_design, save_workload
from coterie.pipeline.features import BETA
from coterie.pipeline.forecasts import Forecast, forecast
from coterie.pipeline.planning import Candidate, Priced, cheapest, design_file, is_whole
from coterie.pipeline.progress import Progress
from coterie.pipeline.tasks import run_tasks
from coterie.pipeline.views import StreamView
from coterie.plans.fitting import brought_over
from coterie.plans.plan import DESIGN, PlanFacts
from coterie.plans.store import PlanStore
from coterie.protocol.system import System

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORECAST = "forecast.npz"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one window, and why. Costs are messages over the free period."""

    window: int
    end_s: float
    is_published: bool
    reason: str
    plan: int | None = None  # the plan that is current now
    system: str = ""  # of the plan that was published, or of the best one that was not
    cost_now: float | None = None  # of the plan that was current before
    cost_new: float | None = None
    benefit: float | None = None
    change_cost: float | None = None
    threshold: float | None = None  # of the reconfigurability test
    topics: int = 0
    subscribers: int = 0
    nodes: int = 0
    period_s: float = 0.0  # the free period that all costs are for


@dataclass(frozen=True)
class DecisionRules:
    """What decides; `systems` is every system a current plan may have been made by."""

    candidates: Sequence[Candidate]
    systems: Mapping[str, System]
    beta: float = BETA
    windows_per_period: int = 10  # the free period
    seed: int = 1

    def __post_init__(self) -> None:
        if self.beta < 0:
            raise ConfigError("beta", self.beta, "0 or more")
        if self.windows_per_period < 1:
            raise ConfigError("period", self.windows_per_period, "at least one window")
        if not self.candidates:
            raise ConfigError("system", "", "at least one system")

    def is_due(self, window: int, progress: Progress) -> bool:
        """At the end of every free period in which something happened; at once as long as there is no plan."""
        return progress.has_news and ((window + 1) % self.windows_per_period == 0 or progress.plan is None)


def change_cost(node_count: int, topic_count: int, changed_nodes: int, moved_subscriptions: int = 0) -> float:
    """Section 5.1.2: |V| + (log2^2 |V| + |P| log2 |V|) x Gamma, and what moved subscribers have to say again."""
    if not changed_nodes and not moved_subscriptions:
        return 0.0
    hops = log2(max(node_count, 2))
    return node_count + (hops * hops + topic_count * hops) * changed_nodes + moved_subscriptions


def difference(before: Design, after: Design, onto: Forecast) -> tuple[int, int]:
    """Gamma: nodes with other links, another position or other channels; and subscriptions of moved subscribers."""
    count = after.node_count
    moved = before.placement.node_of != after.placement.node_of
    subscriptions = int(onto.workload.interests.lengths[moved].sum())
    if before.system != after.system or before.overlay.is_complete != after.overlay.is_complete:
        return count, subscriptions
    changed = np.zeros(count, bool)
    old, new = before.overlay, after.overlay
    if old.positions is not None and new.positions is not None:
        changed |= old.positions != new.positions
    for node in range(count):
        changed[node] |= not np.array_equal(old.links.row(node), new.links.row(node))
    for one, other in ((before, after), (after, before)):
        known = {other.channels.topics.row(row).tobytes() for row in range(other.channels.count)}
        for row in range(min(one.channels.count, one.trees.members.row_count)):  # content trees regroup when adopted
            if one.channels.topics.row(row).tobytes() not in known:
                changed[one.trees.members.row(row)] = True
    return int(changed.sum()), subscriptions


class Reconfigurer:
    """Decides and publishes; keeps nothing between windows but what is on disk."""

    def __init__(self, spark: SparkSession, rules: DecisionRules, store: PlanStore, work: Path) -> None:
        self.spark = spark
        self.rules = rules
        self.store = store
        self.work = work

    def decide(self, view: StreamView, plan: int | None) -> Decision:
        """After a window, with the plan that its stream had published before."""
        window, end_s = view.window, (view.window + 1) * view.window_s
        stream = f"watch/{view.window_s:g}/{view.alpha:g}/"
        key = f"{stream}{window}"
        repeated = self._already_published(key)
        if repeated is not None:
            return repeated
        version = self._plan_before(stream, window, plan)
        expected = forecast(view)
        if expected is None:
            reason = "nobody wants anything yet"
            return Decision(window=window, end_s=end_s, is_published=False, reason=reason, plan=version)
        sizes = {
            "window": window,
            "end_s": end_s,
            "topics": len(expected.topics),
            "subscribers": expected.workload.subscriber_count,
            "nodes": len(expected.nodes),
            "period_s": self.rules.windows_per_period * view.window_s,
        }
        now = "there is no plan yet" if version is None else self._current(version, expected)
        return self._weigh(expected, version, now, key, sizes)

    def _weigh(
        self, expected: Forecast, version: int | None, now: tuple[Design, Ledger] | str, key: str, sizes: dict[str, Any]
    ) -> Decision:
        """Steps 2 and 3 of Algorithm 2; `now` is the current design with its bill, or why there is none to keep."""
        period_s, nodes, topics = sizes["period_s"], len(expected.nodes), len(expected.topics)
        facts: dict[str, Any] = {}
        if not isinstance(now, str):
            facts["cost_now"] = now[1].overall * period_s
            facts["threshold"] = self.rules.beta * change_cost(nodes, topics, nodes)
            if facts["cost_now"] <= facts["threshold"]:
                reason = "the current plan costs too little to look for another"
                return Decision(**sizes, is_published=False, reason=reason, plan=version, **facts)
        best = cheapest(self._planned(expected), column="overall")
        if best is None or best.later is None:
            reason = "no system can serve everybody"
            return Decision(**sizes, is_published=False, reason=reason, plan=version, **facts)
        facts |= {"system": best.system, "cost_new": best.later.overall * period_s}
        if isinstance(now, str):
            return self._publish(expected, best, key, Decision(**sizes, is_published=True, reason=now, **facts))
        design = load_design(design_file(self.work, best.system))
        facts["benefit"] = facts["cost_now"] - facts["cost_new"]
        facts["change_cost"] = change_cost(nodes, topics, *difference(now[0], design, expected))
        if not facts["change_cost"]:
            reason = "the best new plan is the current one"
            return Decision(**sizes, is_published=False, reason=reason, plan=version, **facts)
        if facts["benefit"] <= facts["change_cost"]:
            is_cheaper = facts["benefit"] > 0
            reason = "the change would cost more than it saves" if is_cheaper else "no new plan is cheaper"
            return Decision(**sizes, is_published=False, reason=reason, plan=version, **facts)
        reason = "the change saves more than it costs"
        return self._publish(expected, best, key, Decision(**sizes, is_published=True, reason=reason, **facts))

    def _publish(self, expected: Forecast, best: Priced, key: str, decision: Decision) -> Decision:
        def write(folder: Path) -> None:
            (folder / DESIGN).write_bytes(design_file(self.work, best.system).read_bytes())
            expected.write_names(folder)

        told = {name: value for name, value in msgspec.to_builtins(decision).items() if name != "plan"}
        facts = PlanFacts(  # a later window has not happened yet
            system=best.system, input="journal", predicted=best.later, because=decision.reason, decision=told
        )
        return msgspec.structs.replace(decision, plan=self.store.publish(key, facts, write))

    def _already_published(self, key: str) -> Decision | None:
        """After a crash the same window is decided again: take up what was published for it."""
        version = self.store.find(key)
        if version is None:
            return None
        if version > (self.store.current() or 0):
            self.store.make_current(version)
        told = {**(self.store.facts(version).decision or {}), "plan": version}
        return msgspec.convert(told, Decision)

    def _plan_before(self, stream: str, window: int, plan: int | None) -> int | None:
        """The plan in force before this window's decision.

        After a crash the store may already hold plans of later windows: those do not count yet. If somebody else
        has published or gone back, that does.
        """
        current = self.store.current()
        if current is None or current == plan:
            return current
        key = self.store.facts(current).key
        is_mine = key.startswith(stream) and int(key.removeprefix(stream)) >= window
        return plan if is_mine else current

    def _current(self, version: int, expected: Forecast) -> tuple[Design, Ledger] | str:
        """The current design under the expected workload, with its bill; or why it cannot be kept."""
        plan = self.store.load(version)
        system = self.rules.systems.get(plan.system)
        if system is None:
            return f"the current plan is of system {plan.system}, which is not known here"
        moved = brought_over(plan, expected.named)
        if isinstance(moved, str):
            return f"the current {moved.removeprefix('the ')}"
        try:
            adopted = system.adopt(moved, expected.workload, system.configure(plan.settings), self.rules.seed)
            bill = price(adopted, expected.workload)
        except CoterieError as error:
            return f"the current plan does not fit any more ({error})"
        if not is_whole(bill):
            return f"the current plan would lose {bill.loss.lost:g} deliveries per second"
        return adopted, bill

    def _planned(self, expected: Forecast) -> list[Priced]:
        """A design and its bill from every candidate; one Spark task each."""
        self.work.mkdir(parents=True, exist_ok=True)
        save_workload(expected.workload, self.work / FORECAST)
        work = _planner((self.work / FORECAST).read_bytes(), self.rules.seed)
        table = run_tasks(self.spark, list(self.rules.candidates), work, "priced binary, design binary")
        found = [msgspec.json.decode(entry, type=Priced) for entry in table["priced"].to_pylist()]
        for priced, design in zip(found, table["design"], strict=True):
            if design.is_valid:
                design_file(self.work, priced.system).write_bytes(design.as_buffer())
        return found


def _planner(expected: bytes, seed: int) -> Callable[[Candidate], pa.Table]:
    """Workload and designs travel with the tasks: what is watched is small, and disks need not be shared."""

    def work(candidate: Candidate) -> pa.Table:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / FORECAST).write_bytes(expected)
            priced = plan_one(candidate, folder, seed)
            path = design_file(folder, priced.system)
            design = path.read_bytes() if path.exists() else None
        told = pa.array([msgspec.json.encode(priced)], pa.binary())
        return pa.table({"priced": told, "design": pa.array([design], pa.binary())})

    return work


def plan_one(candidate: Candidate, folder: Path, seed: int) -> Priced:
    """Plan for the expected workload and price it there; the only window a forecast has counts as the later one."""
    system, workload = candidate.system, load_workload(folder / FORECAST)
    if not system.fits(workload):
        return Priced(system.name, problem="it cannot serve a workload of this kind")
    try:
        design = system.plan(workload, candidate.parameters, seed)
        bill = price(design, workload)
    except CoterieError as error:
        return Priced(system.name, problem=str(error))
    save_design(design, design_file(folder, system.name))
    return Priced(system.name, learn=bill, later=bill)
