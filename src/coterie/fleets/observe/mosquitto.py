"""mosquitto's log, 2.0 and 2.1: who connected, what they wanted, what they published.

One pass. What only the end of a batch can tell (an identifier turns out to be a bridge's; the log names accepted
subscriptions, so those that were only asked for need not be believed) is settled by `finish`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from coterie.fleets.observe.gathering import Gathering, LineAccount, PublishedMessages
from coterie.fleets.observe.stamps import Stamps
from coterie.pipeline import logpatterns as patterns
from coterie.pipeline.histories import SessionRecord, Sighting
from coterie.pipeline.logpatterns import compiled

_received = compiled(patterns.RECEIVED).match
_sent = compiled(patterns.SENT).match
_connected = compiled(patterns.CONNECTED).match
_ended = compiled(patterns.ENDED).match
_broken = compiled(patterns.BROKEN).match
_expired = compiled(patterns.EXPIRED).match
_started = compiled(patterns.STARTED).match
_asks = compiled(patterns.ASKS).match
_will = compiled(patterns.WILL).match
_tab_wish = compiled(patterns.TAB_WISH).match
_plain_wish = compiled(patterns.PLAIN_WISH).match
_chatter = compiled(patterns.CHATTER).match
_own = compiled(patterns.OWN).match
_left_out = compiled(patterns.LEFT_OUT).match


class LogMemory(msgspec.Struct):
    """What must outlive a batch of one broker's log."""

    block: tuple[str, str] = ("", "")  # SUBSCRIBE, UNSUBSCRIBE or WILL, and whose
    expected: tuple[str, str] = ("", "")  # client and filter of the last line in a block
    bridges: list[str] = []
    names_accepted: bool = False  # accepted subscriptions have lines of their own


class MosquittoLog:
    """The log of one broker, line by line."""

    def __init__(
        self, node: str, stamps: Stamps, memory: LogMemory, known: Mapping[str, SessionRecord], into: Gathering
    ) -> None:
        self.node, self._stamps, self.memory, self._into = node, stamps, memory, into
        self._bridges = set(memory.bridges)
        self._counts: Counter[tuple[str, str]] = Counter()  # by category and client
        self._sightings: list[Sighting] = []
        self._asked: list[Sighting] = []  # subscriptions that nobody says were accepted
        self._delivered: set[tuple[str, str]] = set()
        self._publications: Counter[tuple[int, str, str, int]] = Counter()
        self._examples = LineAccount()
        self._connected = {*known, *memory.bridges}  # identifiers that are sure
        self._pairs: dict[str, tuple[str, str]] = {}  # "client filter" -> the two
        for client in sorted(known):
            for topic in sorted(known[client].wishes):
                self._pairs.setdefault(f"{client} {topic}", (client, topic))

    def feed(self, order: int, line: str) -> None:
        """One line of a file."""
        split = self._stamps.split(line)
        if split is not None:
            self.say(order, *split)
        elif line.strip():
            self._puzzle(line)
        else:
            self._counts["other", ""] += 1

    def say(self, order: int, t_us: int, message: str) -> None:
        """One message whose time is known."""
        if message.startswith("Received PUBLISH from "):
            self._publish(t_us, message)
        elif message.startswith("Sending PUBLISH to "):
            self._deliver(order, t_us, message)
        elif message.startswith(patterns.TAB):
            self._tab(order, t_us, message)
        elif found := _asks(message):
            self.memory.block = (found[1], found[2])
            self._counts["subscriptions" if found[1] == "SUBSCRIBE" else "unsubscriptions", found[2]] += 1
        elif message.startswith(("Sending ", "Received ")):
            self._counts["other", ""] += 1
        elif not self._lifecycle(order, t_us, message) and not self._plain(order, t_us, message):
            self._puzzle(message)

    def _publish(self, t_us: int, message: str) -> None:
        found = _received(message)
        if found is None:
            self._puzzle(message)
            return
        client, repeated, topic, size = found.groups()
        is_new = repeated != "1"
        if self._count("publications" if is_new else "repetitions", client, topic) and is_new:
            self._publications[t_us, client, topic, int(size)] += 1

    def _deliver(self, order: int, t_us: int, message: str) -> None:
        found = _sent(message)
        if found is None:
            self._puzzle(message)
            return
        client, topic = found[1], found[3]
        if self._count("deliveries", client, topic) and (client, topic) not in self._delivered:
            self._delivered.add((client, topic))
            self._pairs.setdefault(f"{client} {topic}", (client, topic))
            self._sightings.append(Sighting(self.node, order, t_us, "deliver", client, topic))

    def _tab(self, order: int, t_us: int, message: str) -> None:
        kind, client = self.memory.block
        wish = _tab_wish(message)
        if kind == "WILL":
            self._counts["other", ""] += 1
        elif kind == "SUBSCRIBE" and wish is not None:
            self.memory.expected = (client, wish[1])
            self._wish(order, t_us, client, wish[1], self._asked)
        elif kind == "SUBSCRIBE" and message.endswith(" (denied)"):
            self._counts["refused", client] += 1
        elif kind == "UNSUBSCRIBE":
            self.memory.expected = (client, message[1:])
            self._unwish(order, t_us, client, message[1:])
        else:
            self._puzzle(message)

    def _lifecycle(self, order: int, t_us: int, message: str) -> bool:
        if found := _connected(message):
            if found[1] == "bridge":
                self._bridges.add(found[2])
            self._connected.add(found[2])
            self._happened(order, t_us, "connect", found[2], found[3] == "1")
        elif found := _ended(message) or _broken(message):
            self._happened(order, t_us, "end", found[1])
        elif found := _expired(message):
            self._happened(order, t_us, "expire", found[1])
        elif _started(message):
            self._counts["connections", ""] += 1
            self._into.restarts.setdefault(self.node, []).append((order, t_us))
        elif _will(message):
            self.memory.block = ("WILL", "")
            self._counts["other", ""] += 1
        else:
            return False
        return True

    def _plain(self, order: int, t_us: int, message: str) -> bool:
        """`ID QOS FILTER` and `ID FILTER`; the block before and who is known tell identifiers with blanks apart."""
        client, topic = self.memory.expected
        if client and message in {f"{client} {qos} {topic}" for qos in "012"}:
            self.memory.names_accepted = True
            self._wish(order, t_us, client, topic, self._sightings)
        elif client and message == f"{client} {topic}":
            self._counts["unsubscriptions", client] += 1
        elif message in self._pairs:
            self._unwish(order, t_us, *self._pairs[message])
        elif split := self._said_by(message, is_wish=True):
            self._wish(order, t_us, *split, self._sightings)
        elif _chatter(message):
            self._counts["other", ""] += 1
        elif split := self._said_by(message, is_wish=False):
            self._unwish(order, t_us, *split)
        elif found := _plain_wish(message):
            self._wish(order, t_us, found[1], found[3], self._sightings)
        else:
            return False
        return True

    def _said_by(self, message: str, is_wish: bool) -> tuple[str, str] | None:
        """Client and filter of a line that begins with a connected client's identifier; the longest one counts."""
        words = message.split(" ")
        for at in range(len(words) - 1 - is_wish, 0, -1):
            client, topic = " ".join(words[:at]), " ".join(words[at + is_wish :])
            if topic and client in self._connected and not (is_wish and words[at] not in patterns.QOS):
                return client, topic
        return None

    def _wish(self, order: int, t_us: int, client: str, topic: str, into: list[Sighting]) -> None:
        if self._count("subscriptions", client, topic):
            self._pairs.setdefault(f"{client} {topic}", (client, topic))
            into.append(Sighting(self.node, order, t_us, "subscribe", client, topic))

    def _unwish(self, order: int, t_us: int, client: str, topic: str) -> None:
        if self._count("unsubscriptions", client, topic):
            self._sightings.append(Sighting(self.node, order, t_us, "unsubscribe", client, topic))

    def _count(self, what: str, client: str, topic: str) -> bool:
        """What is about the broker's own topics is counted as that, and is nothing else."""
        is_own = _own(topic)
        self._counts["own topics" if is_own else what, client] += 1
        return not is_own

    def _happened(self, order: int, t_us: int, kind: str, client: str, is_clean: bool = True) -> None:
        self._counts["connections", client] += 1
        self._sightings.append(Sighting(self.node, order, t_us, kind, client, "", is_clean))

    def _puzzle(self, text: str) -> None:
        self._examples.puzzle(text)

    def finish(self) -> None:
        """Hand over what the batch held; the object is done."""
        account = self._into.account(self.node)
        self.memory.bridges = sorted(self._bridges)
        for (category, client), count in self._counts.items():
            account.add("bridges" if self._is_left_out(client) else category, count)
        account.merge(self._examples)
        believed = [] if self.memory.names_accepted else self._asked
        self._into.sightings += self._ours([*self._sightings, *believed])
        for (t_us, client, topic, size), count in self._publications.items():
            if not self._is_left_out(client):
                self._into.publications[PublishedMessages(self.node, t_us, client, topic, size)] += count

    def _ours(self, sightings: Iterable[Sighting]) -> list[Sighting]:
        return [sighting for sighting in sightings if not self._is_left_out(sighting.client)]

    def _is_left_out(self, client: str) -> bool:
        return client in self._bridges or _left_out(client) is not None
