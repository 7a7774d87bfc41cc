"""Connections: a client's with its node, and two nodes' with each other; each end is told what a driver would tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.broker.facts import (
    Bytes,
    Choked,
    Closed,
    DialFailed,
    Drained,
    Fact,
    GotSocket,
    Knocked,
    Opened,
    PeerChoked,
    PeerDrained,
    PeerGone,
    PeerSaid,
    PeerUp,
)
from coterie.broker.frames import FrameReader
from coterie.errors import RemoteProtocolError
from coterie.sim.world.chance import Chance
from coterie.sim.world.people import Person
from coterie.sim.world.record import Chronicle
from coterie.sim.world.scenario import Scenario
from coterie.sim.world.site import Site
from coterie.sim.world.streams import Stream

LINE_BYTES = 32 << 10  # unread bytes that choke a client's connection
LINK_BYTES = 1 << 20
DOORS = 1 << 20  # numbers of those who are no members and connect as if they were
DIAL_US = 3_000_000
SILENCE_US = 25_000_000  # a system notices that the other machine is not there any more


class Roads(Protocol):
    """What connections need of the world."""

    now_us: int
    record: Chronicle
    scenario: Scenario

    def at(self, time_us: int, action: Callable[[], None]) -> None: ...


class ClientCall:
    """A client's connection. The node hears of it with its first bytes, and belongs to the life it has then."""

    def __init__(self, world: Roads, site: Site, person: Person, number: int, name: str, delay_us: int) -> None:
        """`name` is what its delays are drawn by: it must not depend on what others do."""
        chance = Chance(world.scenario.seed, name)
        self.number, self.site, self.person = number, site, person
        self.life = -1  # of the site that took it
        self._world, self._chance, self._delay_us = world, chance, delay_us
        self._is_choked = False
        self._is_over = self._is_moving = False
        self._unread = b""  # what came while it moved from one process to another
        self.up = Stream(world, chance, delay_us, self._to_broker)
        self.down = Stream(world, Chance(world.scenario.seed, name + " down"), delay_us, self._to_person)
        self.down.on_end, self.down.is_dated = self._ended_by_broker, True

    # --- the person's end ---

    def send(self, data: bytes) -> None:
        self.up.send(data)

    @property
    def said_us(self) -> int:
        return self.down.said_us

    def doze(self, is_dozing: bool) -> None:
        (self.down.hold if is_dozing else self.down.release)("dozing")

    def leave(self, how: str) -> None:
        """The person goes; what it sent before arrives, if it said so or as chance will."""
        self.down.kill()
        if how == "said":
            self.up.on_end = self._tell_closed
            self.up.release("choked")
            self.up.end()
        elif how == "torn":
            self.up.tear(self._chance.share(self.up.sent))
            self._tell_closed()
        else:
            self.up.kill()  # nobody tells the node

    # --- the node's end ---

    @property
    def is_served(self) -> bool:
        return not self._is_over and self.site.broker is not None and self.site.life == self.life

    def _to_broker(self, data: bytes) -> None:
        if self._is_moving:
            self._unread += data
        if self._is_over or self._is_moving:
            return
        if self.life < 0:
            if self.site.broker is None:  # nobody listens
                self.cut()
                return
            self.life = self.site.life
            self.site.step(Opened(self.number, "127.0.0.1", is_movable=self._world.scenario.is_machine))
        if self.is_served:
            self.site.step(Bytes(self.number, data))

    def write(self, data: bytes) -> None:
        self.down.send(data)
        if self.down.unread_bytes > LINE_BYTES and not self._is_choked and self.is_served:
            self._is_choked = True
            self._world.record.choked += 1
            self.up.hold("choked")
            self._later(Choked(self.number))

    def _to_person(self, data: bytes) -> None:
        self.person.on_bytes(self, data)
        if self._is_choked and self.down.unread_bytes < LINE_BYTES // 2:
            self._is_choked = False
            self._later(Drained(self.number))
            self.up.release("choked")

    def _later(self, fact: Fact) -> None:
        """Facts that an order causes come after the orders of its turn, as they do from a loop."""
        self._world.at(self._world.now_us, lambda: self.site.step(fact) if self.is_served else None)

    def close(self) -> None:
        """The node ends it behind what it wrote."""
        self.down.end()
        self.up.kill()
        self._tell_closed()

    def pause(self, is_paused: bool) -> None:
        (self.up.hold if is_paused else self.up.release)("paused")

    def move(self, site: Site, line: int, number: int, lines: dict[tuple[int, int], ClientCall]) -> None:
        """To another process: what was not read yet waits for it; it ends if nobody is there to take it."""
        source, self.number, self.site, self.life = self.site.node, line, site, site.life
        self._is_moving = True

        def land() -> None:
            self._is_moving = False
            if not self.is_served:
                self.node_fell()
                return
            lines[site.node, line] = self
            self.person.moved(self, source, site.node)
            site.step(GotSocket(line, "127.0.0.1", source, number))
            self.up.release("paused")
            self.up.release("choked")
            if self._unread:
                site.step(Bytes(line, self._unread))

        self._world.at(self._world.now_us + self._chance.number(self.up.sent + 11, 4 * self._delay_us), land)

    def _ended_by_broker(self) -> None:
        self.person.on_lost(self)

    def _tell_closed(self) -> None:
        def tell() -> None:
            if self._is_moving:
                self._tell_closed()
            elif self.is_served:
                self._is_over = True
                self.site.step(Closed(self.number))

        self._world.at(self._world.now_us + self._delay_us, tell)

    # --- both ---

    def cut(self) -> None:
        """It breaks; each side gets a part of what was under way to it, and hears of the end some time later."""
        self.up.tear(self._chance.share(self.up.sent + 5))
        self.down.tear(self._chance.share(self.down.sent + 7))
        self._tell_closed()
        self._world.at(self._world.now_us + self._delay_us, lambda: self.person.on_lost(self))

    def node_fell(self) -> None:
        self._is_over = True
        self.up.kill()
        self.down.tear(self._chance.share(self.down.sent + 9))
        self._world.at(self._world.now_us + self._delay_us, lambda: self.person.on_lost(self))


class End:
    """One node's end of a link: whether its broker was told that the peer is there."""

    def __init__(self, site: Site, peer: int) -> None:
        self.site, self.peer, self.life = site, peer, site.life
        self.is_up = False
        self.is_choked = False
        self.is_door = False
        self.reader = FrameReader()

    @property
    def is_alive(self) -> bool:
        return self.is_up and self.site.broker is not None and self.site.life == self.life


class Link:
    """A connection of two nodes: there is at most one that lives; an end that outlived its other end is told so."""

    def __init__(self, world: Roads, sites: tuple[Site, Site], name: str, delay_us: int) -> None:
        first, second = sites
        seed = world.scenario.seed
        chance = Chance(seed, name)
        self.ends = (End(first, second.node), End(second, first.node))
        self.is_dialling = True
        self._world, self._chance, self._delay_us = world, chance, delay_us
        self.streams = tuple(
            Stream(world, Chance(seed, f"{name} {index}"), delay_us, self._taker(1 - index)) for index in (0, 1)
        )  # the first carries from the first node to the second
        for index in (0, 1):
            self.streams[index].on_end = self._goner(1 - index)

    def _taker(self, index: int) -> Callable[[bytes], None]:
        def take(data: bytes) -> None:
            end = self.ends[index]
            other = self.ends[1 - index]
            if end.is_alive:
                try:
                    frames = end.reader.feed(data)
                except RemoteProtocolError as error:
                    self._world.record.violate("protocol", f"node {end.site.node} was told nonsense: {error}")
                    return
                if frames and end.is_door:
                    end.site.step(Knocked(DOORS + end.peer, end.peer, frames))
                elif frames:
                    end.site.step(PeerSaid(end.peer, frames))
            if other.is_choked and self.streams[1 - index].unread_bytes < LINK_BYTES // 2:
                other.is_choked = False
                self._later(other, PeerDrained(other.peer))

        return take

    def _goner(self, index: int) -> Callable[[], None]:
        return lambda: self.gone(index, "the peer hung up")

    def established(self) -> None:
        self.is_dialling = False
        for end in self.ends:
            end.life = end.site.life
            end.is_up = True
            broker = end.site.broker
            end.is_door = broker is not None and not broker.may_link(end.peer)  # it is no member there
            self._later(end, Knocked(DOORS + end.peer, end.peer, []) if end.is_door else PeerUp(end.peer))

    def dialled_by(self, node: int) -> None:
        """That one tries, too; it may have been started since the other one began."""
        end = self.ends[0] if self.ends[0].site.node == node else self.ends[1]
        end.life = end.site.life

    def failed(self, dialled: tuple[int, ...]) -> None:
        self.is_dialling = False
        for end in self.ends:
            if end.site.node in dialled and end.site.broker is not None and end.site.life == end.life:
                end.site.step(DialFailed(end.peer, "cannot be reached"))

    def _later(self, end: End, fact: Fact) -> None:
        self._world.at(self._world.now_us, lambda: end.site.step(fact) if end.is_alive else None)

    def tell(self, node: int, data: bytes) -> None:
        index = 0 if self.ends[0].site.node == node else 1
        end, stream = self.ends[index], self.streams[index]
        if not end.is_alive:
            return
        stream.send(data)
        if stream.unread_bytes > LINK_BYTES and not end.is_choked:
            end.is_choked = True
            self._later(end, PeerChoked(end.peer))

    def gone(self, index: int, reason: str) -> None:
        """This end hears that it is over."""
        end = self.ends[index]
        if end.is_alive:
            end.is_up = False
            if not self.streams[index].is_ending:
                self.streams[index].kill()
            if not end.is_door:
                end.site.step(PeerGone(end.peer, reason))

    def hang_up(self, node: int, is_abrupt: bool) -> None:
        index = 0 if self.ends[0].site.node == node else 1
        (self.streams[index].kill if is_abrupt else self.streams[index].end)()
        self.streams[1 - index].kill()
        self._world.at(self._world.now_us + self._delay_us, lambda: self.gone(index, "hung up"))
        if is_abrupt:
            self._world.at(self._world.now_us + 2 * self._delay_us, lambda: self.gone(1 - index, "reset"))

    def snap(self) -> None:
        for index in (0, 1):
            self.streams[index].tear(self._chance.share(self.streams[index].sent))
            self._world.at(self._world.now_us + self._delay_us, self._breaker(index))

    def _breaker(self, index: int) -> Callable[[], None]:
        return lambda: self.gone(index, "broken")

    def node_fell(self, node: int, is_silent: bool) -> None:
        """A process that is killed leaves its system to say so; a machine without power says nothing."""
        index = 0 if self.ends[0].site.node == node else 1
        self.ends[index].is_up = False
        self.streams[1 - index].kill()
        if is_silent:
            self.streams[index].kill()
            self._world.at(self._world.now_us + SILENCE_US, lambda: self.gone(1 - index, "timed out"))
        else:
            self.streams[index].tear(self._chance.share(self.streams[index].sent))
            self._world.at(self._world.now_us + self._delay_us, self._breaker(1 - index))

    @property
    def is_over(self) -> bool:
        return not self.is_dialling and not any(end.is_alive for end in self.ends)
