"""A DYNATOPS broker: topic routing trees in one control plane, or in two while the network is being reconfigured."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Event, EventMessage, Timer
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.substrate.chord import ChordRouter
from coterie.substrate.identifiers import node_position, topic_key
from coterie.systems.dynatops import messages as wire
from coterie.systems.dynatops.handover import Transfer
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.plane import RingPlane
from coterie.systems.dynatops.reconfiguration import (
    GRACE_S,
    Ask,
    Done,
    Order,
    Switch,
    SwitchLeader,
    SwitchReport,
    SwitchStep,
    ToldVersion,
    UnknownVersion,
)
from coterie.systems.key_routing import AskState, RingNode, TellState
from coterie.systems.reliable_events import ACKNOWLEDGE, RETRY, Keeper, Offer, Replay, Status

REPORTED_HEARTBEATS = 1.25  # after so long a new coordinator has heard of everybody
EXPIRY_HEARTBEATS = 4.5  # brokers that have not reported for so long are no participants
RETURNING_S = 5.0  # who subscribes so soon after a start was here before it and wants what it has missed


class DynatopsNode(RingNode):
    """The broker; the one whose address is `coordinator` leads reconfigurations too."""

    router: ChordRouter

    def __init__(self, address: int, parameters: DynatopsParameters, random: Random) -> None:
        super().__init__(address, parameters.link_heartbeat_s, random)
        self._parameters = parameters
        self._wants: dict[Topic, float] = {}  # topic -> since when
        self._seen = Seen(parameters.seen_capacity)
        self._keeper: Keeper | None = None
        if parameters.reliable:
            self._keeper = Keeper(self, self, parameters.retry_s, parameters.retention_s, parameters.kept_capacity)
        self._planes: dict[int, RingPlane] = {}
        self._plans: dict[int, Slice] = {}  # the newest two
        self._transfer: Transfer | None = None
        self._switch = Switch(self, 0)
        self._is_sure = False
        self._started_s = 0.0
        self._coordinator = SwitchLeader(self, parameters.retry_s) if address == parameters.coordinator else None
        self._reported: dict[int, float] = {}  # broker -> when it last reported, at the coordinator
        self._handlers = {
            wire.RootJoin: lambda source, message, plane: plane.on_join(message),
            wire.TreeGraft: lambda source, message, plane: plane.on_graft(source, message),
            wire.Prune: lambda source, message, plane: plane.on_prune(source, message),
            wire.Dissolve: lambda source, message, plane: plane.on_dissolve(source, message),
            wire.EdgeAlive: lambda source, message, plane: plane.on_tree_alive(source, message),
            wire.Inbound: lambda source, message, plane: plane.towards_root(message.event, message.hops, source),
            wire.TreeMulticast: lambda source, message, plane: plane.spread(message.event, message.hops, source),
            wire.Announce: lambda source, message, plane: plane.router.learn(source, message.position),
            wire.Adopt: self._on_adopt,
        }

    @property
    def plane(self) -> RingPlane:
        return self._planes[self._switch.version]

    @property
    def switch(self) -> Switch:
        return self._switch

    @property
    def coordinator(self) -> SwitchLeader | None:
        return self._coordinator

    def make_router(self, position: int) -> ChordRouter:
        return ChordRouter(self.address, position, self._parameters.near)

    def _make_plane(self, version: int, router: ChordRouter) -> RingPlane:
        plane = RingPlane(self, version, router, self._wants, self._seen, self._parameters, self._keeper)
        self._planes[version] = plane
        return plane

    # --- the driver's inputs ---

    def on_start(self, slice: Slice) -> None:
        self._switch = Switch(self, slice.version)
        self._plans = {slice.version: slice}
        self._planes = {}
        self._started_s = self.now_s
        super().on_start(slice)
        self._make_plane(slice.version, self.router)
        self.set_timer("trees", self._parameters.tree_heartbeat_s)
        self.set_timer("sure", self._parameters.tree_heartbeat_s)
        self._report()

    def on_plan(self, slice: Slice) -> None:
        """Keep the plan; the coordinator proposes it to everybody who has reported."""
        self._plans[slice.version] = slice
        for version in sorted(self._plans)[:-2]:
            del self._plans[version]
        self._answer(self._switch.planned())
        self._propose()

    def on_subscribe(self, topic: Topic) -> None:
        is_returning = self.now_s - self._started_s < RETURNING_S
        self._wants.setdefault(topic, self.now_s - (self._parameters.retention_s if is_returning else 0.0))
        for plane in self._planes.values():
            if plane.is_open:
                plane.enter(topic)

    def on_unsubscribe(self, topic: Topic) -> None:
        self._wants.pop(topic, None)
        for plane in self._planes.values():
            if plane.is_open:
                plane.leave(topic)

    def on_publish(self, event: Event) -> None:
        self.plane.towards_root(event, hops=0)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        handler = self._handlers.get(type(message))
        if handler is not None:
            plane = self._planes.get(message.version)  # type: ignore[attr-defined]
            if plane is None and self._keeper is not None and isinstance(message, EventMessage):
                plane = self.plane  # its plane is gone here, or not yet there: it goes on in the one we use
            if plane is not None:
                handler(source, message, plane)
                self._check_progress()
            return
        match message:
            case Offer() | Status():
                if self._keeper is not None:
                    self._keeper.on_message(source, message)
            case Replay(event=event, hops=hops, to_root=to_root, age_s=age_s):
                pass_on = self.plane.towards_root if to_root else self.plane.spread
                pass_on(event, hops, source, age_s)
            case wire.VersionHere():
                self._on_here(source, message)
            case wire.OtherVersion():
                self._on_in_force(source, message)
            case wire.Handover() | wire.HandoverTaken() | wire.Adopted():
                self._on_transfer(source, message)
            case Order() | Ask() if not self._is_sure:
                self._answer(
                    UnknownVersion(message.version), source
                )  # what we started with may never have been in force
            case Order():
                self._answer(self._switch.on_order(message), source)
            case Ask():
                self._answer(self._switch.tell(message.version), source)
            case Done() | UnknownVersion() | ToldVersion() | SwitchReport():
                self._coordinate(source, message)
            case AskState():
                known = [contact for contact in self.router.state_for(message.position) if contact[0] != source]
                self.send(source, TellState(tuple(known)))
            case _:
                super().on_receive(source, message)

    def on_timer(self, timer: Timer) -> None:
        match timer:
            case "links":
                self._ping(self.router.announce_targets())
                self.send_all(self._lost, self._here(asks=True))
                self.set_timer("links", self._link_heartbeat_s)
                self._is_joining = False
                self._report()
                self._propose()
            case "trees":
                self.plane.beat()
                self.set_timer("trees", self._parameters.tree_heartbeat_s)
            case "rejoin":
                if not self.router.announce_targets():  # the answer was lost: ask everybody we have ever heard of
                    asked = dict.fromkeys(n.node for plan in self._plans.values() for n in plan.neighbours)
                    self.send_all(asked, AskState(self.router.position))
                    self.set_timer("rejoin", self._parameters.retry_s)
                for topic in self._wants:
                    self.plane.enter(topic)
            case "sure":
                self._is_sure = True
            case _ if timer in (RETRY, ACKNOWLEDGE):
                if self._keeper is not None:
                    self._keeper.on_timer(timer)
            case "reconfiguration":
                if self._coordinator is not None:
                    self._coordinator.on_timer()
            case ("transfer", int(version)):
                if self._transfer is not None and version == self._switch.pending:
                    self._transfer.on_timer()
            case ("drop", int(version)):
                if version not in (self._switch.version, self._switch.pending):
                    self._planes.pop(version, None)
                    self._replanted()
            case ("join", int(version), topic) if version in self._planes:
                self._planes[version].retry(topic)
            case ("idle", int(version), topic) if version in self._planes:
                self._planes[version].on_idle(topic)
            case _:
                super().on_timer(timer)
        self._check_progress()

    def on_neighbour_lost(self, peer: int) -> None:
        for plane in self._planes.values():
            plane.on_lost(peer)
        if self._keeper is not None:
            self._keeper.lost(peer)
        if self._coordinator is not None:
            self._reported.pop(peer, None)
            self._coordinator.on_lost(peer)
        self._check_progress()

    # --- what the keeper of events asks (Forest) ---

    def children_of(self, topic: Topic) -> Collection[int]:
        branches = (plane.branches.get(topic) for plane in self._planes.values())
        return {child: None for branch in branches if branch is not None for child in branch.children}

    def parent_of(self, topic: Topic) -> int | None:
        branch = self.plane.branches.get(topic)
        return None if branch is None else branch.parent

    def next_to_root(self, topic: Topic) -> int | None:
        return self.plane.router.next_hop(topic_key(topic))

    def has_spread(self, event_id: int) -> bool:
        return event_id in self._seen

    def spread_as_root(self, event: Event, hops: int, age_s: float) -> None:
        self.plane.spread(event, hops, None, age_s)

    def _replanted(self) -> None:
        if self._keeper is not None:
            self._keeper.replanted()

    # --- who is where, in which version ---

    def _here(self, asks: bool = False) -> wire.VersionHere:
        near = (*self.router.predecessors()[:2], *self.router.successors()[:2])
        return wire.VersionHere(self._switch.version, self.router.position, asks, self._is_sure, near)

    def _ping(self, peers: list[int]) -> None:
        self.send_all(peers, self._here())

    def _hear_of(self, contacts: tuple[tuple[int, int], ...]) -> None:
        """Hearsay may be of another version: it never moves a peer we know, and who is new is asked where it sits."""
        unknown = [contact for contact in contacts if self.router.position_of(contact[0]) is None]
        fresh = self.router.learn_all(unknown, is_hearsay=True)
        self.send_all(fresh, self._here(asks=True))
        if self._is_joining:
            self.send_all(fresh, AskState(self.router.position))

    def _on_here(self, source: int, message: wire.VersionHere) -> None:
        if message.version == self._switch.version:
            self._is_sure = self._is_sure or message.is_sure
            self._hear(source, message.position)
            self._hear_of(message.near)
            if message.asks:
                self._ping([source])
        elif message.is_sure and message.version > max(self._switch.version, self._switch.revoked):
            self._on_in_force(source, wire.OtherVersion(message.version, 0, False, -1))
        elif self._is_sure and not (message.is_sure and message.version in self._planes):
            self._correct(source)

    def _correct(self, source: int) -> None:
        """Tell a peer that uses another version which one is in force, and where it sat in it as far as we know."""
        position = self.router.position_of(source)
        if position is None:
            position = self._lost.get(source)
        version, revoked = self._switch.version, self._switch.revoked
        self.send(source, wire.OtherVersion(version, position or 0, position is not None, revoked))

    def _on_in_force(self, source: int, message: wire.OtherVersion) -> None:
        """Follow, if we know nothing better: freshly started, behind, or in a version that was taken back."""
        mine = self._switch.version
        is_newer = message.version > mine and message.version > self._switch.revoked
        if message.version == mine or not (is_newer or not self._is_sure or message.revoked >= mine):
            return
        if message.version in self._planes:
            return  # we are in the middle of a switch: the coordinator will say so too
        self._move_to(message)
        self._is_joining = True
        self.send(source, AskState(self.router.position))

    def _move_to(self, message: wire.OtherVersion) -> None:
        """Start again in another version: at the planned place, at the place we had, or at a place of our own."""
        plan = self._plans.get(message.version)
        position = node_position(self.address, message.version)
        if plan is not None:
            position = plan.position
        elif message.is_known:
            position = message.position
        for topic in self._wants:
            self.plane.forget_join(topic)
        revoked = self._switch.revoked
        self._switch = Switch(self, message.version)
        self._switch.revoked = max(revoked, message.revoked)
        self._transfer = None
        self._is_sure = True
        self.router = self.make_router(position)
        if plan is not None:
            self.router.learn_all((neighbour.node, neighbour.position) for neighbour in plan.neighbours)
        left = dict.fromkeys(topic for plane in self._planes.values() for topic in plane.branches)
        self._planes = {}
        self._make_plane(message.version, self.router)
        if self._keeper is not None:
            for topic in left:
                self._keeper.fell_off(topic)
        self._ping(self.router.announce_targets())
        self.set_timer("rejoin", self._parameters.retry_s)

    # --- reconfiguration: the participant (Planes) ---

    def begin(self, version: int) -> bool:
        """INIT: a second plane from the plan, not yet following the subscriptions."""
        plan = self._plans.get(version)
        if plan is None:
            return False
        router = self.make_router(plan.position)
        router.learn_all((neighbour.node, neighbour.position) for neighbour in plan.neighbours)
        self._make_plane(version, router).is_open = False
        self._transfer = None
        return True

    def work(self, version: int, step: SwitchStep) -> bool:
        plane = self._planes[version]
        old = self._planes[self._switch.old]
        if step is SwitchStep.OVERLAY:
            if plane.router.position != old.router.position:
                self.send_all(plane.router.announce_targets(), wire.Announce(version, plane.router.position))
            return True
        if step is SwitchStep.PUBSUB:
            self._transfer = Transfer(self, old, plane, self._parameters.retry_s)
            self._transfer.begin()
            return self._transfer.is_done
        if self._transfer is not None:
            self._transfer.repair(self._wants)
        return not plane.joining

    def use(self, version: int) -> None:
        plane = self._planes[version]
        self.router = plane.router
        for branch in plane.branches.values():
            branch.heard_s = self.now_s
        self._replanted()

    def drop(self, version: int) -> None:
        self.set_timer(("drop", version), GRACE_S)
        self._transfer = None
        self._propose()

    def _on_adopt(self, source: int, message: wire.Adopt, plane: RingPlane) -> None:
        for topic, epoch in message.edges:
            plane.adopted_by(source, topic, epoch)
        self.send(source, wire.Adopted(message.version))

    def _on_transfer(self, source: int, message: wire.Handover | wire.HandoverTaken | wire.Adopted) -> None:
        transfer = self._transfer
        if transfer is None or message.version != self._switch.pending:
            return  # not there yet: it will come again
        if isinstance(message, wire.Handover):
            transfer.route(message)
        elif isinstance(message, wire.HandoverTaken):
            transfer.taken()
        else:
            transfer.adopted(source)
        self._check_progress()

    def _check_progress(self) -> None:
        """Say so when the work of the current step has come to its end."""
        switch = self._switch
        if switch.pending < 0:
            return
        is_handed_over = switch.step is SwitchStep.PUBSUB and self._transfer is not None and self._transfer.is_done
        is_repaired = switch.step is SwitchStep.REPAIR and not self._planes[switch.pending].joining
        if switch.step is not None and (is_handed_over or is_repaired):
            self._answer(switch.done(switch.pending, switch.step))

    def _answer(self, message: SystemMessage | None, source: int | None = None) -> None:
        if message is None:
            return
        target = self._parameters.coordinator if source is None else source
        if target == self.address:
            self._coordinate(self.address, message)
        else:
            self.send(target, message)

    # --- reconfiguration: the coordinator ---

    def _report(self) -> None:
        switch = self._switch
        report = SwitchReport(switch.version, switch.pending, switch.participants if switch.pending >= 0 else ())
        if self._coordinator is None:
            self.send(self._parameters.coordinator, report)
        else:
            self._coordinate(self.address, report)

    def _propose(self) -> None:
        newest = max(self._plans)
        coordinator = self._coordinator
        if coordinator is None or newest <= max(self._switch.version, self._switch.revoked):
            return
        if self.now_s - self._started_s < REPORTED_HEARTBEATS * self._link_heartbeat_s:
            return  # not everybody has reported yet
        fresh_s = self.now_s - EXPIRY_HEARTBEATS * self._link_heartbeat_s
        participants = sorted(peer for peer, heard_s in self._reported.items() if heard_s >= fresh_s)
        coordinator.begin(newest, participants)

    def _coordinate(self, source: int, message: SystemMessage) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            return
        if isinstance(message, Done):
            coordinator.on_done(source, message)
        elif isinstance(message, UnknownVersion):
            coordinator.on_refused(source, message)
        elif isinstance(message, ToldVersion):
            coordinator.on_told(source, message)
        elif isinstance(message, SwitchReport):
            self._reported.pop(source, None)
            self._reported[source] = self.now_s
            if message.pending >= 0 and coordinator.is_idle:
                coordinator.resume(message.pending, message.participants)

    def state(self) -> NodeState:
        branches = self.plane.branches.items()
        return NodeState(
            links=tuple(self.router.announce_targets()),
            parents=tuple((topic, branch.parent) for topic, branch in branches if branch.parent is not None),
            children=tuple((topic, child) for topic, branch in branches for child in branch.children),
            memberships=tuple(self._wants),
        )
