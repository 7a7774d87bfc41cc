"""Whose sessions are on the disks, and what is kept in them: the rules of access where nobody is looking.

owner      a session on a disk belongs to a user who comes with its identifier, and nobody else was ever let into it;
           every filter in it is covered by a rule of that user, every group by `share`, and whatever waits in it may be
           read by that user

Worked out from the scenario alone, apart from the code that is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from coterie.broker.carried import decode_carried
from coterie.broker.writes import DELIVERIES, MESSAGES, SESSIONS, SUBSCRIPTIONS, DeliveryRow, SessionRow
from coterie.mqtt.packets import Subscription
from coterie.sim.world.disk import Disk
from coterie.sim.world.people import Person
from coterie.sim.world.scenario import Tenant
from coterie.sim.world.world import World

MayRead = Callable[[Person, str], bool]
OPEN_SHARE = ("+",)


def check_owners(world: World, may_read: MayRead) -> None:
    """Add to the record what is on a disk and should not be."""
    tenants = {one.name: one for one in world.scenario.users}
    for site in world.sites:
        if site.node in world.gone:
            continue
        for text in wrongs(site.disk, world.people, tenants, may_read):
            world.record.violate("owner", f"node {site.node}: {text}")
        world.record.checked["owner"] += len(site.disk.tables[SESSIONS])


def wrongs(disk: Disk, people: list[Person], tenants: dict[str, Tenant], may_read: MayRead) -> Iterator[str]:
    holders: dict[str, Person] = {}  # client identifier -> the one whose session is here
    for client, value in disk.tables[SESSIONS].items():
        owner = msgspec.msgpack.decode(value, type=SessionRow).owner or ""
        found = [one for one in people if one.resident.name == client and one.resident.user == owner]
        if not found:
            yield f"the session of {client} belongs to {owner or 'nobody'}, who never came with that name"
            continue
        holders[client] = found[0]
    for (client, _), value in disk.tables[SUBSCRIPTIONS].items():
        if client in holders:
            wanted = msgspec.msgpack.decode(value, type=Subscription).filter
            if not may_subscribe(holders[client], wanted, tenants, may_read):
                yield f"{client} of {holders[client].resident.user or 'nobody'} is subscribed to {wanted}"
    for (client, _), value in disk.tables[DELIVERIES].items():
        body = disk.tables[MESSAGES].get(msgspec.msgpack.decode(value, type=DeliveryRow).message)
        if client in holders and body is not None:
            topic = decode_carried(body).topic
            if not may_read(holders[client], topic):
                yield f"a message on {topic} waits for {client} of {holders[client].resident.user or 'nobody'}"


def may_subscribe(person: Person, topic_filter: str, tenants: dict[str, Tenant], may_read: MayRead) -> bool:
    """Whether the person may read whatever the filter matches: the widest names that it has are tried."""
    if topic_filter.startswith("$share/"):
        _, group, topic_filter = topic_filter.split("/", 2)
        tenant = tenants.get(person.resident.user)
        share = OPEN_SHARE if tenant is None else tenant.share
        if "+" not in share and group not in share:
            return False
    # Levels that no rule names: only a rule with a wildcard there can have allowed them.
    names = {
        topic_filter.replace("+", "no rule names this").removesuffix("/#").removesuffix("#") or "no rule names this"
    }
    if topic_filter.endswith("#"):
        names |= {f"{name}/no rule/names this" for name in names}
    return all(may_read(person, name) for name in names)
