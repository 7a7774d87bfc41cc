"""What each client wanted and until when, from what brokers say about it; the same code for one process and for Spark.

A clean session's wishes end with its connection, a lasting one's with an unsubscription, when it expires, or when the
client comes back with a clean one. Who was there before the log began shows by what is delivered to it. A client that
is back within a second, at whatever broker, was not away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from coterie.mqtt.topics import SHARE_PREFIX, filter_matches

BLIP_US = 1_000_000
CONNECT, END, EXPIRE, RESTART = "connect", "end", "expire", "restart"
SUBSCRIBE, UNSUBSCRIBE, DELIVER = "subscribe", "unsubscribe", "deliver"


class Sighting(NamedTuple):
    """One thing a broker said about a client. `order` is the place of the line among all of that broker."""

    node: str
    order: int
    t_us: int
    kind: str
    client: str
    topic: str = ""
    is_clean: bool = True  # of a connection


class Wished(NamedTuple):
    """A line of the journal: a wish begins or ends. `seen` says how we know if not by the client's own words."""

    node: str
    order: int
    t_us: int
    kind: str
    client: str
    topic: str
    seen: str = ""


class SessionRecord(msgspec.Struct, omit_defaults=True):
    """What is known of one client at one broker; kept between two runs."""

    is_clean: bool | None = None  # None: it was connected before the log began
    is_whole: bool = False  # all its wishes are known
    t_us: int = 0
    wishes: dict[str, int] = {}  # filter -> since when
    ever: list[str] = []  # filters of a session that is not whole, also those it gave up


class Told(NamedTuple):
    """The outcome for one client."""

    lines: list[Wished]
    sessions: dict[str, SessionRecord]  # by broker
    backwards: dict[str, int]  # by broker: sightings that came with an earlier time than one before


def client_history(
    client: str,
    sightings: Iterable[Sighting],
    carried: Mapping[str, SessionRecord],
    restarts: Mapping[str, Sequence[tuple[int, int]]],
) -> Told:
    """Lines and new state of one client from all that any broker said about it.

    `restarts`: for each broker the order and the time of its starts.
    """
    by_node: dict[str, list[Sighting]] = {node: [] for node in carried}
    for sighting in sightings:
        by_node.setdefault(sighting.node, []).append(sighting)
    lines: list[tuple[Wished, bool]] = []
    sessions: dict[str, SessionRecord] = {}
    backwards: dict[str, int] = {}
    for node in sorted(by_node):
        starts = [Sighting(node, order, t_us, RESTART, client) for order, t_us in restarts.get(node, ())]
        follower = _Follower(node, client, carried.get(node))
        for sighting in sorted([*by_node[node], *starts], key=lambda one: one.order):
            follower.see(sighting)
        lines += follower.lines
        if follower.backwards:
            backwards[node] = follower.backwards
        if follower.session is not None:
            sessions[node] = follower.session
    return Told(_settled(lines, carried), sessions, backwards)


class _Follower:
    """One client at one broker."""

    def __init__(self, node: str, client: str, session: SessionRecord | None) -> None:
        self.node, self.client = node, client
        self.session = session and msgspec.structs.replace(session, wishes=dict(session.wishes), ever=session.ever[:])
        self.lines: list[tuple[Wished, bool]] = []
        self.backwards = 0

    def see(self, sighting: Sighting) -> None:
        if sighting.kind == RESTART and self.session is None:
            return
        session = self.session = self.session or SessionRecord()
        if sighting.t_us < session.t_us:
            self.backwards += sighting.kind != RESTART
            sighting = sighting._replace(t_us=session.t_us)
        session.t_us = sighting.t_us
        match sighting.kind:
            case "subscribe":
                self._wish(sighting, "")
            case "unsubscribe":
                if session.wishes.pop(sighting.topic, None) is not None:
                    self._say(sighting, UNSUBSCRIBE, sighting.topic)
            case "deliver":
                if not session.is_whole and not any(matches(one, sighting.topic) for one in session.ever):
                    self._wish(sighting, "delivery")
            case "connect":
                if sighting.is_clean:
                    self._forget(sighting)
                    session.is_whole, session.ever = True, []
                session.is_clean = sighting.is_clean
            case "expire":
                self._forget(sighting)
                self.session = None
            case _:  # the connection or the broker ended
                if session.is_clean is not False:
                    self._forget(sighting)
                    self.session = None

    def _wish(self, sighting: Sighting, seen: str) -> None:
        assert self.session is not None
        if not self.session.is_whole and sighting.topic not in self.session.ever:
            self.session.ever.append(sighting.topic)
        if sighting.topic not in self.session.wishes:
            self.session.wishes[sighting.topic] = sighting.t_us
            self._say(sighting, SUBSCRIBE, sighting.topic, seen)

    def _forget(self, sighting: Sighting) -> None:
        assert self.session is not None
        for topic in sorted(self.session.wishes):
            self._say(sighting, UNSUBSCRIBE, topic, is_ended=True)
        self.session.wishes = {}

    def _say(self, at: Sighting, kind: str, topic: str, seen: str = "", is_ended: bool = False) -> None:
        self.lines.append((Wished(self.node, at.order, at.t_us, kind, self.client, topic, seen), is_ended))


def _settled(lines: Sequence[tuple[Wished, bool]], carried: Mapping[str, SessionRecord]) -> list[Wished]:
    """Leave out ends that another session, there or elsewhere, has taken over in time."""
    holders: dict[str, dict[str, tuple[int, int]]] = {}  # filter -> broker -> time and order of the subscription
    for node in sorted(carried):
        for topic, t_us in carried[node].wishes.items():
            holders.setdefault(topic, {})[node] = (t_us, -1)
    kept = []
    for line, is_ended in sorted(lines, key=_turn):
        at = holders.setdefault(line.topic, {})
        if line.kind == SUBSCRIBE:
            at[line.node] = (line.t_us, line.order)
        elif not is_ended or not _is_taken_over(line, at):
            at.pop(line.node, None)
        else:
            continue
        kept.append(line)
    return sorted(kept, key=lambda one: (one.t_us, one.node, one.order))


def _is_taken_over(end: Wished, at: dict[str, tuple[int, int]]) -> bool:
    """Whether the client asked for it again: at this broker, or since then (or in the same second) at another."""
    since, order = at.get(end.node, (end.t_us, -1))
    if order > end.order:
        return True
    at.pop(end.node, None)
    return any(other >= since for other, _ in at.values())


def _turn(entry: tuple[Wished, bool]) -> tuple[int, bool, str, int]:
    """An end takes its turn after all that was asked for until a second later."""
    line, is_ended = entry
    return line.t_us + BLIP_US * is_ended, is_ended, line.node, line.order


def matches(wish: str, topic: str) -> bool:
    """Whether a filter, shared or not, wants a topic."""
    if wish.startswith(SHARE_PREFIX):
        wish = wish[len(SHARE_PREFIX) :].partition("/")[2]
    return wish == topic or filter_matches(wish, topic)
