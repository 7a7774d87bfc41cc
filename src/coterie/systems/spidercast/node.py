"""SpiderCast's node: two maintenance tasks, gossip, partition repair, and flooding inside topics.

How it works: with a plan (`is_planned`) the slice's neighbours are links from the start; the first heartbeats tell who
wants what, a lost planned neighbour is asked for by gossip until it answers, and the tasks replace it meanwhile.
Without a plan the slice's neighbours are only first contacts: gossip fills the interest view, the tasks choose from it.
"""

from __future__ import annotations

from random import Random

from coterie.model.plan import Slice, Topic
from coterie.protocol.events import Event, Timer
from coterie.protocol.node import NodeState, OverlayNode
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.systems.spidercast.entry import WALK_MAX, next_hop
from coterie.systems.spidercast.messages import (
    ASK,
    HANDOVER,
    JOIN,
    REPLY,
    Beacon,
    ConnectOk,
    DisconnectOk,
    Enter,
    Exchange,
    Foreign,
    Heartbeat,
    InterestChange,
    LinkConnect,
    LinkDisconnect,
    LinkLeave,
    Redirect,
    TopicFlood,
)
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.systems.spidercast.partitions import Labels
from coterie.systems.spidercast.task import GREEDY, RANDOM, Task
from coterie.systems.spidercast.view import InterestView

FIRST_HEARTBEAT_S = 0.2  # after the local subscriptions have come in
FIRST_MAINTENANCE_S = 1.5  # after the neighbours' first heartbeats have come in
JOIN_S = 0.05  # before a node without a plan asks its contacts
JOINED_S = 0.3  # before it looks for neighbours, if the contacts' views were worth it
SILENT = 3.5  # heartbeats missed before a neighbour counts as failed
TELL_S = 0.1  # changes of interest are told together
RELAY_S = 0.2  # beacons of several topics are passed on together
BURST_S = 0.5  # between gossip exchanges while the view is still growing
NEWS = 0.1  # share of an exchange that must be new for it to count as news
LEARNED_ROUNDS = 2  # exchanges without news after which a first view is good enough to choose from
LEARNING_S_MAX = 60.0  # or when this is over
QUIET_ROUNDS = 6  # exchanges without news after which a view counts as learned


class SpiderCastNode(OverlayNode):
    """Owns the links; `Task` decides about them, `InterestView` knows the others, `Labels` finds partitions."""

    def __init__(self, address: int, parameters: SpiderCastParameters, random: Random) -> None:
        super().__init__(address, random)
        self._parameters = parameters
        greedy, anyhow = parameters.kept_coverage
        is_strict = parameters.disconnects == "above-target"
        self._tasks = tuple(
            Task(kind, coverage, parameters.margin, parameters.quarantine_s, is_strict)
            for kind, coverage in ((GREEDY, greedy), (RANDOM, anyhow))
        )
        self._topics: dict[Topic, None] = {}
        self._view = InterestView(address, parameters.view_capacity, parameters.exchange_size, random)
        self._labels = Labels(address, parameters.beacon_s)
        self._planned: dict[int, None] = {}
        self._contacts: tuple[int, ...] = ()
        self._fresh: dict[Topic, tuple[int, int, int]] = {}  # beacons to pass on: lowest, count, from whom
        self._seen = Seen(parameters.seen_capacity)
        self._is_started = False
        self._is_awake = False
        self._is_announced = False
        self._quiet_rounds = QUIET_ROUNDS if parameters.is_planned else 0  # since gossip last brought news
        self._turn = 0
        self._has_learned = parameters.is_planned
        self._late_s = 0.0
        self._may_look_around = False  # something has changed since the last time
        self._heard_s: dict[int, float] = {}  # neighbours' last heartbeats

    # --- start and interest ---

    def on_start(self, slice: Slice) -> None:
        peers = tuple(neighbour.node for neighbour in slice.neighbours if neighbour.node != self.address)
        if self._parameters.is_planned:
            self._adopt(peers)
        else:
            self._contacts = peers
        if self._is_started:
            self._wake()
            return
        self._is_started = True
        self._late_s = self.now_s + LEARNING_S_MAX
        self.set_timer("heartbeat", FIRST_HEARTBEAT_S)
        self._sleep_until_heard()
        if self._parameters.beacon_s:
            self.set_timer("beacon", self._parameters.beacon_s)
        first_s = self._parameters.gossip_s if self._parameters.is_planned else JOIN_S
        self.set_timer("gossip", first_s * (0.5 + 0.5 * self.random.random()))

    def on_stop(self) -> None:
        """An orderly leave, section 2.4."""
        self.send_all(self._links(), LinkLeave(is_final=True))

    def _sleep_until_heard(self) -> None:
        self._is_awake = True
        self.set_timer("maintain", FIRST_MAINTENANCE_S if self._parameters.is_planned else JOINED_S)

    def _adopt(self, peers: tuple[int, ...]) -> None:
        greedy = self._tasks[GREEDY]
        for node in self._planned:
            if node not in peers and node in greedy.neighbours:
                greedy.neighbours[node].is_pinned = False
        self._planned = dict.fromkeys(peers)
        for node in peers:
            held = greedy.neighbours.get(node)
            greedy.add(node, held.interest if held else (), (0, 0), is_pinned=True)

    def on_subscribe(self, topic: Topic) -> None:
        self._topics[topic] = None
        self._interest_changed()

    def on_unsubscribe(self, topic: Topic) -> None:
        self._topics.pop(topic, None)
        self._labels.forget(topic)
        self._interest_changed()

    def _interest_changed(self) -> None:
        wanted = frozenset(self._topics)
        for task in self._tasks:
            task.interest = wanted
        if self._is_announced:
            self.set_timer("tell", TELL_S)
            self._may_look_around = True
        self._wake()

    def _links(self) -> dict[int, frozenset[Topic]]:
        greedy, anyhow = self._tasks
        links = {node: peer.interest for node, peer in greedy.neighbours.items()}
        links.update((node, peer.interest) for node, peer in anyhow.neighbours.items())
        return links

    # --- events ---

    def on_publish(self, event: Event) -> None:
        if event.topic in self._topics:
            self._take(event, 0, -1)
        else:
            self._pass_inwards(event, 0, (self.address,))

    def _take(self, event: Event, hops: int, source: int) -> None:
        if not self._seen.add(event.id):
            return
        if event.topic not in self._topics:
            self.discard(event)  # sent before the news that nobody here wants it any more
            return
        self.deliver(event, hops)
        topic = event.topic
        onward = [node for node, interest in self._links().items() if topic in interest and node != source]
        self.send_all(onward, TopicFlood(event, hops + 1))

    def _pass_inwards(self, event: Event, hops: int, trail: tuple[int, ...]) -> None:
        links = self._links()
        onward = None
        if len(trail) <= WALK_MAX:
            onward = next_hop(trail, links, lambda peer: event.topic in links.get(peer, ()))
        if onward is None:
            onward = min((node for node in self._view.members(event.topic) if node not in trail), default=None)
        if onward is not None:
            self.send(onward, Enter(event, hops + 1, (*trail, onward)))

    # --- messages ---

    def on_receive(self, source: int, message: SystemMessage) -> None:
        match message:
            case TopicFlood():
                self._take(message.event, message.hops, source)
            case Enter():
                if message.event.topic in self._topics:
                    self._take(message.event, message.hops, -1)
                elif len(message.trail) <= 2 * WALK_MAX:
                    self._pass_inwards(message.event, message.hops, message.trail)
            case Heartbeat():
                self._on_heartbeat(source, message)
            case InterestChange():
                self._on_interest(source, message.interest)
            case Exchange():
                self._on_exchange(source, message)
            case Beacon():
                self._on_beacon(source, message)
            case Foreign():
                self._repair(message.topic, message.node)
            case _:
                self._on_overlay(source, message)

    def _on_overlay(self, source: int, message: SystemMessage) -> None:
        match message:
            case LinkConnect():
                self._on_connect(source, message)
            case ConnectOk():
                self._on_connect_ok(source, message)
            case Redirect() if message.task in (GREEDY, RANDOM):
                self._tasks[message.task].refused(source, message.node, self.now_s)
                self._wake()
            case LinkDisconnect() if message.task in (GREEDY, RANDOM):
                self._on_disconnect(source, self._tasks[message.task])
            case DisconnectOk() if message.task in (GREEDY, RANDOM):
                self._tasks[message.task].remove(source)
                self._wake()
            case LinkLeave():
                if message.is_final:
                    self._view.forget(source, self.now_s)
                self._lose(source)

    def _on_heartbeat(self, source: int, message: Heartbeat) -> None:
        interest = frozenset(message.interest)
        self._heard_s[source] = self.now_s
        self._view.learn(source, message.interest, self.now_s)
        standings = (message.greedy, message.random)
        changed = [task.heard(source, interest, said) for task, said in zip(self._tasks, standings, strict=True)]
        if any(changed):
            self._wake()
        elif source not in self._tasks[GREEDY].neighbours and source not in self._tasks[RANDOM].neighbours:
            if source in self._planned:
                self._tasks[GREEDY].add(source, interest, message.greedy, is_pinned=True)
                self._wake()
            else:
                self.send(source, LinkLeave())

    def _on_interest(self, source: int, interest: tuple[Topic, ...]) -> None:
        self._view.learn(source, interest, self.now_s)
        for task in self._tasks:
            task.told(source, frozenset(interest))
        self._may_look_around = True
        self._wake()

    def _admitted(self, source: int, message: LinkConnect | ConnectOk) -> bool | None:
        """Whether who asks or answers is a neighbour now; None where it speaks of no task of ours."""
        if message.task not in (GREEDY, RANDOM):
            return None
        task = self._tasks[message.task]
        self._view.learn(source, message.interest, self.now_s)
        if not (message.is_repair or source in task.neighbours or task.has_room):
            return False
        task.add(source, message.interest, message.standing, message.is_repair)
        return True

    def _on_connect(self, source: int, message: LinkConnect) -> None:
        is_admitted = self._admitted(source, message)
        if is_admitted is None:
            return
        task = self._tasks[message.task]
        if is_admitted:
            self.send(source, ConnectOk(task.kind, task.standing, tuple(self._topics), message.is_repair))
            self._wake()
        else:
            instead = task.redirect_for(frozenset(message.interest), source, self.random)
            self.send(source, Redirect(task.kind, instead))

    def _on_connect_ok(self, source: int, message: ConnectOk) -> None:
        is_admitted = self._admitted(source, message)
        if is_admitted:
            self._wake()
        elif is_admitted is not None:
            self.send(source, LinkLeave())

    def _on_disconnect(self, source: int, task: Task) -> None:
        if source in task.neighbours:
            if not task.may_disconnect(source):
                return
            task.remove(source)
            task.disconnected()
        self.send(source, DisconnectOk(task.kind))
        self._wake()

    def on_peer_lost(self, peer: int) -> None:
        self._view.forget(peer, self.now_s)
        self._lose(peer)

    def _lose(self, peer: int) -> None:
        for task in self._tasks:
            if task.remove(peer):
                self._may_look_around = True
                self._wake()

    # --- timers ---

    def on_timer(self, timer: Timer) -> None:
        if timer == "maintain":
            self._maintain()
        elif timer == "heartbeat":
            self._is_announced = True
            self._suspect()
            greedy, anyhow = self._tasks
            self.send_all(self._links(), Heartbeat(greedy.standing, anyhow.standing, tuple(self._topics)))
            self.set_timer("heartbeat", self._parameters.link_heartbeat_s)
        elif timer == "tell":
            self.send_all(self._links(), InterestChange(tuple(self._topics)))
        elif timer == "gossip":
            self._gossip()
        elif timer == "beacon":
            self._send_beacons()
        else:
            self._relay_beacons()

    def _suspect(self) -> None:
        """FAILUREDETECTIONSUSPECT, Figure 4, line 29: neighbours that have been silent, though nothing told us why."""
        limit_s = SILENT * self._parameters.link_heartbeat_s
        self._heard_s = {node: self._heard_s.get(node, self.now_s) for node in self._links()}
        for node in [node for node, heard_s in self._heard_s.items() if self.now_s - heard_s > limit_s]:
            self.on_peer_lost(node)

    def _wake(self) -> None:
        """Wake up connectivity task, Figure 4, line 38."""
        if not self._is_awake:
            self._is_awake = True
            self.set_timer("maintain", self._parameters.connect_timeout_s)

    def _maintain(self) -> None:
        """One iteration of MAINTAINNEIGHBORS for each task; sleeps when there is nothing to do."""
        self._is_awake = False
        if not self._is_learned():
            self._wake()
            return
        if self._parameters.is_adaptive:
            self._adapt()
        for task in self._tasks:
            if task.coverage and self._maintain_task(task):
                self._wake()

    def _is_learned(self) -> bool:
        """Whether the first view is worth choosing from: who chooses from a handful needs many links."""
        if self._has_learned or self._view.is_full or self._quiet_rounds >= LEARNED_ROUNDS or self.now_s > self._late_s:
            self._has_learned = True
        return self._has_learned

    def _maintain_task(self, task: Task) -> bool:
        other = task.next_neighbour(self._view, self.now_s, self.random)
        if other is not None:
            self.send(other, LinkConnect(task.kind, task.standing, tuple(self._topics)))
            return True
        self._look_around(task)
        spare = task.next_to_disconnect(self.random)
        if spare is not None:
            self.send(spare, LinkDisconnect(task.kind))
        return spare is not None

    def _adapt(self) -> None:
        """Section 3.3.1, with K_r at most 3."""
        greedy, anyhow = self._tasks
        if not self._topics or greedy.uncovered() or anyhow.uncovered():
            return
        degree = len(self._links())
        is_first = anyhow.coverage == 0 and degree == greedy.coverage
        if is_first or (0 < anyhow.coverage < self._parameters.k_random_max and degree < len(self._topics)):
            anyhow.coverage += 1

    # --- membership ---

    def _gossip(self) -> None:
        self._turn += 1
        partner = self._gossip_partner()
        if self._turn == 1 and self._contacts:
            self.send_all(self._contacts, self._exchange(JOIN))
        elif partner is not None:
            self.send(partner, self._exchange(ASK))
        is_learning = self._quiet_rounds < QUIET_ROUNDS
        self._quiet_rounds += 1
        self.set_timer("gossip", BURST_S if is_learning else self._parameters.gossip_s)
        if self._needs_somebody():
            self._wake()

    def _look_around(self, task: Task) -> None:
        """Nobody we know helps with what a change has uncovered: gossip faster until that brings no news."""
        if self._may_look_around and self._quiet_rounds >= QUIET_ROUNDS and task.uncovered():
            self._may_look_around = False
            self._quiet_rounds = 0
            self.set_timer("gossip", BURST_S * self.random.random())

    def _needs_somebody(self) -> bool:
        return any(task.coverage and task.uncovered() for task in self._tasks)

    def _gossip_partner(self) -> int | None:
        """A planned neighbour that is missing, else a stranger who shares the topic whose turn it is, else anybody."""
        links = self._links()
        missing = [node for node in self._planned if node not in links]
        if missing and self.random.random() < 0.5:
            return self.random.choice(missing)
        if self._topics and self._turn % 2:
            topic = list(self._topics)[self._turn // 2 % len(self._topics)]
            strangers = [node for node in self._view.members(topic) if node not in links]
            if strangers:
                return self.random.choice(strangers)
        if not len(self._view) or (self._contacts and self.random.random() < 0.1):
            nearby = [*self._contacts, *links] or missing
            return self.random.choice(nearby) if nearby else None
        return self._view.any_of()

    def _exchange(self, step: int) -> Exchange:
        known = self._view.offer(self._topics, self.now_s, step == HANDOVER)
        return Exchange(known, self._labels.stable(self.now_s), step, self._view.gone(self.now_s))

    def _on_exchange(self, source: int, message: Exchange) -> None:
        if message.step in (ASK, JOIN):
            self.send(source, self._exchange(HANDOVER if message.step == JOIN and self._has_learned else REPLY))
        self._view.bury(message.gone, self.now_s)
        new = self._view.absorb(message.known, self.now_s)
        if message.step == HANDOVER:
            self._has_learned = True
        if new > NEWS * len(message.known):
            self._quiet_rounds = 0
        if new and self._needs_somebody():
            self._wake()
        greedy = self._tasks[GREEDY]
        if source in self._planned and source not in greedy.neighbours and message.known:
            greedy.add(source, message.known[0].interest, (0, 0), is_pinned=True)
            self._wake()
        self._compare(source, dict(message.labels))

    # --- partitions ---

    def _compare(self, source: int, theirs: dict[Topic, int]) -> None:
        """Different labels for a topic both want: the lowest member of the part with the higher label shall know."""
        for topic, mine in self._labels.stable(self.now_s):
            other = theirs.get(topic, mine)
            if other == mine:
                continue
            lowest, stranger = (mine, source) if mine > other else (other, self.address)
            if lowest == self.address:
                self._repair(topic, stranger)
            else:
                self.send(lowest, Foreign(topic, stranger))

    def _repair(self, topic: Topic, stranger: int) -> None:
        if topic not in self._topics or stranger == self.address or stranger in self._tasks[GREEDY].neighbours:
            return
        if self._labels.is_lowest(topic) and self._labels.may_repair(topic, self.now_s):
            self.send(stranger, LinkConnect(GREEDY, self._tasks[GREEDY].standing, tuple(self._topics), is_repair=True))

    def _send_beacons(self) -> None:
        for topic, lowest, count in self._labels.beacons(list(self._topics), self.now_s):
            self._pass_on(topic, lowest, count, -1)
        self.set_timer("beacon", self._parameters.beacon_s)

    def _on_beacon(self, source: int, message: Beacon) -> None:
        for topic, lowest, count in message.heard:
            if topic in self._topics and self._labels.hear(topic, lowest, count, self.now_s):
                self._pass_on(topic, lowest, count, source)

    def _pass_on(self, topic: Topic, lowest: int, count: int, source: int) -> None:
        if not self._fresh:
            self.set_timer("relay", RELAY_S)
        self._fresh[topic] = (lowest, count, source)

    def _relay_beacons(self) -> None:
        for node, interest in self._links().items():
            heard = tuple(
                (topic, lowest, count)
                for topic, (lowest, count, source) in self._fresh.items()
                if source != node and topic in interest
            )
            if heard:
                self.send(node, Beacon(heard))
        self._fresh = {}

    def state(self) -> NodeState:
        return NodeState(links=tuple(sorted(self._links())), memberships=tuple(self._topics))
