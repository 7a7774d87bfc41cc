"""All of it put together: one agenda of moments in whole microseconds, carried out one after the other."""

from __future__ import annotations

import heapq
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from coterie.broker.commands import Command, LoadPlan, StartPlan, SwitchPlan
from coterie.broker.writes import SESSIONS, Shelf
from coterie.errors import ConfigError, CoterieError
from coterie.plans.orders import PlanPart
from coterie.sim.world.attendance import Attendance
from coterie.sim.world.chance import Chance
from coterie.sim.world.disk import Disk
from coterie.sim.world.links import DIAL_US, DOORS, ClientCall, Link
from coterie.sim.world.outages import AFTER_US, Outages
from coterie.sim.world.people import ClientEnd, Person
from coterie.sim.world.record import Chronicle, Diary
from coterie.sim.world.scenario import (
    Action,
    Arrive,
    Clockwork,
    Depart,
    Dismiss,
    Doze,
    Enlist,
    Fell,
    Listen,
    Raise,
    Regrant,
    Replan,
    Resident,
    Retire,
    Scenario,
    Sever,
    Snap,
    Spoil,
    Tear,
    Tenant,
    Unlisten,
    Utter,
)
from coterie.sim.world.site import SLOW, Machine, Site

Plans = Callable[[str, int, list[int]], list[PlanPart]]  # the parts of a plan of this system, generation and nodes
Rights = Callable[[int, tuple[Tenant, ...]], Command | None]  # what tells a node who may what from now on
START_US, SWITCH_US = 500_000, 4_000_000  # after a plan was handed out
APPLIED = 100  # from one plan that an operator applies to the next: what the network counts on by itself is in between
RESET_US = 500_000  # between two tries to say that a connection is not known
REPAIR_US = 1_000_000  # how long an operator takes to start a node that failed


class World:
    """A scenario at work; `run_until`, then `heal`, and look at `record`."""

    def __init__(
        self,
        scenario: Scenario,
        make: Callable[[int, Shelf], Machine],
        plans: Plans = lambda *_: [],
        rights: Rights = lambda *_: None,
    ) -> None:
        self.scenario, self._plans, self._rights = scenario, plans, rights
        self.eras: list[tuple[int, tuple[Tenant, ...]]] = [(0, scenario.users)]  # from when on who may what
        self._applied = 0
        self.now_us = 0
        self.fact_count = 0
        self.record = Chronicle(len(scenario.residents))
        self.node_count = scenario.nodes
        seed = scenario.seed
        self._delay_us = max(1, int(scenario.delay_s * 1e6))
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._line_numbers = count(1)
        clocks = scenario.clocks + (Clockwork(),) * (scenario.nodes - len(scenario.clocks))
        self.sites = [
            Site(
                self, node, make, Disk(Chance(seed, f"disk {node}"), scenario.sync == "full", node), clocks[node],
                Chance(seed, f"site {node}"), int(scenario.disk_s * 1e6), int(scenario.linger_s * 1e6),
            )
            for node in range(scenario.nodes)
        ]  # fmt: skip
        self.people = [
            Person(self, who, one, Chance(seed, f"person {one.name}")) for who, one in enumerate(scenario.residents)
        ]
        self.told = [0] * scenario.nodes  # chunks that nodes sent to peers
        self.gone: set[int] = set()  # nodes that never come back
        self.outages = Outages()
        self.roster = Attendance(self, scenario.nodes, scenario.late)
        self.lines: dict[tuple[int, int], ClientCall] = {}  # (node, number)
        self.links: dict[tuple[int, int], Link] = {}
        self._dialled: dict[tuple[int, int], list[int]] = {}
        self._link_counts: dict[tuple[int, int], int] = {}
        self._cuts: dict[str, tuple[frozenset[int], bool]] = {}
        for action in scenario.actions:
            self.at(round(action.at_s * 1e6), self._doer(action))

    # --- time ---

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time_us, next(self._order), action))

    def run_until(self, time_s: float) -> None:
        until_us = round(time_s * 1e6)
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(heap)
            try:
                action()
            except (AssertionError, CoterieError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                self._note_crash()
        self.now_us = max(self.now_us, until_us)

    def _note_crash(self) -> None:
        """A broker raised: it never should, whatever clients and peers do."""
        lines = traceback.format_exc().strip().splitlines()
        self.record.violate("sound", f"{lines[-1]} ({lines[-3].strip() if len(lines) > 2 else ''})")
        self.record.say("\n".join(lines))

    # --- what happens ---

    def start(self) -> None:
        for site in self.sites:
            if site.node not in self.roster.unborn:
                site.start()

    def _doer(self, action: Action) -> Callable[[], None]:
        return lambda: self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Arrive():
                self.people[action.who].arrive(action.node)
            case Depart():
                self.people[action.who].depart(action.how)
            case Listen():
                self.people[action.who].wish(action.filter, action.qos)
            case Unlisten():
                self.people[action.who].unwish(action.filter)
            case Utter():
                self.people[action.who].utter(action)
            case Enlist():
                self.record.injected["enlist"] += 1  # the network changes over to a plan with it, as by an operator
                self.roster.enlist(action.node, action.via)
            case _:
                self._harm(action)

    def _harm(self, action: Action) -> None:
        self.record.injected[type(action).__name__.lower() + (f" {action.how}" if hasattr(action, "how") else "")] += 1
        match action:
            case Doze():
                person = self.people[action.who]
                person.doze(True)
                self.at(self.now_us + round(action.for_s * 1e6), lambda: person.doze(False))
            case Tear():
                wire = self.people[action.who].wire
                if isinstance(wire, ClientCall):
                    wire.cut()
            case Fell():
                if action.how == "gone":
                    self.gone.add(action.node)
                self.fell(action.node, action.how != "kill")
            case Raise():
                if action.node not in self.gone:
                    self.raise_node(action.node)
            case Spoil():
                self._spoil(action)
            case Sever():
                name = f"sever {action.at_s}"
                self._sever(name, frozenset(action.nodes), action.is_one_way)
                self.at(self.now_us + round(action.for_s * 1e6), lambda: self._mend(name))
            case Replan():
                self._replan(action.system)
            case Retire():
                self.roster.retire(action.node)
            case Dismiss():
                self.roster.dismiss(action.node)
            case Regrant():
                self.eras.append((self.now_us, action.users))
                for site in self.sites:
                    self._grant(site.node)
            case Snap():
                link = self.links.get(pair(action.node, action.peer))
                if link is not None and not link.is_dialling:
                    link.snap()

    def _spoil(self, action: Spoil) -> None:
        site = self.sites[action.node]
        disk = site.disk
        self.outages.begin(f"spoil {action.at_s}", self.now_us, frozenset([action.node]), is_disk=action.how == "slow")
        if action.how == "slow":
            disk.slowness = SLOW
        else:
            disk.is_full = True

        def good() -> None:
            disk.slowness, disk.is_full = 1.0, False
            self.outages.end(f"spoil {action.at_s}", max(self.now_us, site.last_safe_us))

        self.at(self.now_us + round(action.for_s * 1e6), good)

    def _replan(self, system: str) -> None:
        """As `coterie apply` does it: hand out the parts, start them everywhere, then one node spreads the switch."""
        self._applied += 1
        generation = APPLIED * self._applied
        for part in self._plans(system, self._applied, self.roster.present):
            self.command(part.slice.node, LoadPlan(part))
        for site in self.sites:
            self.at(self.now_us + START_US, self._commander(site.node, StartPlan(generation)))
        self.at(self.now_us + SWITCH_US, self._commander(self.roster.present[0], SwitchPlan(generation)))

    def _rights_now(self, node: int) -> Command | None:
        return self._rights(node, self.eras[-1][1]) if len(self.eras) > 1 else None

    def _grant(self, node: int) -> None:
        if (command := self._rights_now(node)) is not None:
            self.command(node, command)

    def _commander(self, node: int, command: Command) -> Callable[[], None]:
        return lambda: self.command(node, command)

    def command(self, node: int, command: Command) -> None:
        with suppress(ConfigError):  # it was down when the plan was handed out, or has a newer one: an operator is told
            self.sites[node].step(command)

    # --- nodes ---

    def fell(self, node: int, with_power: bool) -> None:
        site = self.sites[node]
        if site.broker is None:
            return
        site.fall(with_power)
        self.outages.begin(f"node {node}", self.now_us, frozenset([node]))
        for key in [key for key in self.lines if key[0] == node]:
            self.lines.pop(key).node_fell()
        for ends, link in list(self.links.items()):
            if node not in ends:
                continue
            if link.is_dialling:
                del self.links[ends]
                self.at(self.now_us + self._delay_us, self._failer(link, tuple(self._dialled[ends])))
            else:
                link.node_fell(node, with_power)

    def _failer(self, link: Link, dialled: tuple[int, ...]) -> Callable[[], None]:
        return lambda: link.failed(dialled)

    def raise_node(self, node: int) -> None:
        """Whoever still believes in a connection with its last life learns better."""
        if self.sites[node].broker is not None or node in self.roster.unborn | self.roster.left:
            return
        old = [link for ends, link in self.links.items() if node in ends and not link.is_dialling]
        self.sites[node].start(self._rights_now(node))
        self.outages.end(f"node {node}", self.now_us)
        for link in old:
            self.at(self.now_us + self._delay_us, self._resetter(link, node))

    def _resetter(self, link: Link, node: int) -> Callable[[], None]:
        other = 0 if link.ends[1].site.node == node else 1

        def reset() -> None:
            if self._is_cut(node, link.ends[other].site.node):  # it is told, but does not hear it yet
                self.at(self.now_us + RESET_US, reset)
            else:
                link.gone(other, "reset")

        return reset

    def failed(self, node: int, reason: str) -> None:
        """A broker gave up. With a full disk that is right, and somebody starts it again; otherwise it is not."""
        if not self.sites[node].disk.is_full:
            self.record.violate("sound", f"node {node} gave up: {reason}")
        self.fell(node, False)
        self._repair(node)

    def _repair(self, node: int) -> None:
        def again() -> None:
            if node in self.gone:
                return
            if self.sites[node].disk.is_full:
                self._repair(node)
            else:
                self.raise_node(node)

        self.at(self.now_us + REPAIR_US, again)

    # --- clients ---

    def connect(self, person: Person, node: int, attempt: int) -> ClientEnd:
        person.node = node = self.roster.near(node)
        number = next(self._line_numbers)
        name = f"line {person.resident.name} {attempt}"
        line = ClientCall(self, self.sites[node], person, number, name, self._delay_us)
        self.lines[node, number] = line
        return line

    def is_stranded(self, person: Person) -> bool:
        """Whether its node is gone for good; or more are, and not removed, than there are copies of a session to spare:
        then nobody can know that it is not theirs, and nobody says that it has none."""
        if person.node in self.gone:
            return True
        return not person.client.is_connected and len(self.roster.silent) >= self.scenario.copies

    def is_bereft(self, person: Person) -> bool:
        """Whether the only copy of its session is gone, with its node or with who took it from one that left."""
        had = (person.resident.name in self.sites[node].disk.tables[SESSIONS] for node in self.gone)
        return self.scenario.copies == 1 and (person.last_node in self.gone or any(had))

    def copies_of(self, node: int, payload: bytes, asked_us: int, said_us: int) -> tuple[tuple[int, ...], int]:
        """(nodes that had it on disk, how many must): what an acknowledgement says that the node sent at `said_us`.

        What somebody has lost since then counts, for it may have said so before; if that was not long ago. With fewer
        in reach as many must as the node said that have it (`copies` of its health) ever since it was asked: the node
        that took it in, where another one, whom its client's session has come to, only says that it is known.
        """
        having = tuple(site.node for site in self.sites if site.disk.had(payload, said_us - AFTER_US, said_us))
        due = min(self.scenario.copies, len(self._in_reach(node, said_us)))
        here = self.sites[node]
        others = [] if here.disk.took_in(payload) else [site for site in self.sites if site.disk.took_in(payload)]
        return having, max(due, min(site.copies_said(asked_us, said_us) for site in others or [here]))

    def is_alone(self, node: int) -> bool:
        """Whether that node may have stopped waiting for as many copies as there should be."""
        return len(self._in_reach(node, self.now_us)) < min(self.scenario.copies, len(self.roster.members(node)))

    def was_parted(self, node: int, peer: int, since_us: int) -> bool:
        return self.outages.was_between(node, peer, since_us)

    def _in_reach(self, node: int, when_us: int) -> list[int]:
        """Nodes, itself first, that it must have waited for then."""
        roster = self.roster
        others = (one for one in roster.members(node) if one != node and one not in roster.leaving)
        others = (one for one in others if not roster.is_new(one, when_us))
        return [node, *(peer for peer in others if not self.outages.excuse(node, peer, when_us))]

    def write(self, node: int, line: int, data: bytes) -> None:
        if (found := self.lines.get((node, line))) is not None:
            found.write(data)

    def close(self, node: int, line: int) -> None:
        if (found := self.lines.get((node, line))) is not None:
            found.close()

    def pause(self, node: int, line: int, is_paused: bool) -> None:
        if (found := self.lines.get((node, line))) is not None:
            found.pause(is_paused)

    def pass_socket(self, node: int, line: int, peer: int, number: int) -> None:
        if (found := self.lines.pop((node, line), None)) is not None:
            self.record.passed += 1
            found.move(self.sites[peer], next(self._line_numbers), number, self.lines)

    # --- links ---

    def dial(self, node: int, peer: int) -> None:
        ends = pair(node, peer)
        link = self.links.get(ends)
        if link is not None and link.is_dialling:
            self._dialled[ends].append(node)
            link.dialled_by(node)
            return
        self._link_counts[ends] = number = self._link_counts.get(ends, 0) + 1
        old, sites = link, (self.sites[ends[0]], self.sites[ends[1]])
        link = Link(self, sites, f"link {ends} {number}", self._delay_us)
        self._dialled[ends] = [node]

        def answer() -> None:
            if self.links.get(ends) is not link:  # one of the two fell meanwhile
                return
            is_cut = self._is_cut(node, peer) or self._is_cut(peer, node)
            if self.sites[peer].broker is None or self.sites[node].broker is None or is_cut:
                link.failed(tuple(self._dialled[ends]))
                return
            if old is not None:
                for index in (0, 1):
                    old.gone(index, "replaced")
            link.established()
            for name, (nodes, is_one_way) in self._cuts.items():
                self._hold(link, name, nodes, is_one_way)

        self.links[ends] = link
        is_cut = self._is_cut(node, peer) or self._is_cut(peer, node)
        if is_cut:
            self.outages.dialled(node, peer, self.now_us, self.now_us + DIAL_US)
        self.at(self.now_us + (DIAL_US if is_cut else 3 * self._delay_us), answer)

    def tell(self, node: int, peer: int, data: bytes) -> None:
        link = self.links.get(pair(node, peer))
        if link is not None and not link.is_dialling:
            self.told[node] += 1
            link.tell(node, data)

    def hang_up(self, node: int, peer: int, is_abrupt: bool) -> None:
        link = self.links.get(pair(node, peer))
        if link is not None and not link.is_dialling:
            link.hang_up(node, is_abrupt)

    def answer(self, node: int, door: int, data: bytes) -> None:
        """To somebody who is no member: behind a link that is none, or not there yet."""
        if door < DOORS:
            self.roster.answer(node, door, data)
            self._grant(door)
            return
        link = self.links.get(pair(node, door - DOORS))
        if link is not None and not link.is_dialling:
            link.tell(node, data)
            link.hang_up(node, False)

    def left(self, node: int) -> None:
        self.roster.has_left(node)

    def is_between(self, node: int, peer: int) -> bool:
        """Whether something is between the two."""
        return self._is_cut(node, peer) or self._is_cut(peer, node) or self.sites[peer].broker is None

    # --- partitions ---

    def _sever(self, name: str, nodes: frozenset[int], is_one_way: bool) -> None:
        self._cuts[name] = (nodes, is_one_way)
        self.outages.begin(name, self.now_us, nodes)
        for link in list(self.links.values()):
            self._hold(link, name, nodes, is_one_way)

    def _hold(self, link: Link, name: str, nodes: frozenset[int], is_one_way: bool) -> None:
        first, second = (end.site.node for end in link.ends)
        if (first in nodes) == (second in nodes):
            return
        if first in nodes or not is_one_way:
            link.streams[0].hold(name)
        if second in nodes or not is_one_way:
            link.streams[1].hold(name)

    def _mend(self, name: str) -> None:
        if self._cuts.pop(name, None) is not None:
            self.outages.end(name, self.now_us)
            for link in list(self.links.values()):
                for stream in link.streams:
                    stream.release(name)

    def _is_cut(self, source: int, target: int) -> bool:
        return any(
            (source in nodes) != (target in nodes) and (source in nodes or not is_one_way)
            for nodes, is_one_way in self._cuts.values()
        )

    # --- the end of the storm ---

    def heal(self) -> None:
        """Everything that can come back does; every client that has a session to come back to, too."""
        for name in list(self._cuts):
            self._mend(name)
        for site in self.sites:
            site.disk.slowness, site.disk.is_full = 1.0, False
            if site.node not in self.gone and site.broker is None:
                self.raise_node(site.node)
        self.roster.heal()
        for person in self.people:
            person.doze(False)
            if person.node in self.gone or (person.resident.home in self.gone and not person.resident.roams):
                served = [site.node for site in self.sites if self.roster.is_served(site.node)]
                there = [node for node in served if node not in self.gone]
                if self.scenario.copies == 1 or not there:
                    continue
                person.depart("torn")  # wherever its node has gone, what it had there is elsewhere too
                person.settle_at(there[0])
            person.arrive(-1)

    def add_person(self, resident: Resident) -> Person:
        """Somebody who comes to look."""
        self.record.diaries.append(Diary(len(self.people)))
        person = Person(self, len(self.people), resident, Chance(self.scenario.seed, f"person {resident.name}"))
        self.people.append(person)
        return person


def pair(node: int, peer: int) -> tuple[int, int]:
    return (node, peer) if node < peer else (peer, node)
