"""A node on topic-clusters over Scribe: filters, clusters as channels of the layer below, ties to topics.

How it works. A cluster is one more Scribe group, named so that its root is found by key. Joining one tells its topics
upwards, so whoever is or becomes its root knows them; the root reminds the roots of its topics once per heartbeat, and
they pass each event on to it. All of that is soft state: what a crash forgets, children, heartbeats and reminders bring
back. A member takes what it wants of a cluster's events and drops the rest; events that reach it through several
channels are delivered once.
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Event, Timer
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import splitmix64, topic_key
from coterie.systems.group_multicast import Multicast, ToRoot
from coterie.systems.scribe import (
    SILENT_HEARTBEATS,
    GroupBranch,
    Join,
    Leave,
    ScribeNode,
    ScribeParameters,
    TreeAlive,
)
from coterie.systems.tamara.messages import (
    AskCluster,
    Associate,
    ClusterAlive,
    ClusterJoin,
    ClusterMulticast,
    ClusterPublish,
    Dissociate,
    TellCluster,
)
from coterie.systems.tamara.names import is_cluster, planned_name
from coterie.systems.tamara.wanting import PlannedWishes

LINGER_S = 3.0  # channels that are no longer needed are kept so long after a change, until the new ones carry


class ClusterNode(PlannedWishes, ScribeNode):
    """What all nodes on clusters share; by itself it follows a plan: its slice names the clusters to be on."""

    def __init__(self, address: int, parameters: ScribeParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._wanted: dict[Topic, None] = {}
        self._assigned: dict[str, tuple[Topic, ...]] = {}  # the clusters to use while one of their topics is wanted
        self._shapes: dict[
            str, tuple[int, tuple[Topic, ...]]
        ] = {}  # version and topics of clusters whose tree we are on
        self._carriers: dict[
            Topic, dict[str, tuple[float, tuple[Topic, ...]]]
        ] = {}  # at a topic's root: when heard, topics
        self._had = Seen(parameters.seen_capacity)

    # --- interest ---

    def on_start(self, slice: Slice) -> None:
        super().on_start(slice)
        self._assigned = {planned_name(part.topics): part.topics for part in slice.channels}

    def on_plan(self, slice: Slice) -> None:
        """New channels at once, old ones until these carry."""
        self._assigned = {planned_name(part.topics): part.topics for part in slice.channels}
        self._enter_channels()
        self.set_timer("linger", LINGER_S)

    def _enter_channels(self) -> None:
        for channel in self._needed():
            group = self._groups.get(channel)
            if group is None or not group.is_member:
                if is_cluster(channel) and channel not in self._shapes:
                    self._shapes[str(channel)] = (0, self._assigned[str(channel)])
                self._on_tree(channel).is_member = True

    def _leave_channels(self) -> None:
        needed = self._needed()
        for channel in [name for name, group in self._groups.items() if group.is_member and name not in needed]:
            ScribeNode.on_unsubscribe(self, channel)  # of the group, not of a wish

    # --- trees: a join says what the cluster carries, a heartbeat which version ---

    def send(self, to: int, message: SystemMessage) -> None:
        if type(message) is Join and message.topic in self._shapes:
            name = str(message.topic)
            message = ClusterJoin(name, *self._shapes[name])
        super().send(to, message)

    def on_timer(self, timer: Timer) -> None:
        if timer == "linger":
            self._leave_channels()
        elif isinstance(timer, tuple) and timer[0] == "untie":
            name, topic = str(timer[1]), timer[2]
            if topic not in self._shapes.get(name, (0, ()))[1]:
                self._dissociate(name, (topic,))
        elif timer == "trees":
            self._keep_trees()
            self.set_timer("trees", self._tree_heartbeat_s)
        else:
            super().on_timer(timer)

    def _keep_trees(self) -> None:
        for channel, group in list(self._groups.items()):
            self._aim(channel, group)
            if not is_cluster(channel):
                self.send_all(group.children, TreeAlive(channel))
                continue
            name = str(channel)
            if name not in self._shapes:  # a root that has forgotten: those below it know
                self.send_all(list(group.children)[:1], AskCluster(name))
                self.send_all(group.children, ClusterAlive(name, -1))
                continue
            self.send_all(group.children, ClusterAlive(name, self._shapes[name][0]))
            if group.parent is None:
                self._associate(name)
        self._expire_carriers()

    def _on_tree(self, topic: Topic) -> GroupBranch:
        is_new = topic not in self._groups
        group = super()._on_tree(topic)
        if is_new and group.parent is None and topic in self._shapes:
            self._associate(str(topic))
        return group

    def _prune(self, topic: Topic, group: GroupBranch) -> None:
        was_root = group.parent is None
        super()._prune(topic, group)
        if topic not in self._groups and topic in self._shapes:
            _, topics = self._shapes.pop(str(topic))
            if was_root:
                self._dissociate(str(topic), topics)

    def _shape(self, name: str, version: int, topics: tuple[Topic, ...]) -> None:
        """Somebody says what a cluster carries; the newest word counts, and is passed down."""
        known = self._shapes.get(name)
        group = self._groups.get(name)
        if group is None or (known is not None and known[0] >= version):
            return
        self._shapes[name] = (version, topics)
        if group.parent is None:
            self._associate(name)
        if known is not None:
            for topic in known[1]:
                if group.parent is None and topic not in topics:
                    self.set_timer(("untie", name, topic), LINGER_S)  # members subscribe directly meanwhile
            self.send_all(group.children, TellCluster(name, version, topics))
        self.on_shape(name, topics)

    def on_shape(self, name: str, topics: tuple[Topic, ...]) -> None:
        """The topics of a cluster whose tree this node is on have changed."""

    # --- ties between clusters and topics ---

    def _associate(self, name: str) -> None:
        topics = self._shapes[name][1]
        for topic in topics:
            self._pass_on(Associate(topic, name, topics))

    def _dissociate(self, name: str, topics: tuple[Topic, ...]) -> None:
        for topic in topics:
            self._pass_on(Dissociate(topic, name))

    def _pass_on(self, message: Associate | Dissociate) -> None:
        """Towards the topic's root, which takes note."""
        towards = self.router.next_hop(topic_key(message.topic))
        if towards is not None:
            self.send(towards, message)
        elif isinstance(message, Associate):
            self._carriers.setdefault(message.topic, {})[message.cluster] = (self.now_s, message.topics)
        else:
            self._carriers.get(message.topic, {}).pop(message.cluster, None)

    def _expire_carriers(self) -> None:
        oldest_s = self.now_s - SILENT_HEARTBEATS * self._tree_heartbeat_s
        for topic, clusters in list(self._carriers.items()):
            for name in [name for name, (heard_s, _) in clusters.items() if heard_s < oldest_s]:
                del clusters[name]
            if not clusters:
                del self._carriers[topic]

    # --- messages ---

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, ClusterMulticast):
            self._from_above(source, message.cluster, message.event, message.hops)
        elif isinstance(message, Multicast):
            self._from_above(source, message.event.topic, message.event, message.hops)
        elif isinstance(message, ClusterPublish):
            self._towards_cluster(message.cluster, message.event, message.hops)
        elif isinstance(message, ToRoot):
            self._towards_root(message.event, message.hops)
        elif isinstance(message, ClusterAlive):
            self._alive(source, message)
        elif isinstance(message, Associate | Dissociate):
            self._pass_on(message)
        elif isinstance(message, ClusterJoin):
            self._joined(source, message)
        elif isinstance(message, AskCluster):
            if message.cluster in self._shapes:
                self.send(source, TellCluster(message.cluster, *self._shapes[message.cluster]))
        elif isinstance(message, TellCluster):
            self._shape(message.cluster, message.version, message.topics)
        else:
            super().on_receive(source, message)

    def _joined(self, source: int, message: ClusterJoin) -> None:
        name = message.cluster
        if name not in self._groups:
            self._shapes.setdefault(name, (message.version, message.topics))
        self._on_tree(name).children[source] = None
        self._shape(name, message.version, message.topics)
        if self._shapes[name][0] > message.version:
            self.send(source, TellCluster(name, *self._shapes[name]))

    def _alive(self, source: int, message: ClusterAlive) -> None:
        group = self._groups.get(message.cluster)
        if group is None or group.parent != source:
            self.send(source, Leave(message.cluster))
            return
        group.heard_s = self.now_s
        version = self._shapes[message.cluster][0] if message.cluster in self._shapes else -1
        if version < message.version:
            self.send(source, AskCluster(message.cluster))
        elif version > message.version:
            self.send(source, TellCluster(message.cluster, *self._shapes[message.cluster]))

    # --- events ---

    def _towards_root(self, event: Event, hops: int) -> None:
        towards = self.router.next_hop(topic_key(event.topic))
        if towards is not None:
            self.send(towards, ToRoot(event, hops + 1))
        elif self._seen.add(splitmix64(event.id)):
            self._spread_in(event.topic, event, hops, source=None)
            for name in sorted(self._carriers.get(event.topic, ())):
                self._towards_cluster(name, event, hops)

    def _towards_cluster(self, name: str, event: Event, hops: int) -> None:
        key = topic_key(name)
        towards = self.router.next_hop(key)
        if towards is not None:
            self.send(towards, ClusterPublish(event, hops + 1, name))
        elif self._seen.add(splitmix64(event.id) ^ key):
            self._spread_in(name, event, hops, source=None)

    def _from_above(self, source: int, channel: Topic, event: Event, hops: int) -> None:
        group = self._groups.get(channel)
        if group is None or group.parent != source:
            self.send(source, Leave(channel))
        mark = splitmix64(event.id) ^ (topic_key(channel) if is_cluster(channel) else 0)
        if group is not None and self._seen.add(mark):
            self._spread_in(channel, event, hops, source)

    def _spread_in(self, channel: Topic, event: Event, hops: int, source: int | None) -> None:
        group = self._groups.get(channel)
        if group is None:
            return
        if group.is_member and self._had.add(event.id):
            if event.topic in self._wanted:
                self.deliver(event, hops)
            else:
                self.discard(event)
        below = [child for child in group.children if child != source]
        if is_cluster(channel):
            self.send_all(below, ClusterMulticast(event, hops + 1, str(channel)))
        else:
            self.send_all(below, Multicast(event, hops + 1))
