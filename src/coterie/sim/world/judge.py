"""What was promised, asked of those it was promised to: people, disks and the scenario. Never of a broker.

lost       acknowledged at QoS 1 or 2 and owed: came at least once
once       QoS 2 not twice; QoS 1 twice only where a connection or a node failed in between
order      first receipts rise, for each publisher, topic and subscriber, from SUBACK on, while it publishes at one node
suback     owed is whatever was published after SUBACK; at QoS 0 too, where nothing was broken
session    (noted by people) CONNACK says "present" exactly when it must
retained   in the end the same at every node, and the last word that was acknowledged
access     nobody reads or writes what it may not
owner      (in `owners`) sessions on disks are their users', and hold only what those may read
sound      (noted by the world) no broker raises, nor gives up without cause
bounds     in the end no disk keeps what nobody waits for
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from coterie.broker.writes import DELIVERIES, INCOMING
from coterie.mqtt.topics import filter_matches, split_shared
from coterie.sim.world.owners import check_owners, may_subscribe
from coterie.sim.world.people import Person
from coterie.sim.world.record import Grant, Receipt, Uttered
from coterie.sim.world.scenario import Tenant
from coterie.sim.world.turns import DUE_US, check_turns
from coterie.sim.world.world import World

OPEN = Tenant("")
LEFT_MAX = 64  # deliveries whose end a node alone need not have written yet: it waits for something else to write
NOTICED_US = 5_000_000
TOLD_US = 2_000_000  # until everybody goes by other rights


class Judge:
    """The rules for one world, after its storm."""

    def __init__(self, world: World) -> None:
        self._world, self._record = world, world.record
        self._eras = [(from_us, {one.name: one for one in users}) for from_us, users in world.eras]
        self._matches: dict[tuple[str, str], bool] = {}

    def judge(self) -> None:
        """Add what was broken to the record, and how much was looked at."""
        for person in self._world.people:
            self._check_receipts(person)
            self._check_order(person)
        for who, one, grant in self.missing():
            name = self._world.people[who].resident.name
            rule = "lost" if one.qos and grant.qos else "suback"
            text = f"message {one.number} ({one.topic}, QoS {one.qos}) acknowledged at {one.acked_us / 1e6:.3f} s"
            self._record.violate(rule, f"{text} never reached {name}, subscribed to {grant.filter} since "
                                       f"{grant.from_us / 1e6:.3f} s")  # fmt: skip
        for one in self._record.uttered.values():
            one.is_unlawful = not self.may_publish(self._world.people[one.who], one.topic)
        check_turns(self._world, not self._record.injected and not self._record.choked, self)
        self._check_copies()
        self._check_disks()
        now_us = self._world.now_us  # what is kept must be lawful by the rights that hold in the end
        check_owners(self._world, lambda person, topic: self.may_read(person, topic, (now_us, now_us)))

    def _check_copies(self) -> None:
        """Nodes of a network keep what they acknowledged in their logs, whoever wants it; a node alone need not."""
        if self._world.node_count == 1:
            return
        for one in self._record.uttered.values():
            if self._world.scenario.is_machine and not self._must_last(one):
                continue
            if one.acked_us >= 0 and not one.is_refused and self.may_publish(self._world.people[one.who], one.topic):
                self._record.checked["kept"] += 1
                if len(one.copies) < one.copies_due:
                    text = f"message {one.number} was acknowledged at {one.acked_us / 1e6:.3f} s"
                    self._record.violate("kept", f"{text} with {len(one.copies)} of {one.copies_due} copies on disk")

    def _must_last(self, one: Uttered) -> bool:
        """Among processes of one machine, as on a node alone, only what outlives a connection is on disk: QoS 2 until
        it is released, what is retained, and what a session wants that lasts and that nobody took rights from."""
        if one.qos == 2 or one.retain:
            return True
        return any(
            grant.qos
            and grant.from_us < one.asked_us
            and (grant.until_us < 0 or grant.until_us > one.acked_us)
            and self.is_match(split_shared(grant.filter)[1], one.topic)
            and self.is_lawful(person, grant)
            for person in self._world.people
            if person.resident.is_lasting
            for grant in person.diary.grants
        )

    # --- lost, suback ---

    def missing(self) -> list[tuple[int, Uttered, Grant]]:
        """Everything that is owed and has not come."""
        found = []
        self._record.checked["owed"] = 0
        is_calm = not self._record.injected and not self._record.choked
        for person in self._world.people:
            diary = person.diary
            for one, grant in self._owed(person, is_calm):
                self._record.checked["owed"] += 1
                if (one.number, diary.epoch) not in diary.got:
                    found.append((person.who, one, grant))
        return found

    def _owed(self, person: Person, is_calm: bool) -> Iterator[tuple[Uttered, Grant]]:
        diary = person.diary
        grants = [one for one in diary.grants if one.until_us < 0 and one.epoch == diary.epoch]
        grants = [one for one in grants if self.is_lawful(person, one)]
        if person.wire is None or not grants or self._world.is_stranded(person):
            return  # it is not there, or has not noticed yet that nobody else is
        for one in self._record.uttered.values():
            if one.is_refused or (one.acked_us < 0 if one.qos else not is_calm) or not self._counts(one):
                continue
            if one.is_will or self._may_expire(one):
                continue
            for grant in grants:
                is_sure = (one.qos and grant.qos) or (is_calm and self._is_unbroken(person, one))
                if is_sure and grant.from_us < one.asked_us and self.is_match(grant.filter, one.topic):
                    if self.may_read(person, one.topic) and self.may_publish(self._world.people[one.who], one.topic):
                        yield one, grant
                    break

    def is_lawful(self, person: Person, grant: Grant) -> bool:
        """Whether its rights covered the filter at all times: else it may have been taken away as a whole."""
        tenants = self._eras[-1][1]
        return may_subscribe(person, grant.filter, tenants, self.may_read)

    def _may_expire(self, one: Uttered) -> bool:
        return 0 < one.expiry_s * 1_000_000 <= self._world.now_us - one.asked_us

    def _counts(self, one: Uttered) -> bool:
        """What only nodes had that never came back is nobody's fault: with more in reach, more had it (`kept`)."""
        gone = self._world.gone
        return one.acked_us < 0 or not one.qos or not one.copies or not gone.issuperset(one.copies)

    def _is_unbroken(self, person: Person, one: Uttered) -> bool:
        """Whether both ends have been connected since before it was said."""
        author = self._world.people[one.who]
        return all(end.client.is_connected and end.diary.since_us <= one.asked_us for end in (person, author))

    def is_match(self, topic_filter: str, topic: str) -> bool:
        key = (topic_filter, topic)
        if key not in self._matches:
            self._matches[key] = filter_matches(topic_filter, topic)
        return self._matches[key]

    # --- once, access, garbled ---

    def _check_receipts(self, person: Person) -> None:
        record, name = self._record, person.resident.name
        for receipt in person.diary.receipts:
            one = record.uttered.get(receipt.number)
            if one is None or one.topic != receipt.topic:
                record.violate("garbled", f"{name} got {receipt.number} on {receipt.topic}, which nobody said")
                continue
            record.checked["access"] += 1
            if not self.may_read(person, one.topic, (one.asked_us, receipt.time_us)):
                record.violate("access", f"{name} got {one.number} on {one.topic}, which it may not read")
            author = self._world.people[one.who]
            is_lawful = self.may_publish(author, one.topic, (one.asked_us, receipt.time_us))
            if not (self._may_have_willed(person, author, receipt) if one.is_will else is_lawful):
                record.violate("access", f"{one.number} of {author.resident.name} came through on {one.topic}")
        for (number, _), receipts in person.diary.got.items():
            one = record.uttered.get(number)
            if one is not None:
                record.checked["once"] += 1
                self._check_once(person, one, receipts)

    def _may_have_willed(self, person: Person, author: Person, receipt: Receipt) -> bool:
        """A will is said when its client's connection breaks, as it has since the last one came; its node may notice
        that before the client does."""
        will = author.resident.will
        came = [
            one.time_us
            for one in person.diary.got.get((receipt.number, receipt.epoch), ())
            if one.time_us < receipt.time_us
        ]
        said = [one for one in author.diary.losses_us if max(came, default=0) - NOTICED_US < one <= receipt.time_us]
        return not said or any(self.may_publish(author, will, (one - NOTICED_US, one + NOTICED_US)) for one in said)

    def _check_once(self, person: Person, one: Uttered, receipts: list[Receipt]) -> None:
        first = receipts[0]
        if one.is_will:
            self._check_will_once(person, one, receipts)
            return
        most = 1 + (one.resends if one.may_double or one.qos == 1 else 0)
        if first.qos < 2:  # each of those its author sent may come again wherever something broke
            again = sum(moment >= first.time_us for moment in person.diary.losses_us)
            most *= 1 + again + sum(moment >= one.asked_us for moment, _ in self._record.failures)
        else:  # while nobody could keep for its node, its session may have gone on elsewhere without what it had there
            most += sum(_is_forgotten(person, before, after) for before, after in pairwise(receipts))
        if len(receipts) > most:
            text = f"{person.resident.name} got {one.number} {len(receipts)} times at QoS {first.qos}"
            self._record.violate("once", f"{text}, at most {most} can be explained")

    def _check_will_once(self, person: Person, one: Uttered, receipts: list[Receipt]) -> None:
        """For each time that its client's connection broke; again where its node fell before that was on its disk."""
        until_us = receipts[-1].time_us + DUE_US  # its node may have noticed it first
        breaks = [moment for moment in self._world.people[one.who].diary.losses_us if moment <= until_us]
        fell = [when for when, _ in self._record.failures if any(abs(when - moment) < DUE_US for moment in breaks)]
        again = sum(moment >= receipts[0].time_us for moment in person.diary.losses_us)
        most = (len(breaks) + len(fell) or 1) * (1 + again)
        if len(receipts) > most:
            text = f"{person.resident.name} got the will of {self._world.people[one.who].resident.name}"
            self._record.violate("once", f"{text} {len(receipts)} times, at most {most} can be explained")

    # --- order ---

    def _check_order(self, person: Person) -> None:
        last: dict[tuple[int, int, str, int, int, tuple[int, ...]], Uttered] = {}
        seen: set[tuple[int, int]] = set()
        shares = any(grant.filter.startswith("$share") for grant in person.diary.grants)
        for receipt in person.diary.receipts:
            one = self._record.uttered.get(receipt.number)
            key = (receipt.number, receipt.epoch)
            if one is None or one.is_will or receipt.is_retained or key in seen:
                continue
            seen.add(key)
            # What was said before SUBACK is not promised (in doubt it comes); a repetition is not what it was.
            is_again = bool(one.resends) and (
                shares or self._may_expire(one) or not self._world.gone.isdisjoint(one.nodes)
            )
            # Nor is its order among others that were sent again elsewhere: some of them may be had there, some not. At
            # QoS 0, or while it was not wanted, the first may have been missed, which is no loss.
            wished = self._wished(person, one, receipt.epoch)
            is_again |= len(set(one.nodes)) > 1
            if one.resends:
                still = self._wished(person, one, receipt.epoch, receipt.time_us)
                is_again |= not min(receipt.qos, max(still, default=0))
            is_again |= shares and any(moment >= one.asked_us for moment, _ in self._record.failures)
            if is_again or not wished:
                continue
            stream = (receipt.epoch, one.who, one.topic, one.qos, receipt.qos, one.nodes[:1])
            before = last.get(stream)
            self._record.checked["order"] += 1
            if before is not None and (before.asked_us, before.number) > (one.asked_us, one.number):
                text = f"{person.resident.name} got {one.number} after {before.number} on {one.topic}"
                self._record.violate("order", f"{text}, both of {self._world.people[one.who].resident.name}")
            last[stream] = one

    def _wished(self, person: Person, one: Uttered, epoch: int, until_us: int = -1) -> list[int]:
        """At which QoS it had been confirmed to its receiver before it was said; and not given up until then."""
        return [
            grant.qos
            for grant in person.diary.grants
            if grant.epoch == epoch
            and grant.from_us < one.asked_us
            and person.diary.holds(grant, until_us)
            and self.is_match(split_shared(grant.filter)[1], one.topic)
        ]

    # --- retained ---

    def wrong_retained(self, lookers: list[Person]) -> list[str]:
        """What is not as it should be; `lookers` came after the storm, one to each node, and asked for everything."""
        wrong: list[str] = []
        if not lookers:  # the last nodes are leaving
            return wrong
        seen = [{one.topic: one.number for one in looker.diary.receipts if one.is_retained} for looker in lookers]
        last: dict[str, list[Uttered]] = {}
        perhaps: dict[str, set[int]] = {}  # rights to say it came or went meanwhile
        for one in self._record.uttered.values():
            author = self._world.people[one.who]
            if not one.retain or one.is_refused:
                continue
            if self.may_publish(author, one.topic):
                last.setdefault(one.topic, []).append(one)
            elif self.may_publish(author, one.topic, (one.asked_us, self._world.now_us)):
                perhaps.setdefault(one.topic, set()).add(one.number)
        for topic, words in last.items():
            self._record.checked["retained"] += 1
            found = {table.get(topic, 0) for table in seen}
            if len(found) > 1:
                wrong.append(f"{topic}: nodes say different things, {sorted(found)}")
            acked = [one for one in words if one.qos and one.acked_us >= 0 and self._counts(one)]
            latest_us = max((one.asked_us for one in acked), default=-1)
            # Whatever was acknowledged before a later acknowledged one was even asked for has been replaced.
            allowed = {one.number for one in words if one.acked_us < 0 or one.acked_us >= latest_us}
            allowed |= perhaps.get(topic, set())
            if any(map(self._may_expire, words)):
                allowed.add(0)
            if acked and not found & allowed:
                wrong.append(f"{topic}: {sorted(found)} instead of one of {sorted(allowed)}")
        return wrong

    # --- access, worked out apart from the code that is judged ---

    def may_enter(self, person: Person) -> bool:
        """By the rights of now: whoever may not say its will is let in no more."""
        now_us, will = self._world.now_us, person.resident.will
        return not will or self.may_publish(person, will, (now_us, now_us))

    def may_read(self, person: Person, topic: str, within_us: tuple[int, int] | None = None) -> bool:
        """At any moment of that time; without one: always."""
        return self._holds(person, within_us, lambda account: _is_allowed(account.subscribe, person, topic))

    def may_publish(self, person: Person, topic: str, within_us: tuple[int, int] | None = None) -> bool:
        is_free = not topic.startswith("$")
        return is_free and self._holds(person, within_us, lambda account: _is_allowed(account.publish, person, topic))

    def _holds(self, person: Person, within_us: tuple[int, int] | None, is_allowed: Callable[[Tenant], bool]) -> bool:
        user = person.resident.user
        if within_us is None:
            return all(is_allowed(accounts.get(user, OPEN)) for _, accounts in self._eras)
        ends_us = [from_us for from_us, _ in self._eras[1:]] + [within_us[1] + 1]
        return any(
            is_allowed(accounts.get(user, OPEN))
            for (from_us, accounts), end_us in zip(self._eras, ends_us, strict=True)
            if from_us <= within_us[1] and end_us + TOLD_US >= within_us[0]
        )

    # --- bounds ---

    def _check_disks(self) -> None:
        """Everybody is there and has answered for everything: nothing is left to be kept for anybody."""
        if self._is_all_there():
            self._record.checked["bounds"] += sum(site.broker is not None for site in self._world.sites)
        for text in self.crowded():
            self._record.violate("bounds", text)

    def _is_all_there(self) -> bool:
        return all(one.wire is not None and one.client.is_connected for one in self._world.people)

    def crowded(self) -> list[str]:
        """What is still kept for clients that have answered for everything, or for none."""
        if not self._is_all_there():
            return []
        most = LEFT_MAX if self._world.node_count == 1 else 0
        return [
            f"node {site.node} still keeps {count} rows of {table}"
            for site in self._world.sites
            for table in (DELIVERIES, INCOMING)
            if site.broker is not None and (count := self._count_left(site.disk.tables[table], table)) > most
        ]

    def _count_left(self, rows: dict[Any, bytes], table: str) -> int:
        """Of an exchange that a client had with a node alone, the end may be known to that node alone."""
        alone = {one.resident.name for one in self._world.people if one.diary.stays_alone}
        return sum(table != INCOMING or key[0] not in alone for key in rows if isinstance(key, tuple))


def _is_forgotten(person: Person, before: Receipt, after: Receipt) -> bool:
    """Whether the node of the later one need not know what became of the first: that was said to another one alone.

    Not always where it came first: its client may have finished it, as one it had, with a node in between.
    """
    stays = person.diary.stays_alone
    was_elsewhere = any(before.time_us <= left_us <= after.time_us and node != after.node for left_us, node in stays)
    return was_elsewhere or (before.is_alone and (before.node != after.node or person.was_split))


def _is_allowed(rules: tuple[str, ...], person: Person, topic: str) -> bool:
    return any(_covers(one, person, topic) for one in rules)


def _covers(rule: str, person: Person, topic: str) -> bool:
    """A rule level by level; a name that means more than a name in a filter fills in nothing."""
    names = {"%u": person.resident.user, "%c": person.resident.name}
    for mark, name in names.items():
        if mark in rule and (not name or name[0] == "$" or any(sign in name for sign in "+#/")):
            return False
    levels = topic.split("/")
    wanted = rule.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        level = re.sub("%[uc]", lambda found: names[found.group()], level)
        if index >= len(levels) or (level != "+" and level != levels[index]):
            return False
    return len(wanted) == len(levels)
