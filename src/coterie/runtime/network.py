"""A node's part in the network: publications out, deliveries in, interest spread, floods, and recovery put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from coterie.accounting.tally import Tally
from coterie.broker.carried import (
    RETAINED_CHANNEL,
    TIME_MASK,
    Carried,
    Identifiers,
    decode_carried,
    encode_carried,
    microseconds,
    origin_of,
)
from coterie.broker.frames import (
    CONTROL,
    DONE,
    MESSAGE,
    TRACKED_CONTROL,
    TRACKED_MESSAGE,
    AskDigest,
    AskRetained,
    AskWanting,
    Claim,
    Control,
    Copies,
    Digest,
    Disturbed,
    Entering,
    Expected,
    Filters,
    Handed,
    InForce,
    Moved,
    Moves,
    Retained,
    Seek,
    Sent,
    Taken,
    Want,
    Wanting,
    decode_control,
    encode_control,
    frame,
    numbered,
)
from coterie.errors import ConfigError, RemoteProtocolError
from coterie.model.plan import Slice
from coterie.mqtt.publish import Message
from coterie.mqtt.topics import filter_matches, has_wildcard, split_shared
from coterie.plans.orders import PlanPart
from coterie.protocol.events import Event
from coterie.protocol.seen import Seen
from coterie.protocol.system import System
from coterie.runtime.cascades import Cascades
from coterie.runtime.config import NodeConfig
from coterie.runtime.interest import RemoteFilters, is_local
from coterie.runtime.links import Links
from coterie.runtime.overlay import Overlay
from coterie.runtime.planes import DRAIN_S, TAGS, Planes
from coterie.runtime.recovery import Recovery, SeenEvents
from coterie.runtime.store import Store

LINK_CHECK_S = 2.0
CLOCKS_US = 50_000  # how far clocks may be apart when an event is compared with the moment of a subscription
RETAINED_LOG = RETAINED_CHANNEL + "/"  # in front of the topic of a retained message in the log: every node wants it


class Network:
    """See the module. The node hooks `on_message` (for local subscribers), `on_retained`, `wants` and `on_turn`."""

    def __init__(
        self, config: NodeConfig, system_named: Callable[[str], System], slice: Slice, store: Store,
        wall_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self.node = config.node.id
        self._config, self._system_named = config, system_named
        self.links = Links(
            config.network.name, config.network.system, self.node, config.keys(), config.network.peers, config.links
        )
        self.is_alone = not self.links.peers
        self.cascades = Cascades(config.mqtt.subscribe_wait_s)
        first = PlanPart(generation=0, slice=slice, settings=config.network.settings)
        base = sha256(msgspec.json.encode(first)).hexdigest()
        self.planes = Planes(first, config.data / "plan.json", base, self._make_overlay, self._enter)
        self.filters = RemoteFilters()
        self.seen = SeenEvents(store)
        self.recovery = Recovery(self.node, self.links.peers, store, config.recovery, self)
        self.on_message: Callable[[int, Message], int] = lambda identifier, message: 0
        self.on_retained: Callable[[int, Message], None] = lambda stamp, message: None
        self.all_retained: Callable[[], list[tuple[int, Message]]] = list
        self.is_wanted: Callable[[str], bool] = lambda topic: False
        self.on_move: Callable[[int, Moves], bool] = lambda peer, said: False
        self.on_entering: Callable[[int, Entering], None] = lambda peer, said: None
        self.on_reached: Callable[[int], None] = lambda peer: None
        self.retained_stamp: Callable[[str], int] = lambda topic: 0
        self.on_turn: Callable[[], None] = lambda: None
        self.log: Callable[[str], None] = lambda text: None
        self.wall_s = wall_s
        self.control_sent = 0
        self.control_bytes = 0
        self.published_count = 0
        self._store = store
        self._identifiers = Identifiers(self.node, store.last_id() & TIME_MASK)
        self._once = Seen(65_536)  # QoS 0 events that came on several channels
        self._own: dict[str, None] = {}  # wildcard filters wanted here
        self._since_us: dict[str, int] = {}  # filter -> since when
        self._shares: tuple[str, ...] = ()
        self._version = microseconds(wall_s())
        self._has_announced = False
        self._lost_us: dict[int, int] = {}
        self._was_up: set[int] = set()
        self._has_asked_retained = False
        self._loop = asyncio.get_running_loop()

    def _on_retired(self) -> None:
        """Links that only the plan before needed are not kept."""
        self.links.release_idle(self.planes.links(), DRAIN_S / 2)

    @property
    def overlay(self) -> Overlay:
        """The one by which this node publishes."""
        return self.planes.in_use

    def _make_overlay(self, part: PlanPart) -> Overlay:
        slice_, network = part.slice, self._config.network
        if slice_.node != self.node:
            raise ConfigError("plan", f"node {slice_.node}", f"the part of node {self.node}")
        system = self._system_named(slice_.system)
        # What the operator has set for this network (heartbeats, say) holds for every system that has such a setting.
        names = system.parameters.__struct_fields__
        chosen = part.settings | {key: value for key, value in network.settings.items() if key in names}
        parameters = system.configure(chosen)
        overlay = Overlay(
            system, parameters, slice_, network.seed, self.links, self.cascades, self._on_deliver,
            part.generation % TAGS,
        )  # fmt: skip
        overlay.on_event_unsent = self._on_shed
        overlay.on_turn = self._turn
        return overlay

    def _enter(self, overlay: Overlay, done: Callable[[], None]) -> None:
        """Start the overlay of a new plan beside the one in use; everything wanted is wanted there too."""

        def change() -> None:
            overlay.start()
            for topic in list(self.overlay.wanting):
                overlay.subscribe(topic)

        outer = self.cascades.current  # a peer's message may have brought us here; it waits for its own effects only
        self.spread(change, done)
        self.cascades.current = outer
        self._want_links()

    def switch_plan(self, generation: int) -> None:
        """Publish by the plan that is ready, and tell everybody to do so.

        Logs are compared as after any disturbance: a structure that was not complete after all loses nothing.
        """
        if self.planes.switch(generation):
            self.flood(InForce(generation))
            self.recovery.disturb(microseconds(self.wall_s()))

    async def start(self, alive_until_us: int) -> int:
        """Listen, start the node of the system, reach its neighbours; returns the peer port."""
        links = self.links
        links.on_frames, links.on_up, links.on_lost, links.on_shed = (
            self._on_frames, self._on_up, self._on_lost, self._on_shed,
        )  # fmt: skip
        links.log = self.log
        self.planes.on_retired = self._on_retired
        self.recovery.on_turn = self._turn
        port = 0 if self.is_alone else await links.listen()
        self.overlay.start()
        if not self.is_alone:
            self.planes.subscribe(RETAINED_CHANNEL)
            self.planes.resume()
            self._keep_links()
        self._has_announced |= alive_until_us > 0  # others may still hold what this node wanted in its last life
        self.recovery.start(alive_until_us)
        links.flush()
        return port

    def _turn(self) -> None:
        self.on_turn()

    def _want_links(self) -> set[int]:
        wanted = self.planes.links() or {one.node for one in self.overlay.slice.neighbours}
        # Mostly the lower address dials, so that a pair does not connect twice at once.
        self.links.want(sorted(peer for peer in wanted if peer > self.node))
        self._loop.call_later(0.3, self.links.want, sorted(peer for peer in wanted if peer < self.node))
        return wanted

    def _keep_links(self) -> None:
        self.links.release_idle(self._want_links())
        self.cascades.expire(self._loop.time())
        self._loop.call_later(LINK_CHECK_S, self._keep_links)
        self._turn()

    # --- publications ---

    def publish(self, message: Message, stamp: int = 0) -> None:
        """Spread a local client's message; at QoS 1 and 2 it is in the log when this turn is committed."""
        if self.is_alone or is_local(message.topic):
            return
        channels = self.filters.channels(message.topic)
        now_us = microseconds(self.wall_s())
        identifier = stamp or self._identifiers.next(now_us)
        body = encode_carried(identifier, message, len(channels))
        self.published_count += 1
        if message.qos or message.retain:
            topic = RETAINED_LOG + message.topic if message.retain else message.topic
            self._store.log.append((identifier, topic, body))
        publish = self.overlay.publish
        publish(Event(identifier, channels[0], body))
        for channel in channels[1:]:
            publish(Event(self._identifiers.next(now_us), channel, body))
        if message.retain:
            publish(Event(self._identifiers.next(now_us), RETAINED_CHANNEL, body))

    def new_stamp(self) -> int:
        """When a retained message was published, for all nodes to agree on the last one."""
        return self._identifiers.next(microseconds(self.wall_s()))

    def _on_deliver(self, event: Event, hops: int, tally: Tally) -> None:
        try:
            carried = decode_carried(event.payload)
        except RemoteProtocolError as error:
            self.log(f"event {event.id} is of no use: {error}")
            return
        if origin_of(carried.id) == self.node:
            return
        if event.topic == RETAINED_CHANNEL:
            self.on_retained(carried.id, carried.message())
            return
        delivered = self._take(carried)
        if delivered:
            delay_us = microseconds(self.wall_s()) - (carried.id & TIME_MASK)
            tally.add_delivery(hops, max(0, delay_us), delivered)

    def _take(self, carried: Carried) -> int:
        if carried.qos or carried.retain:
            if not self.seen.add(carried.id):
                return 0
        elif carried.channels > 1 and not self._once.add(carried.id):
            return 0
        return self.on_message(carried.id, carried.message())

    def take_copy(self, body: bytes) -> None:
        """An event that was asked for, straight from its origin."""
        carried = decode_carried(body)
        if carried.retain:
            self.on_retained(carried.id, carried.message())
        if self.is_wanted(carried.topic):
            self._take(carried)

    def misses(self, topic: str, identifier: int) -> bool:
        """Whether an event from another node's log should be here and is not."""
        if origin_of(identifier) == self.node:
            return False
        if topic.startswith(RETAINED_LOG):
            topic = topic[len(RETAINED_LOG) :]
            if self.retained_stamp(topic) < identifier:
                return True
        return self.is_wanted(topic) and identifier not in self.seen and self._was_wanted(topic, identifier & TIME_MASK)

    def _was_wanted(self, topic: str, time_us: int) -> bool:
        """Whether somebody here wanted the topic when the event was published: who comes later gets nothing older."""
        since_us = [self._since_us.get(topic)]
        since_us += [self._since_us.get(one) for one in self._own if filter_matches(one, topic)]
        return any(one is not None and one - CLOCKS_US <= time_us for one in since_us)

    # --- interest ---

    def spread(self, change: Callable[[], None], done: Callable[[], None]) -> None:
        """Make a change of interest and call `done` when it has taken effect in the network."""
        cascade = self.cascades.begin(done, self._loop.time())
        try:
            change()
        finally:
            self.cascades.end(cascade)

    def want(self, topic_filter: str, is_old: bool = False) -> None:
        """From now on; or, after a restart, as before it."""
        if self.is_alone or is_local(topic_filter):
            return
        self._since_us.setdefault(topic_filter, 0 if is_old else microseconds(self.wall_s()))
        self.planes.subscribe(topic_filter)
        if has_wildcard(topic_filter):
            self._own[topic_filter] = None
            self._announce()

    def want_since(self, filters: Iterable[str], since_us: int) -> None:
        """A client wanted these before it came here."""
        for one in filters:
            bare = split_shared(one)[1]
            if bare in self._since_us:
                self._since_us[bare] = min(self._since_us[bare], since_us)

    def unwant(self, topic_filter: str) -> None:
        if self.is_alone or is_local(topic_filter):
            return
        self._since_us.pop(topic_filter, None)
        self.planes.unsubscribe(topic_filter)
        if self._own.pop(topic_filter, 0) is None:
            self._announce()

    def _announce(self) -> None:
        self._version += 1
        self._has_announced = True
        self.flood(self._my_filters())

    def share(self, shares: tuple[str, ...]) -> None:
        """Tell the others which shared subscriptions have members here."""
        if not self.is_alone and shares != self._shares:
            self._shares = shares
            self._announce()

    def is_turn(self, share: str, identifier: int) -> bool:
        """Whether the members at this node get an event of a shared subscription; all nodes come to the same answer."""
        nodes = self.filters.nodes_sharing(share)
        if not nodes:
            return True
        nodes = sorted([*nodes, self.node])
        return nodes[(identifier & TIME_MASK) % len(nodes)] == self.node

    def _my_filters(self) -> Filters:
        return Filters(self.node, self._version, tuple(self._own), self._shares)

    # --- what drivers say to each other ---

    def tell(self, peer: int, message: Control) -> bool:
        return self._put(peer, encode_control(message))

    def _put(self, peer: int, body: bytes) -> bool:
        number = self.cascades.number_for(peer)
        data = frame(CONTROL, body) if number is None else frame(TRACKED_CONTROL, body, number)
        is_sent = self.links.send(peer, data, is_use=False)
        if number is not None and not is_sent:
            self.cascades.done(peer, number)
        self.control_sent += is_sent
        self.control_bytes += len(data) if is_sent else 0
        return is_sent

    def flood(self, message: Control, but: int = -1) -> None:
        body = encode_control(message)
        for peer in self.links.connected:
            if peer != but:
                self._put(peer, body)

    def _on_frames(self, peer: int, frames: list[tuple[int, bytes]]) -> None:
        for kind, body in frames:
            if kind == MESSAGE:
                self.planes.receive(peer, body)
            elif kind == CONTROL:
                self._on_control(peer, decode_control(body))
            elif kind == DONE:
                self.cascades.done(peer, numbered(body)[0])
            elif kind in (TRACKED_MESSAGE, TRACKED_CONTROL):
                self._on_tracked(peer, kind, *numbered(body))
            else:
                raise RemoteProtocolError(f"a frame of kind {kind} on an open link", f"node {peer}")
        self._turn()

    def _on_tracked(self, peer: int, kind: int, number: int, body: bytes) -> None:
        def finish() -> None:
            self.links.send(peer, frame(DONE, b"", number))
            self._turn()

        cascade = self.cascades.begin(finish, self._loop.time())
        try:
            if kind == TRACKED_MESSAGE:
                self.planes.receive(peer, body)
            else:
                self._on_control(peer, decode_control(body))
        finally:
            self.cascades.end(cascade)

    def _on_control(self, peer: int, said: Control) -> None:
        match said:
            case Moved() | Seek() | Claim() | Handed() | Taken():
                if self.on_move(peer, said):
                    self.flood(said, but=peer)
            case Wanting() | AskWanting() | Sent() | Expected():
                self.on_entering(peer, said)
            case InForce():
                if self.planes.hear(said.generation):
                    self.flood(said, but=peer)
                elif self.planes.outdated_by == said.generation:
                    self.log(f"plan generation {said.generation} is in force and was never given to this node")
            case Filters():
                if said.node != self.node and self.filters.learn(said):
                    self.flood(said, but=peer)
            case Disturbed():
                self.recovery.on_disturbed(peer, said)
            case Digest():
                self.recovery.on_digest(peer, said)
            case AskDigest():
                self.recovery.on_ask(peer, said)
            case Want():
                self.recovery.on_want(peer, said)
            case Copies():
                self.recovery.on_copies(said)
            case AskRetained():
                self._send_retained(peer)
            case Retained():
                for stamp, body in said.messages:
                    self.on_retained(stamp, decode_carried(body).message())

    def _send_retained(self, peer: int) -> None:
        chunk: list[tuple[int, bytes]] = []
        size = 0
        for stamp, message in self.all_retained():
            body = encode_carried(stamp, message, 1)
            chunk.append((stamp, body))
            size += len(body)
            if size > 256 << 10:
                self.tell(peer, Retained(tuple(chunk)))
                chunk, size = [], 0
        if chunk:
            self.tell(peer, Retained(tuple(chunk)))

    # --- links ---

    def _on_up(self, peer: int) -> None:
        if self.planes.generation:
            self.tell(peer, InForce(self.planes.generation))
        for said in self.filters.of_node.values():
            if said.node != peer:
                self.tell(peer, said)
        if self._has_announced:
            self.tell(peer, self._my_filters())
        self.on_reached(peer)
        if not self._has_asked_retained:
            self._has_asked_retained = True
            self.tell(peer, AskRetained())
        since_us = self._lost_us.pop(peer, None)
        if since_us is not None:
            self.recovery.disturb(since_us)
        self._was_up.add(peer)
        self._turn()

    def _on_lost(self, peer: int) -> None:
        if peer in self._was_up:
            self._was_up.discard(peer)
            silence_s = self.links.settings.silence_s
            self._lost_us[peer] = max(1, microseconds(self.wall_s() - silence_s))
            self.recovery.disturb(self._lost_us[peer])
        self.cascades.lost(peer)
        self.planes.lose(peer)
        self._turn()

    def _on_shed(self, peer: int) -> None:
        """An event could not be handed to this peer; once it can be reached again, what is missing is looked for."""
        if peer not in self._lost_us:
            self._lost_us[peer] = microseconds(self.wall_s())
            self._loop.call_later(1.0, self._after_shedding, peer)

    def _after_shedding(self, peer: int) -> None:
        since_us = self._lost_us.pop(peer, None) if self.links.is_connected(peer) else None
        if since_us is not None:
            self.recovery.disturb(since_us)
            self._turn()

    async def stop(self) -> None:
        self.recovery.stop()
        self.planes.stop()
        await self.links.close()
