"""More promises, asked as the judge asks: shared subscriptions, wills, messages that expire.

shared   with nothing broken, every message goes to exactly one of those who share a subscription (while nodes and
         members come and go, which node's turn it is may be seen differently: that is not promised)
will     comes if its client's connection breaks, to whoever listened; never without cause
expired  whoever comes after a message has expired does not get it
"""

from __future__ import annotations

from typing import Protocol

from coterie.mqtt.topics import filter_matches, split_shared
from coterie.sim.world.people import Person
from coterie.sim.world.record import Grant, Receipt, Uttered
from coterie.sim.world.world import World

LATE_US = 2_000_000  # a message on its way when it expired
DUE_US = 5_000_000  # its node, if it fell shortly before or after, may have taken a will with it


class Law(Protocol):
    """Who may what, at all times."""

    def may_publish(self, person: Person, topic: str) -> bool: ...
    def may_read(self, person: Person, topic: str) -> bool: ...
    def is_lawful(self, person: Person, grant: Grant) -> bool: ...


def check_turns(world: World, is_calm: bool, law: Law) -> None:
    if is_calm:
        _check_shares(world)
    for person in world.people:
        _check_will(world, person, is_calm)
        _check_expired(world, person)
    for text in missing_wills(world, law):
        world.record.violate("will", text)


def _check_shares(world: World) -> None:
    grants = [
        (person, grant) for person in world.people for grant in person.diary.grants if grant.filter.startswith("$share")
    ]
    for share in sorted({grant.filter for _, grant in grants}):
        members = [(person, grant) for person, grant in grants if grant.filter == share]
        since_us = max(grant.from_us for _, grant in members)
        bare = split_shared(share)[1]
        for one in world.record.uttered.values():
            is_due = one.asked_us > since_us and one.qos and one.acked_us >= 0 and filter_matches(bare, one.topic)
            if is_due and not (one.is_will or one.is_refused or one.expiry_s or one.is_unlawful):
                _check_share(world, members, share, one)


def _check_share(world: World, members: list[tuple[Person, Grant]], share: str, one: Uttered) -> None:
    world.record.checked["shared"] += 1
    count = sum(len(person.diary.got.get((one.number, grant.epoch), ())) for person, grant in members)
    if not 1 <= count <= 1 + (one.resends if one.qos == 1 or one.may_double else 0):
        world.record.violate("shared", f"message {one.number} came {count} times to those who share {share}")


def _check_will(world: World, person: Person, is_calm: bool) -> None:
    if not person.resident.will or not is_calm or person.diary.losses_us:
        return
    for other in world.people:
        world.record.checked["will"] += 1
        if any(one.number == person.will_number for one in other.diary.receipts):
            world.record.violate("will", f"{other.resident.name} got the will of {person.resident.name}, who is there")


def missing_wills(world: World, law: Law) -> list[str]:
    """Those that are due and have not come, and might be said and heard at all times."""
    found = []
    for person in world.people:
        if not law.may_publish(person, person.resident.will):
            continue
        hearers = [other for other in world.people if law.may_read(other, person.resident.will)]
        for due_us, node in person.diary.wills_due:
            if node in world.gone:  # and its will with it: nobody was told that it is kept
                continue
            if any(fell == node and abs(moment - due_us) < DUE_US for moment, fell in world.record.failures):
                continue
            for other in hearers:
                if _misses_will(world, law, person, other, due_us):
                    text = f"{other.resident.name} never got the will of {person.resident.name}"
                    found.append(f"{text}, whose connection broke at {due_us / 1e6:.3f} s")
    return found


def _misses_will(world: World, law: Law, person: Person, other: Person, due_us: int) -> bool:
    diary = other.diary
    is_there = other.wire is not None and not world.is_stranded(other)
    held = [one for one in diary.grants if _hears(one, person.resident.will, due_us, diary.epoch)]
    if not is_there or not any(law.is_lawful(other, one) for one in held):
        return False
    world.record.checked["will"] += 1
    return not any(one.number == person.will_number and one.time_us >= due_us for one in diary.receipts)


def _hears(grant: Grant, topic: str, due_us: int, epoch: int) -> bool:
    is_held = grant.until_us < 0 and grant.epoch == epoch and grant.qos > 0
    return is_held and grant.from_us < due_us and filter_matches(grant.filter, topic)


def _check_expired(world: World, person: Person) -> None:
    for receipt in person.diary.receipts:
        one = world.record.uttered.get(receipt.number)
        if one is None or not one.expiry_s or one.acked_us < 0 or one.acked_us - one.asked_us > LATE_US:
            continue
        world.record.checked["expired"] += 1
        if not _was_there(person, one, receipt):
            text = f"{person.resident.name} got {one.number}, which had expired before it came"
            world.record.violate("expired", text)


def _was_there(person: Person, one: Uttered, receipt: Receipt) -> bool:
    """Whether it was connected while the message was good, so that sending may have begun then."""
    last_us = one.acked_us + one.expiry_s * 1_000_000 + LATE_US
    return any(
        from_us <= last_us and (until_us < 0 or until_us >= one.asked_us)
        for from_us, until_us in person.diary.presences
    )
