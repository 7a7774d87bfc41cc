"""Retained messages of a network: the last word on a topic is the one that was published last, everywhere.

The stamp is the publication's identifier; of two that were published at the same time the greater node's counts. A
removal is a word too: it is kept for a while as one without a message, so that an older message does not come back from
elsewhere.
"""

from __future__ import annotations

import msgspec

from coterie.broker.carried import RETAINED_CHANNEL, TIME_BITS, TIME_MASK, decode_carried, encode_carried
from coterie.broker.frames import AskRetained, Retained
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import RETAINED, Saved
from coterie.mqtt.publish import Message
from coterie.mqtt.retained import RetainedStore

RETAINED_LOG = RETAINED_CHANNEL + "/"  # in front of the topic of a retained message in the log: every node wants it
CHUNK_BYTES = 256 << 10
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[int, bytes | None]).decode


class LastWords:
    """See the module. `$` topics are the node's own: not kept, not told."""

    def __init__(self, retained: RetainedStore, talk: Talk, turn: Turn) -> None:
        self._retained, self._talk, self._turn = retained, talk, turn
        self._stamps: dict[str, int] = {}
        self._has_asked = False
        retained.journal = []

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(RETAINED):
            stamp, body = _unpack(value)
            self._stamps[str(key)] = stamp
            if body is not None:
                self._retained.set(decode_carried(body).message())
        assert self._retained.journal is not None
        self._retained.journal.clear()

    def stamp(self, topic: str) -> int:
        return self._stamps.get(topic, 0)

    def speak(self, message: Message) -> None:
        """A local client's."""
        self._stamps[message.topic] = message.id
        self._set(message.id, message)

    def after_us(self, topic: str) -> int:
        """A time that is later than what is known of a topic: a node's clock may be ahead of ours."""
        return (self._stamps.get(topic, 0) & TIME_MASK) + 1

    def is_news(self, topic: str, stamp: int) -> bool:
        return _age(stamp) > _age(self._stamps.get(topic, 0))

    def hear(self, stamp: int, message: Message) -> None:
        """Another node's."""
        if self.is_news(message.topic, stamp):
            self._stamps[message.topic] = stamp
            self._set(stamp, message)

    def _set(self, stamp: int, message: Message) -> None:
        self._retained.set(message)
        if not message.payload and not message.topic.startswith("$"):
            self._turn.write(RETAINED, message.topic, _pack((stamp, None)))

    def end_turn(self) -> None:
        """What has changed, expired messages included, goes among the writes."""
        changes = self._retained.journal
        if not changes:
            return
        for topic, message in changes:
            if not topic.startswith("$"):
                stamp = self._stamps.get(topic, 1)
                body = None if message is None else encode_carried(message.id, message, 1)
                self._turn.write(RETAINED, topic, _pack((stamp, body)))
        changes.clear()

    def trim(self, before_us: int) -> None:
        """Forget removals from before this moment."""
        kept = {message.topic for message in self._retained}
        gone = [topic for topic, stamp in self._stamps.items() if topic not in kept and stamp & TIME_MASK < before_us]
        for topic in gone:
            del self._stamps[topic]
            self._turn.write(RETAINED, topic, None)

    # --- with other nodes ---

    def greet(self, peer: int) -> None:
        """The first neighbour is asked for all there is."""
        if not self._has_asked:
            self._has_asked = True
            self._talk.tell(peer, AskRetained())

    def on_ask(self, peer: int) -> None:
        chunk: list[tuple[int, bytes]] = []
        size = 0
        for message in self._retained:
            if message.topic.startswith("$"):
                continue
            stamp = self._stamps.get(message.topic, 1)
            body = encode_carried(stamp, message, 1)
            chunk.append((stamp, body))
            size += len(body)
            if size > CHUNK_BYTES:
                self._talk.tell(peer, Retained(tuple(chunk)))
                chunk, size = [], 0
        if chunk:
            self._talk.tell(peer, Retained(tuple(chunk)))

    def on_retained(self, said: Retained) -> None:
        for stamp, body in said.messages:
            self.hear(stamp, decode_carried(body).message())


def _age(stamp: int) -> tuple[int, int]:
    return stamp & TIME_MASK, stamp >> TIME_BITS
