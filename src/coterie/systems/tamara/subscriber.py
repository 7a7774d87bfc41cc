"""The subscriber in every node: which clusters to be on, by SUBSCRIBE and UNSUBSCRIBE of section 4."""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Event
from coterie.substrate.identifiers import topic_key
from coterie.systems.tamara.decisions import leave_change
from coterie.systems.tamara.messages import Advice, Answer, Consult, Invite, Notice, SubscriberMoved, Survey
from coterie.systems.tamara.names import is_cluster
from coterie.systems.tamara.node import LINGER_S, ClusterNode
from coterie.systems.tamara.parameters import TamaraParameters

SLACK = 1e-9
RATE_WEIGHT = 0.2  # of the last heartbeat in the running average of a rate


class SubscriberNode(ClusterNode):
    """Chooses its clusters by cost, with the rates it has seen itself; `_assigned` holds the clusters it is on."""

    def __init__(self, address: int, parameters: TamaraParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._settings = parameters
        self._rates: dict[Topic, float] = {}  # events per interval of topics seen here
        self._events: dict[Topic, int] = {}  # since the last heartbeat
        self._counted = -1  # the last event counted: it may come through several channels at once
        self._depth = 0  # of the change that made us leave what we are about to leave

    # --- interest ---

    def on_start(self, slice: Slice) -> None:
        super().on_start(slice)
        self._assigned = {}  # a plan's clusters are not ours to keep: they adapt

    def on_subscribe(self, topic: Topic) -> None:
        self._wanted[topic] = None
        if any(topic in topics for topics in self._assigned.values()):
            return  # the filter lets it pass from now on
        self._change(0)
        self._ask(Consult(topic, self.address))

    def on_unsubscribe(self, topic: Topic) -> None:
        self._wanted.pop(topic, None)
        carrying = [name for name, topics in self._assigned.items() if topic in topics]
        for name in carrying:
            if self._leave_change(name) < -SLACK:
                del self._assigned[name]
            else:
                self._ask(Notice(name, topic, True))
        self._change(0)

    def on_advice(self, message: Advice) -> None:
        """Join the best cluster with the topic if that is cheaper; else tell a cluster that the topic might fit in."""
        topic = message.topic
        if topic not in self._wanted or any(topic in topics for topics in self._assigned.values()):
            return
        direct = [channel for channel in self._needed() if not is_cluster(channel)]
        best: tuple[int, str, tuple[Topic, ...]] | None = None
        for name, topics in message.clusters:
            taken = sum(1 for other in direct if other in topics)
            if best is None or (-taken, name) < (best[0], best[1]):
                best = (-taken, name, topics)
        if best is not None:
            saved = [self._rate(other) for other in direct if other in best[2]]
            if -leave_change(self._cluster_rate(best[2]), saved) < -SLACK:
                self._take(best[1], best[2], 0, 0)
                return
        told = self._most_filtering()
        if told is not None:
            self._ask(Notice(told, topic, False))

    def _most_filtering(self) -> str | None:
        """The cluster with most topics filtered out (section 3.1)."""
        filtered = {
            name: sum(1 for t in topics if not self._is_needed(name, t)) for name, topics in self._assigned.items()
        }
        return min(filtered, key=lambda name: (-filtered[name], name)) if filtered else None

    def _is_needed(self, name: str, topic: Topic) -> bool:
        """Whether the topic is wanted and no other cluster of ours brings it."""
        others = (topics for other, topics in self._assigned.items() if other != name)
        return topic in self._wanted and not any(topic in topics for topics in others)

    def _leave_change(self, name: str) -> float:
        topics = self._assigned[name]
        needed = [self._rate(topic) for topic in topics if self._is_needed(name, topic)]
        return leave_change(self._cluster_rate(topics), needed)

    # --- changes of clusters ---

    def _take(self, name: str, topics: tuple[Topic, ...], version: int, depth: int) -> None:
        """Be on this cluster from now on, and tidy up."""
        self._assigned[name] = topics
        self._shapes.setdefault(name, (version, topics))
        self._tidy()
        self._change(depth)
        if name not in self._groups:
            self._shapes.pop(name, None)

    def _tidy(self) -> None:
        """Leave clusters that have become redundant or unprofitable."""
        for name in sorted(self._assigned):
            if self._leave_change(name) < -SLACK:
                del self._assigned[name]

    def _change(self, depth: int) -> None:
        """Enter what is needed now, say so to the roots; leave the rest when the new channels carry."""
        before = {name for name, group in self._groups.items() if group.is_member}
        self._enter_channels()
        for channel in self._needed():
            if channel not in before:
                self._ask(SubscriberMoved(channel, True, depth))
        self._depth = depth
        if any(channel not in self._needed() for channel in before):
            self.set_timer("linger", LINGER_S)

    def _leave_channels(self) -> None:
        needed = self._needed()
        left = [name for name, group in self._groups.items() if group.is_member and name not in needed]
        super()._leave_channels()
        for channel in left:
            self._ask(SubscriberMoved(channel, False, self._depth))

    def on_shape(self, name: str, topics: tuple[Topic, ...]) -> None:
        if name not in self._assigned:
            return
        self._assigned[name] = topics
        if len(topics) < 2:
            del self._assigned[name]
        self._tidy()
        self._change(self._settings.depth_max)

    def on_invite(self, message: Invite) -> None:
        if is_cluster(message.channel):
            self._assigned.pop(str(message.channel), None)
        if any(topic in self._wanted for topic in message.topics):
            self._take(message.cluster, message.topics, message.version, message.depth)
        else:
            self._change(message.depth)

    def on_survey(self, message: Survey) -> None:
        if self.random.random() >= message.probability:
            return
        name = str(message.channel)
        needed = (
            [t for t in self._assigned.get(name, ()) if self._is_needed(name, t)] if is_cluster(message.channel) else []
        )
        answer = Answer(message.channel, message.number, tuple(self._needed()), tuple(needed))
        if message.root == self.address:
            self.on_answer(answer)
        else:
            self.send(message.root, answer)

    def on_answer(self, message: Answer) -> None:
        """For the root that asked."""

    # --- rates ---

    def _rate(self, topic: Topic) -> float:
        return self._rates.get(topic, self._settings.rate_prior)

    def _cluster_rate(self, topics: tuple[Topic, ...]) -> float:
        return sum(self._rate(topic) for topic in topics)

    def _spread_in(self, channel: Topic, event: Event, hops: int, source: int | None) -> None:
        if event.id != self._counted:
            self._counted = event.id
            self._events[event.topic] = self._events.get(event.topic, 0) + 1
        super()._spread_in(channel, event, hops, source)

    def _keep_trees(self) -> None:
        super()._keep_trees()
        kept = set(self._wanted).union(*(topics for _, topics in self._shapes.values()), self._events)
        self._rates = {topic: self._rate(topic) for topic in [*self._rates, *self._events] if topic in kept}
        for topic, rate in self._rates.items():
            self._rates[topic] = (1 - RATE_WEIGHT) * rate + RATE_WEIGHT * self._events.get(topic, 0)
        self._events = {}

    # --- routing ---

    def _ask(self, message: Consult | SubscriberMoved | Notice) -> None:
        raise NotImplementedError

    def _is_root(self, channel: Topic) -> bool:
        return self.router.next_hop(topic_key(channel)) is None
