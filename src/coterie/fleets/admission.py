"""A newcomer's place by what it first asks for: one entry of the map and one connection ended, if that pays.

Alone and without any plan this keeps like with like (a new client goes where its topics already are); with a plan it
keeps the plan from decaying. The deciding part is a pure function of the layout; `Admitter` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.fleets.audience import Audience, matched, topic_rates
from coterie.fleets.balancer import LiveBalancer, Seat
from coterie.fleets.export import haproxy, mosquitto_acl
from coterie.fleets.fleet import BrokerFleet, FleetLimits
from coterie.fleets.layout import FleetLayout
from coterie.fleets.record import write_whole
from coterie.fleets.telling import tell

QUIET_S = 1.0  # a client that has asked for nothing new for so long has said what it wants


@dataclass(frozen=True)
class Admission:
    """Where a client should go, and what that saves."""

    client: str
    origin: str
    home: str
    saves_per_s: float  # copies


class Places:
    """What each broker's clients want, how many they are, and what one more would cost there."""

    def __init__(self, layout: FleetLayout, hub: str, limits: FleetLimits) -> None:
        self.layout, self.hub, self.limits = layout, hub, limits
        self.rates = topic_rates(layout)
        self._readers: dict[str, dict[str, int]] = {broker: {} for broker in layout.brokers}
        self._published: dict[str, dict[str, float]] = {broker: {} for broker in layout.brokers}
        self._wants: dict[str, tuple[str, ...]] = {}
        self.connections = dict.fromkeys(layout.brokers, 0)
        for client, broker in layout.home.items():
            self._wants[client] = matched(layout.wishes.get(client, ()), self.rates)
            self._seat(client, broker, 1)

    def _seat(self, client: str, broker: str, sign: int) -> None:
        self.connections[broker] += sign
        for topic in self._wants[client]:
            self._readers[broker][topic] = self._readers[broker].get(topic, 0) + sign
        for topic, rate in self.layout.publishes.get(client, {}).items():
            self._published[broker][topic] = self._published[broker].get(topic, 0.0) + sign * rate

    def cost(self, client: str, broker: str) -> float:
        """Copies per second because this client is at this broker (it must not be counted as being there)."""
        readers, own = self._readers, self.layout.publishes.get(client, {})
        copies = 0.0
        for topic in self._wants[client]:
            if broker != self.hub and not readers[broker].get(topic):
                copies += self.rates[topic] - own.get(topic, 0.0) - self._published[broker].get(topic, 0.0)
        for topic, rate in own.items():
            others = sum(
                bool(readers[other].get(topic)) for other in self.layout.brokers if other not in (broker, self.hub)
            )
            if self.hub:
                copies += rate * (others + (broker != self.hub))
            else:
                copies += rate * others
        return copies

    def _rank(self, client: str, broker: str) -> tuple[float, bool, int, str]:
        """Fewest copies; of equals not the hub, which has enough to do, and the emptiest."""
        return self.cost(client, broker), broker == self.hub, self.connections[broker], broker

    def weight(self, client: str) -> float:
        """Copies per second because this client is where it is."""
        home = self.layout.home[client]
        self._seat(client, home, -1)
        found = self.cost(client, home)
        self._seat(client, home, 1)
        return found

    def admit(self, client: str) -> Admission | None:
        """A better place within the limits, if going there has paid after the horizon."""
        origin = self.layout.home[client]
        self._seat(client, origin, -1)
        limit = self.limits.clients_max * (sum(self.connections.values()) + 1) / len(self.connections)
        now = self.cost(client, origin)
        open_to_it = [
            one for one in self.layout.brokers if one != origin and self.connections[one] + 1 <= max(limit, 1)
        ]
        best = min(open_to_it, key=lambda one: self._rank(client, one), default=None)
        saves = now - self.cost(client, best) if best is not None else 0.0
        pays = best is not None and saves * self.limits.horizon_s > self.limits.move_price
        self._seat(client, best if pays and best is not None else origin, 1)
        return Admission(client, origin, best, saves) if pays and best is not None else None


class Admitter:
    """Admits the clients of one fleet behind HAProxy; `step` whenever the journal may have news."""

    def __init__(self, fleet: BrokerFleet, audience: Audience, is_star: bool, is_dry: bool = False) -> None:
        assert fleet.balancer is not None
        self.fleet, self.audience, self._is_star, self._is_dry = fleet, audience, is_star, is_dry
        self.balancer = LiveBalancer(fleet.balancer, fleet.limits.patience_s)
        self._judged: dict[str, float] = {}  # client -> the change that was looked at

    def newcomers(self, homes: Mapping[str, str], seats: Mapping[str, Seat]) -> list[str]:
        """Connected clients without a place in the map that have just said what they want."""
        quiet_s = self.audience.clock() - QUIET_S
        return [
            client
            for client, one in sorted(self.audience.clients.items())
            if client not in homes
            and client in seats
            and seats[client].session
            and not seats[client].is_lasting
            and seats[client].broker in self.fleet.names
            and one.changed_s <= quiet_s
            and self._judged.get(client) != one.changed_s
        ]

    def step(self, budget: int) -> list[Admission]:
        """Look at the newcomers; at most `budget` of them are moved."""
        homes, seats = self.balancer.homes(), self.balancer.seats()
        waiting = self.newcomers(homes, seats)[: max(budget, 0)]
        if not waiting:
            return []
        at = {client: seat.broker for client, seat in seats.items() if seat.broker in self.fleet.names}
        layout = self.audience.layout(self.fleet.names, at)
        places = Places(layout, self.fleet.hub if self._is_star else "", self.fleet.limits)
        found = []
        for client in waiting:
            self._judged[client] = self.audience.clients[client].changed_s
            admission = places.admit(client) if client in layout.home else None
            if not self._is_dry:
                self._serve(client, admission.home if admission else layout.home.get(client, ""))
                if admission:
                    self._carry_out(admission, seats[client])
            if admission:
                found.append(admission)
        return found

    def _serve(self, client: str, broker: str) -> None:
        """Where the hub's list prunes, the client's wishes must be on it before it comes."""
        hub = self.fleet.named(self.fleet.hub) if self._is_star else None
        if hub is None or hub.acl is None or broker in ("", hub.name):
            return
        text, probe = hub.acl.read_text(), self.fleet.probe.topic
        reads = mosquitto_acl.in_block(text, probe)
        user = self.fleet.named(broker).bridge_name
        wishes = mosquitto_acl.plain(self.audience.clients[client].wishes)
        if reads is None or set(wishes) <= set(reads.get(user, ())) or "#" in reads.get(user, ()):
            return
        reads[user] = (*reads.get(user, ()), *wishes)
        write_whole(hub.acl, mosquitto_acl.outside(text) + mosquitto_acl.block(reads, probe))
        tell(self.fleet, hub.name)

    def _carry_out(self, admission: Admission, seat: Seat) -> None:
        """The file first: what the socket is told is forgotten at a restart."""
        assert self.fleet.balancer is not None
        path = self.fleet.balancer.map
        homes = haproxy.homes_in(path.read_text()) if path.is_file() else {}
        write_whole(path, haproxy.map_text({**homes, admission.client: admission.home}))
        self.balancer.set_home(admission.client, admission.home)
        self.balancer.end([seat])
