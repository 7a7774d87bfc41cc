"""Nodes of a network with one part spoilt each, so that every checker of the simulator has something to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from coterie.broker.housekeeping import ALIVE_TIMER
from coterie.broker.machine import Broker
from coterie.broker.orders import Order, Persist
from coterie.broker.writes import DELIVERIES, META, Shelf
from coterie.protocol.system import System
from coterie.sim.world.scenario import Scenario
from coterie.sim.world.site import Machine
from coterie.sim.world.torture import Making, setups
from tests.sim.world.saboteurs import Saboteur

Spoil = Callable[[Any], None]


def nothing(*_: Any) -> None:
    pass


def never_compares(broker: Any) -> None:
    broker.recovery.on_digest = nothing


def takes_twice(broker: Any) -> None:
    """That something was had is forgotten at once, and all that is delivered is taken for the first."""
    broker.ordering.is_had = lambda topic, identifier: False
    broker.marks.has = lambda origin, topic, identifier: identifier == 0


def never_waits(broker: Any) -> None:
    broker.ordering._waits = lambda *about: False
    broker.delivering._is_late = lambda carried: False


def drops_qos_0(broker: Any) -> None:
    deliver = broker.delivering._deliver
    broker.delivering._deliver = lambda carried: deliver(carried) if carried.qos else 0


def hears_no_retained(broker: Any) -> None:
    broker.words.hear = nothing


def answers_in_part(broker: Any) -> None:
    """A subscription gets the first part of what is retained, and no other."""
    broker.sessions.answer_on = lambda now_s: broker.sessions.answers.owing.clear()


def reviews_nobody(broker: Any) -> None:
    """Rights that were taken away stay with who is connected, and with what was subscribed."""
    broker.clients.review = nothing
    broker.access.set = lambda *_: []


def always_its_turn(broker: Any) -> None:
    broker.delivering.in_turn = lambda match, identifier: match


def tells_no_wills(broker: Any) -> None:
    broker.publishing.publish_wills = broker.sessions.wills.clear


def tells_any_will(broker: Any) -> None:
    """Whatever its author may say by now."""
    sessions = broker.sessions

    def publish(session: Any, now_s: float) -> None:
        message = session.take_will(now_s)
        sessions.wills += [message] if message is not None else []

    sessions._publish_will = publish


def keeps_for_ever(broker: Any) -> None:
    spread = broker.publishing._spread
    broker.publishing._spread = lambda message, *rest: spread(
        msgspec.structs.replace(message, expires_at_s=None), *rest
    )


def never_rests(broker: Any) -> None:
    on_alive = broker.housekeeping.on_alive

    def busy(heard_count: int) -> None:
        for number in range(5):
            broker.turn.write(META, f"busy {number}", b"")
        on_alive(heard_count)

    broker._timers[ALIVE_TIMER] = lambda: busy(0)


def forgets_to_forget(broker: Machine) -> Machine:
    """What was delivered stays on the disk."""

    def spoil(orders: list[Order]) -> list[Order]:
        for order in orders:
            if isinstance(order, Persist):
                order.writes[:] = [one for one in order.writes if one[0] != DELIVERIES or one[2] is not None]
        return orders

    return Saboteur(broker, spoil)


# The rule that must find it, a system, and the first seed of that which does (counted from 0: within a thousand).
SPOILERS: dict[str, tuple[Spoil, str, str, int]] = {
    "never compares logs": (never_compares, "lost", "flooding", 2),
    "takes what it had": (takes_twice, "once", "flooding", 0),
    "never waits": (never_waits, "order", "star", 222),
    "drops QoS 0": (drops_qos_0, "suback", "flooding", 6),
    "hears no retained": (hears_no_retained, "retained", "flooding", 1),
    "reviews nobody": (reviews_nobody, "access", "flooding", 65),
    "always its turn": (always_its_turn, "shared", "flooding", 57),
    "tells no wills": (tells_no_wills, "will", "flooding", 0),
    "tells any will": (tells_any_will, "access", "flooding", 2873),
    "keeps for ever": (keeps_for_ever, "expired", "flooding", 2179),
    "never rests": (never_rests, "quiet", "flooding", 0),
}


def spoilt(scenario: Scenario, system_named: Callable[[str], System], spoil: Spoil) -> Making:
    made = setups(scenario, system_named)

    def make(node: int, shelf: Shelf) -> Machine:
        broker = Broker(made[node], shelf)
        spoil(broker)
        return broker

    return make


def hoarding(scenario: Scenario, system_named: Callable[[str], System]) -> Making:
    made = setups(scenario, system_named)
    return lambda node, shelf: forgets_to_forget(Broker(made[node], shelf))
