"""Retained messages of a network: the last word on a topic is the one that was published last, everywhere.

The stamp is the publication's identifier, unless a node's clock is behind another's: then it is the time by the clock
that is furthest ahead of those it has heard of, so that of two words said in ignorance of each other the later one
counts although clocks are wrong; of two at the same time the greater node's. Identifiers themselves are never raised:
how far two of one node are apart says how long was between them. A removal is a word too: it is kept for
a while as one without a message, so that an older message does not come back from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coterie.broker.carried import RETAINED_CHANNEL, TIME_BITS, TIME_MASK, decode_carried, encode_carried
from coterie.broker.frames import AskRetained, Retained
from coterie.broker.talk import Talk, in_parts
from coterie.broker.turn import Turn
from coterie.broker.writes import META, RETAINED, Saved
from coterie.mqtt.publish import Message
from coterie.mqtt.retained import RetainedStore

RETAINED_LOG = RETAINED_CHANNEL + "/"  # in front of the topic of a retained message in the log: every node wants it
STAMPED_LOG = "$coterie/stamped/"  # likewise, if its stamp is not its identifier: the stamp follows, and a slash
PART_BYTES = 256 << 10
WORDS_AHEAD = "words_ahead"  # what the clock furthest ahead says, and how far that is before this node's
TOLD_ON_US = 86_400_000_000  # by then everybody has heard of it
AHEAD_STEP_US = 10_000  # by so much more it is written down at once
LATELY_US = 60_000_000  # before the last that was heard of a node: what not everybody need have heard
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[int, bytes | None]).decode


class LastWords:
    """See the module. `$` topics are the node's own: not kept, not told."""

    def __init__(self, node: int, retained: RetainedStore, talk: Talk, turn: Turn) -> None:
        self._node = node
        self._retained, self._talk, self._turn = retained, talk, turn
        self._stamps: dict[str, int] = {}
        self._asked = -1  # the neighbour that was asked for all there is
        self._is_answered = False
        self._ahead_us = 0  # how far the clock that is furthest ahead is before this node's
        self._kept_us = 0  # the same as it was written down last
        retained.journal = []

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(META):
            if key == WORDS_AHEAD:
                words_us, self._kept_us = msgspec.msgpack.decode(value, type=tuple[int, int])
                self.hear_time(max(words_us, self._turn.now_us + self._kept_us))
        for key, value in saved.rows(RETAINED):
            stamp, body = _unpack(value)
            self._stamps[str(key)] = stamp
            self.hear_time(stamp & TIME_MASK)
            if body is not None:
                self._retained.set(decode_carried(body).message())
        assert self._retained.journal is not None
        self._retained.journal.clear()

    def stamp(self, topic: str) -> int:
        return self._stamps.get(topic, 0)

    @property
    def now_us(self) -> int:
        return self._turn.now_us + self._ahead_us

    def hear_time(self, words_us: int) -> None:
        self._ahead_us = max(self._ahead_us, words_us - self._turn.now_us)
        if self._ahead_us > self._kept_us + AHEAD_STEP_US:
            self.keep_time()

    def keep_time(self) -> None:
        """So that a restart does not go back to this node's own clock before it has met anybody. The other one has gone
        on while this node was down, or cut off from all and had nothing to write."""
        if self._ahead_us:
            self._kept_us = self._ahead_us
            self._turn.write(META, WORDS_AHEAD, _pack((self.now_us, self._ahead_us)))

    def speak(self, message: Message) -> int:
        """A local client's; returns its stamp, 0 if that is its identifier."""
        stamp = max(message.id, (message.id & ~TIME_MASK) | self.now_us)
        if not self.is_news(message.topic, stamp):  # said within the same microsecond, or by a clock that was set back
            stamp = (stamp & ~TIME_MASK) | ((self._stamps[message.topic] & TIME_MASK) + 1)
        self._stamps[message.topic] = stamp
        self._set(stamp, message)
        return 0 if stamp == message.id else stamp

    def is_news(self, topic: str, stamp: int) -> bool:
        return _age(stamp) > _age(self.stamp(topic))

    def hear(self, stamp: int, message: Message) -> None:
        """Another node's."""
        self.hear_time(stamp & TIME_MASK)
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

    def greet(self, peer: int, others: list[int]) -> None:
        """The first neighbour is asked for all there is; who was lost before the last life ended may have told it. All
        are told what those said lately who are not there: they may have been cut off from whoever heard it.
        """
        is_first = self._asked == -1
        for origin in sorted({stamp >> TIME_BITS for stamp in self._stamps.values()}):
            if is_first:
                self.spread(origin)
            elif origin != self._node and origin not in others:
                self.spread(origin, peer)
        if self._asked in (-1, peer) and not self._is_answered:
            self._asked = peer
            self._talk.tell(peer, AskRetained())

    def lost(self, peer: int, others: list[int]) -> None:
        """Without an answer, another one is asked."""
        if self._asked == peer and not self._is_answered and others:
            self._asked = others[0]
            self._talk.tell(others[0], AskRetained())

    def on_ask(self, peer: int) -> None:
        for part in list(in_parts(self._rows(), PART_BYTES)) or [()]:
            self._talk.tell(peer, Retained(part))

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        for message in self._retained:
            if not message.topic.startswith("$"):
                stamp = self._stamps.get(message.topic, 1)
                yield stamp, encode_carried(stamp, message, 1)

    def on_retained(self, source: int, said: Retained) -> None:
        self._is_answered |= not said.is_spread
        news = []
        for stamp, body in said.messages:
            message = decode_carried(body).message()
            if said.is_spread and self.is_news(message.topic, stamp):
                news.append((stamp, body))
            self.hear(stamp, message)
        if news:
            self._talk.flood(Retained(tuple(news), True), but=source)

    def spread(self, origin: int, to: int = -1) -> None:
        """That node may be lost, and have told some what it did not tell others: what it said lately is told on."""
        stamps = {topic: stamp for topic, stamp in self._stamps.items() if stamp >> TIME_BITS == origin}
        since_us = max((stamp & TIME_MASK for stamp in stamps.values()), default=0) - LATELY_US
        since_us = max(since_us, self.now_us - TOLD_ON_US)
        words = []
        for topic, stamp in stamps.items():
            if stamp & TIME_MASK >= since_us:
                message = self._retained.get(topic, self._turn.now_s) or Message(topic, retain=True)
                words.append((stamp, encode_carried(stamp, message, 1)))
        for part in in_parts(words, PART_BYTES):
            if to >= 0:
                self._talk.tell(to, Retained(part, True))
            else:
                self._talk.flood(Retained(part, True))


def logged_name(topic: str, stamp: int) -> str:
    """How a retained message stands in the log."""
    return f"{STAMPED_LOG}{stamp}/{topic}" if stamp else RETAINED_LOG + topic


def named_in_log(name: str, identifier: int) -> tuple[str, int]:
    """The topic of a row of the log, and the stamp if it is a retained message's, else 0."""
    if name.startswith(RETAINED_LOG):
        return name[len(RETAINED_LOG) :], identifier
    if name.startswith(STAMPED_LOG):
        stamp, _, topic = name[len(STAMPED_LOG) :].partition("/")
        if stamp.isdecimal():
            return topic, int(stamp)
    return name, 0


def _age(stamp: int) -> tuple[int, int]:
    return stamp & TIME_MASK, stamp >> TIME_BITS
