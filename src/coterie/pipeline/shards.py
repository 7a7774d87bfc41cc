"""One shard of what the stream remembers: rates, wishes, a sample of publications, and what is still open.

Only what a micro-batch touches is read and written: events and wishes of open windows lie by window, rates and wishes
that hold lie in small buckets. Topics that are silent are not touched: a rate is kept with the window it was true
after, and falls when somebody looks. Events of closed windows are late: counted, not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol
from zlib import crc32

import msgspec
import numpy as np

from coterie.pipeline.clock import Clock, Closing, TimeRules
from coterie.pipeline.features import FORGOTTEN, decayed, ewma
from coterie.pipeline.portions import SAMPLE_PER_WINDOW, LastWish, Portion, Sampled

SAMPLE_WINDOWS = 10
ENDED_WINDOWS = 10  # how long an ended subscription is remembered, in case an older line about it comes late
BUCKETS = 256
TOLD_PAIRS = 20_000  # in one row
ABOUT = -1  # instead of a window: how far the shard is
PARTS = ("events", "changes", "sample", "rates", "wishes", "about")


class StateMap(Protocol):
    """Bytes by number, in a store that outlives us."""

    def get(self, key: int) -> bytes | None: ...

    def put(self, key: int, value: bytes) -> None: ...

    def remove(self, key: int) -> None: ...

    def items(self) -> Iterator[tuple[int, bytes]]: ...


class Rate(msgspec.Struct, array_like=True):
    """Events per window as of the end of a window."""

    rate: float
    after: int


class ShardAbout(msgspec.Struct):
    """How far a shard is. All clocks are alike; one of them is told."""

    clock: Clock | None
    closing: Closing | None = None
    event_count: int = 0
    late_count: int = 0
    wanted_count: int = 0


class ViewPiece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of how things stand after a window: all of it the first time in a micro-batch, then what has changed."""

    wishes: list[tuple[str, str, str, bool]]  # client, topic, node, whether it is wanted
    rates: list[tuple[str, float, int]]
    sample: list[tuple[int, Sampled]]


Pair = tuple[str, str]
_pack = msgspec.msgpack.encode
_events_of = msgspec.msgpack.Decoder(dict[str, int]).decode
_changes_of = msgspec.msgpack.Decoder(list[tuple[str, str, LastWish]]).decode
_sample_of = msgspec.msgpack.Decoder(list[Sampled]).decode
_rates_of = msgspec.msgpack.Decoder(dict[str, Rate]).decode
_wishes_of = msgspec.msgpack.Decoder(list[tuple[str, str, LastWish]]).decode
_about_of = msgspec.msgpack.Decoder(ShardAbout).decode


class Shard:
    """One micro-batch of one shard; what it has changed is written when the micro-batch is over."""

    def __init__(self, number: int, kept: Mapping[str, StateMap], alpha: float, rules: TimeRules) -> None:
        self.number = number
        self.kept = kept
        self.alpha = alpha
        self.rules = rules
        found = kept["about"].get(0)
        self.about = ShardAbout(Clock()) if found is None else _about_of(found)
        self._rates: dict[int, dict[str, Rate]] = {}
        self._wishes: dict[int, dict[Pair, LastWish]] = {}
        self._fresh: tuple[set[str], set[Pair]] = (set(), set())  # topics and pairs that changed since it was told

    @property
    def clock(self) -> Clock:
        assert self.about.clock is not None
        return self.about.clock

    def take(self, portions: list[Portion]) -> Iterator[tuple[int, bytes]]:
        """What is told: (window, packed) for every window after which a decision may be due, and how far we are."""
        opened = self.clock.next_window
        self._add_events(portions, opened)
        self._add_changes(portions, opened)
        self._add_sample(portions, opened)
        closing = self.clock.hear((one.heard for one in portions), self.rules)
        if closing is not None:
            for window, told in self._close(closing):
                yield window, _pack(told)
            self._write_back(closing.last)
        self.kept["about"].put(0, _pack(self.about))
        told_clock = self.clock if self.number == 0 else None
        yield ABOUT, _pack(msgspec.structs.replace(self.about, clock=told_clock, closing=closing))

    # --- what is still open ---

    def _add_events(self, portions: list[Portion], opened: int | None) -> None:
        found: dict[int, dict[str, int]] = {}
        for window, topic, count in (event for one in portions for event in one.events):
            self.about.event_count += count
            if opened is not None and window < opened:
                self.about.late_count += count
                continue
            counts = found.setdefault(window, {})
            counts[topic] = counts.get(topic, 0) + count
        for window, counts in found.items():
            known = _events_of(self.kept["events"].get(window) or _pack({}))
            for topic, count in counts.items():
                known[topic] = known.get(topic, 0) + count
            self.kept["events"].put(window, _pack(known))

    def _add_changes(self, portions: list[Portion], opened: int | None) -> None:
        last: dict[tuple[int, str, str], LastWish] = {}
        for window, client, topic, said in (wish for one in portions for wish in one.wishes):
            key = (window, client, topic)
            last[key] = max(last.get(key, said), said)
        found: dict[int, list[tuple[str, str, LastWish]]] = {}
        for (window, client, topic), said in last.items():
            if opened is not None and window < opened:
                self.about.late_count += 1
                window = opened
            found.setdefault(window, []).append((client, topic, said))
        for window, changes in found.items():
            known = _changes_of(self.kept["changes"].get(window) or _pack([]))
            self.kept["changes"].put(window, _pack(known + changes))

    def _add_sample(self, portions: list[Portion], opened: int | None) -> None:
        found: dict[int, list[Sampled]] = {}
        for window, drawn in (entry for one in portions for entry in one.sample):
            if opened is None or window >= opened:
                found.setdefault(window, []).append(drawn)
        for window, listed in found.items():
            known = _sample_of(self.kept["sample"].get(window) or _pack([]))
            self.kept["sample"].put(window, _pack(lowest(known + listed)))

    # --- what closes ---

    def _close(self, closing: Closing) -> Iterator[tuple[int, ViewPiece]]:
        content, told = set(closing.content), set(closing.told)
        before: int | None = None
        for window in sorted(content | told):
            if window in content:
                self._apply_changes(window)
                self._apply_events(window)
            if window in told:
                pieces = self._everything(window) if before is None else self._changed(before, window)
                for piece in pieces:
                    yield window, piece
                before = window
                self._fresh = (set(), set())
        for window, _ in list(self.kept["sample"].items()):
            if window <= closing.last - SAMPLE_WINDOWS:
                self.kept["sample"].remove(window)

    def _apply_events(self, window: int) -> None:
        found = _taken_out(self.kept["events"], window)
        if found is None:
            return
        events = _events_of(found)
        topics = list(events)
        buckets = [self._rate_bucket(bucket_of(topic)) for topic in topics]
        observed = np.array(list(events.values()), np.float64)
        if window == self.clock.first_events:
            rates = observed  # the estimate starts from what the first window showed
        else:
            known = [bucket.get(topic, Rate(0.0, window - 1)) for topic, bucket in zip(topics, buckets, strict=True)]
            silent = np.array([window - 1 - one.after for one in known], np.int64)
            rates = ewma(decayed(np.array([one.rate for one in known]), silent, self.alpha), observed, self.alpha)
        for topic, bucket, rate in zip(topics, buckets, rates.tolist(), strict=True):
            bucket[topic] = Rate(rate, window)
        self._fresh[0].update(topics)

    def _apply_changes(self, window: int) -> None:
        found = _taken_out(self.kept["changes"], window)
        if found is None:
            return
        for client, topic, said in _changes_of(found):
            bucket = self._wish_bucket(_bucket_of_pair((client, topic)))
            known = bucket.get((client, topic))
            if known is not None and self._is_over(known, window):
                known = None
            if known is None or said[:3] >= known[:3]:
                bucket[client, topic] = said
                self.about.wanted_count += said.is_on - (known is not None and known.is_on)
                self._fresh[1].add((client, topic))

    def _is_over(self, said: LastWish, window: int) -> bool:
        return not said.is_on and said.time_us < (window - ENDED_WINDOWS) * self.rules.window_us

    # --- what is told ---

    def _everything(self, window: int) -> Iterator[ViewPiece]:
        yield from _pieces(self._all_wishes(window), self._all_rates(), self._drawn(window - SAMPLE_WINDOWS, window))

    def _changed(self, before: int, window: int) -> Iterator[ViewPiece]:
        topics, pairs = self._fresh
        wishes = ((pair, self._wish_bucket(_bucket_of_pair(pair))[pair]) for pair in sorted(pairs))
        rates = ((topic, self._rate_bucket(bucket_of(topic))[topic]) for topic in sorted(topics))
        yield from _pieces(wishes, rates, self._drawn(max(before, window - SAMPLE_WINDOWS), window))

    def _all_wishes(self, window: int) -> Iterator[tuple[Pair, LastWish]]:
        """Bucket by bucket, so that not all of them are in memory at once."""
        looked = set()
        for number, packed in self.kept["wishes"].items():
            if number in self._wishes:
                continue
            bucket = _unpacked(packed)
            if any(self._is_over(said, window) for said in bucket.values()):
                self._wishes[number] = bucket  # written anew, without them
                looked.add(number)
            yield from (entry for entry in bucket.items() if entry[1].is_on)
        for number, bucket in self._wishes.items():
            if number not in looked:
                yield from (entry for entry in bucket.items() if entry[1].is_on)

    def _all_rates(self) -> Iterator[tuple[str, Rate]]:
        for number, packed in self.kept["rates"].items():
            if number not in self._rates:
                yield from _rates_of(packed).items()
        for bucket in self._rates.values():
            yield from bucket.items()

    def _drawn(self, after: int, upto: int) -> list[tuple[int, Sampled]]:
        kept = ((window, packed) for window, packed in self.kept["sample"].items() if after < window <= upto)
        return [(window, drawn) for window, packed in kept for drawn in _sample_of(packed)]

    # --- buckets ---

    def _rate_bucket(self, number: int) -> dict[str, Rate]:
        if number not in self._rates:
            found = self.kept["rates"].get(number)
            self._rates[number] = {} if found is None else _rates_of(found)
        return self._rates[number]

    def _wish_bucket(self, number: int) -> dict[Pair, LastWish]:
        if number not in self._wishes:
            found = self.kept["wishes"].get(number)
            self._wishes[number] = {} if found is None else _unpacked(found)
        return self._wishes[number]

    def _write_back(self, last: int) -> None:
        """What was looked at to be changed, without what need not be remembered any longer."""
        for number, rates in self._rates.items():
            kept = {topic: one for topic, one in rates.items() if not self._is_forgotten(one, last)}
            _put(self.kept["rates"], number, kept)
        for number, wishes in self._wishes.items():
            listed = [(*pair, said) for pair, said in wishes.items() if not self._is_over(said, last)]
            _put(self.kept["wishes"], number, listed)

    def _is_forgotten(self, one: Rate, last: int) -> bool:
        return one.rate * (1.0 - self.alpha) ** (last - one.after) < FORGOTTEN


def lowest(drawn: list[Sampled]) -> list[Sampled]:
    return sorted(drawn, key=lambda one: one.order)[:SAMPLE_PER_WINDOW]


def bucket_of(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS


def _bucket_of_pair(pair: Pair) -> int:
    return bucket_of("\0".join(pair))


def _taken_out(kept: StateMap, key: int) -> bytes | None:
    found = kept.get(key)
    if found is not None:
        kept.remove(key)
    return found


def _unpacked(packed: bytes) -> dict[Pair, LastWish]:
    return {(client, topic): said for client, topic, said in _wishes_of(packed)}


def _put(kept: StateMap, key: int, content: Mapping[str, Rate] | list[tuple[str, str, LastWish]]) -> None:
    if content:
        kept.put(key, _pack(content))
    else:
        kept.remove(key)


def _pieces(
    wishes: Iterator[tuple[Pair, LastWish]], rates: Iterator[tuple[str, Rate]], sample: list[tuple[int, Sampled]]
) -> Iterator[ViewPiece]:
    while listed := [(*pair, said.node, said.is_on) for pair, said in islice(wishes, TOLD_PAIRS)]:
        yield ViewPiece(listed, [], [])
    while known := [(topic, one.rate, one.after) for topic, one in islice(rates, TOLD_PAIRS)]:
        yield ViewPiece([], known, [])
    if sample:
        yield ViewPiece([], [], sample)
