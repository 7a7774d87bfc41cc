"""Interest-aware membership (section 3.4): a bounded sample of every topic's subscribers, and the topic's rate.

Sampling needs no tree of its own: whoever wants a topic reports to its next hop on the control ring towards the topic's
home, every round; whoever has been reported to mixes, truncates to k and reports in turn; and the home's sample goes
back the way the reports came. All events of a topic pass its home, so the home also knows its rate and tells that with
the sample: similarity is weighted by rates (section 2.1).
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Event, Timer
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import topic_key
from coterie.systems.group_multicast import HOPS_MAX
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.trees import TreeNode
from coterie.systems.magnet.walking import Met
from coterie.systems.magnet.wire import AskView, Sample, Subscriber, View

STALE_ROUNDS = 2.5  # reports older than this are forgotten
OLD_SHARE = 0.5  # of a measured rate that the next round keeps
LEAST_RATE = 1e-3  # a topic without events weighs this much


class Meter:
    """Events per interval on the topics that have their home here, newer rounds counting more."""

    def __init__(self) -> None:
        self._counts: dict[Topic, int] = {}
        self._rates: dict[Topic, float] = {}

    def count(self, topic: Topic) -> None:
        self._counts[topic] = self._counts.get(topic, 0) + 1

    def rate(self, topic: Topic) -> float:
        return self._rates.get(topic, 0.0)

    def end_round(self, rounds_per_interval: int) -> None:
        """What nobody has published on for long is forgotten."""
        fresh = {topic: count * rounds_per_interval for topic, count in self._counts.items()}
        mixed = {
            topic: OLD_SHARE * self._rates.get(topic, fresh.get(topic, 0.0)) + (1 - OLD_SHARE) * fresh.get(topic, 0.0)
            for topic in dict.fromkeys([*self._rates, *fresh])
        }
        self._rates = {topic: rate for topic, rate in mixed.items() if rate >= LEAST_RATE}
        self._counts = {}


class SamplingNode(TreeNode):
    """Knows a few who want what it wants."""

    def __init__(self, address: int, parameters: MagnetParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._parameters = parameters
        self._reports: dict[Topic, dict[int, tuple[float, tuple[Subscriber, ...]]]] = {}
        self._views: dict[Topic, tuple[Subscriber, ...]] = {}
        self._rates: dict[Topic, float] = {}  # of the topics we want, as their homes say
        self._meter = Meter()

    # --- similarity (section 2.1) ---

    def interest(self) -> tuple[Topic, ...]:
        return tuple(topic for topic, branch in self._groups.items() if branch.is_member)

    def weight_of(self, topic: Topic) -> float:
        if not self._parameters.is_rate_weighted:
            return 1.0
        return max(self._rates.get(topic, 0.0), LEAST_RATE)

    def profile(self) -> tuple[tuple[Topic, ...], float]:
        if self._choices == 1 and not self._parameters.sample_rounds:
            return (), 0.0
        interest = self.interest()
        return interest, sum(map(self.weight_of, interest))

    def similarity(self, interest: tuple[Topic, ...], weight: float) -> float:
        """To somebody who wants this and says that it weighs so much."""
        own, own_weight = self.profile()
        wanted = dict.fromkeys(own)
        both = sum(self.weight_of(topic) for topic in interest if topic in wanted)
        either = own_weight + weight - both
        return both / either if either > 0 else 0.0

    def worth(self, met: Met) -> float:
        return self.similarity(met.interest, met.weight)

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        super().on_start(slice)
        if self._parameters.sample_rounds:
            self.set_timer("sample", HEARTBEAT_S / self._parameters.sample_rounds)

    def on_unsubscribe(self, topic: Topic) -> None:
        super().on_unsubscribe(topic)
        self._views.pop(topic, None)
        self._rates.pop(topic, None)

    def on_timer(self, timer: Timer) -> None:
        if timer == "sample":
            self._report()
            self.set_timer("sample", HEARTBEAT_S / self._parameters.sample_rounds)
        else:
            super().on_timer(timer)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Sample):
            self._reports.setdefault(message.topic, {})[source] = (self.now_s, message.subscribers)
        elif isinstance(message, View):
            self._take_view(message)
        elif isinstance(message, AskView):
            self._on_ask_view(message)
        else:
            super().on_receive(source, message)

    def on_neighbour_lost(self, peer: int) -> None:
        for topic, view in self._views.items():
            self._views[topic] = tuple(it for it in view if it.node != peer)
        super().on_neighbour_lost(peer)

    def join_start(self, topic: Topic) -> int | None:
        others = [it.node for it in self._views.get(topic, ()) if it.node != self.address]
        return self.random.choice(others) if others else None

    def _towards_root(self, event: Event, hops: int) -> None:
        if self._parameters.sample_rounds and self.root_hop(topic_key(event.topic)) is None:
            self._meter.count(event.topic)
        super()._towards_root(event, hops)

    # --- sampling ---

    def _truncate(self, pool: dict[int, Subscriber]) -> tuple[Subscriber, ...]:
        everybody = list(pool.values())
        size = self._parameters.samples
        return tuple(everybody if len(everybody) <= size else self.random.sample(everybody, size))

    def _sample(self, topic: Topic) -> tuple[Subscriber, ...]:
        pool = {
            subscriber.node: subscriber
            for _, subscribers in self._reports.get(topic, {}).values()
            for subscriber in subscribers
        }
        pool.pop(self.address, None)
        branch = self._groups.get(topic)
        if branch is not None and branch.is_member:
            pool[self.address] = Subscriber(self.address, self.router.position, *self.profile())
        return self._truncate(pool)

    def _report(self) -> None:
        """One round of this node: what came from below since the last one goes up."""
        self._meter.end_round(self._parameters.sample_rounds)
        stale_s = self.now_s - STALE_ROUNDS * HEARTBEAT_S / self._parameters.sample_rounds
        for topic in list(self._reports):
            fresh = {peer: it for peer, it in self._reports[topic].items() if it[0] >= stale_s}
            self._reports[topic] = fresh
            if not fresh:
                del self._reports[topic]
        for topic in dict.fromkeys([*self.interest(), *self._reports]):
            sample = self._sample(topic)
            towards = self.root_hop(topic_key(topic))
            if towards is None:
                self._take_view(View(topic, self._meter.rate(topic), sample))
            elif sample:
                self.send(towards, Sample(topic, sample))

    def _take_view(self, message: View) -> None:
        branch = self._groups.get(message.topic)
        if branch is not None and branch.is_member:
            self._views[message.topic] = message.subscribers
            self._rates[message.topic] = message.rate
        self.send_all(self._reports.get(message.topic, ()), message)

    def ask_views(self) -> None:
        """Of all homes of topics we want."""
        for topic in self.interest():
            self._on_ask_view(AskView(topic, self.address, 0))

    def _on_ask_view(self, message: AskView) -> None:
        towards = self.root_hop(topic_key(message.topic))
        if towards is not None:
            if message.hops < HOPS_MAX:
                self.send(towards, AskView(message.topic, message.origin, message.hops + 1))
            return
        view = View(message.topic, self._meter.rate(message.topic), self._sample(message.topic))
        if message.origin == self.address:
            self._take_view(view)
        else:
            self.send(message.origin, view)
