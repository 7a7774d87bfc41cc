"""EMQX by what it gives to files: pages of its REST interface, and lines that its rule engine wrote.

Pages (`/api/v5/subscriptions`, `/api/v5/clients`) are a picture of one moment, that of the file; rule-engine lines are
events with times of their own. Not tried against a running EMQX: the shapes are those of its documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import InputError
from coterie.fleets.observe.gathering import Gathering, PublishedMessages, snapshot
from coterie.fleets.observe.journalstore import ObserveState
from coterie.pipeline.histories import Sighting
from coterie.pipeline.logfiles import (
    DAMAGED,
    HEAD_BYTES,
    LogPiece,
    Reached,
    find_reached,
    fingerprint,
    head_of,
    line_blocks,
    rotations,
)

EVENTS = {
    "message.publish": "publish",
    "client.connected": "connect",
    "client.disconnected": "end",
    "session.subscribed": "subscribe",
    "session.unsubscribed": "unsubscribe",
}
ELSEWHERE = "(emqx)"  # the account of lines that name no broker


class EmqxFiles:
    """All files of one run; together their pages are one picture."""

    def __init__(self, paths: list[str], state: ObserveState, into: Gathering) -> None:
        self._state, self._into, self._paths = state, into, paths
        self._wanted: dict[str, dict[str, list[str]]] = {}  # broker -> client -> filters
        self._lasting: list[tuple[str, str]] = []
        self._t_us, self._announced, self._listed = 0, 0, 0
        self._order = 0

    def read(self) -> None:
        for path in self._paths:
            for file in rotations(Path(path)):
                try:
                    document = _document(file)
                    if document is not None:
                        self._page(document, os.path.getmtime(file))
                    else:
                        self._lines(file)
                except DAMAGED as error:
                    self._into.account(ELSEWHERE).note(f"{file}: cannot be read: {error}")
        if self._listed:
            self._picture()

    # --- pages ---

    def _page(self, document: Any, changed_s: float) -> None:
        rows = document.get("data", []) if isinstance(document, dict) else document
        meta = document.get("meta", {}) if isinstance(document, dict) else {}
        self._t_us = max(self._t_us, round(changed_s * 1e6))
        for row in rows if isinstance(rows, list) else []:
            node, client = _text(row, "node"), _text(row, "clientid")
            if not node or not client:
                self._into.account(ELSEWHERE).puzzle(str(row))
            elif topic := _text(row, "topic"):
                self._listed += 1
                self._announced = max(self._announced, int(meta.get("count") or 0))
                self._wanted.setdefault(node, {}).setdefault(client, []).append(topic)
                self._into.account(node).add("subscriptions")
            else:
                self._client_row(node, client, row)

    def _client_row(self, node: str, client: str, row: Mapping[str, Any]) -> None:
        self._into.account(node).add("connections")
        if row.get("connected", True):
            self._wanted.setdefault(node, {}).setdefault(client, [])
        if not _is_clean(row):
            self._lasting.append((node, client))

    def _picture(self) -> None:
        """What the pages say, as what happened since the last picture; half a picture ends nobody."""
        is_whole = self._listed >= self._announced
        nodes = sorted({*self._wanted, *self._state.brokers} if is_whole else self._wanted)
        for node in nodes:
            wanted = self._wanted.get(node, {})
            known = self._state.broker(node).sessions
            if not is_whole:
                known = {client: session for client, session in known.items() if client in wanted}
                told = (
                    f"pages are missing: {self._listed:,} of {self._announced:,} subscriptions; nobody is taken as gone"
                )
                self._into.account(node).note(told)
            lasting = {client for at, client in self._lasting if at == node}
            for sighting in snapshot(node, self._t_us, wanted, known):
                if sighting.kind == "connect" and sighting.client in lasting:
                    sighting = sighting._replace(is_clean=False)
                self._into.sightings.append(sighting._replace(order=self._next()))

    # --- lines ---

    def _lines(self, path: Path) -> None:
        head = head_of(path)
        broker = self._state.broker("")
        reached = find_reached(head, broker.reached)
        if reached is None:
            reached = Reached(0, "", 0)
            broker.reached.append(reached)
        for block in line_blocks(LogPiece("", 0, str(path), reached.offset, None)):
            for line in block.data.split(b"\n")[:-1]:
                self._line(line)
            reached.offset = block.position + len(block.data)
        length = min(HEAD_BYTES, reached.offset)
        reached.head_bytes, reached.head = length, fingerprint(head[:length])

    def _line(self, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line)
            kind = EVENTS.get(_text(event, "event").removeprefix("$events/").replace("_", "."), "")
            node, client, topic = (_text(event, name) for name in ("node", "clientid", "topic"))
            t_us = int(event["timestamp"]) * 1000
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError, ValueError):
            self._into.account(ELSEWHERE).puzzle(line.decode("utf-8", "backslashreplace"))
            return
        if not kind or not node or not client:
            self._into.account(node or ELSEWHERE).add("other")
        elif topic.startswith("$SYS/"):
            self._into.account(node).add("own topics")
        elif kind == "publish":
            self._publish(node, client, topic, t_us, event)
        else:
            category = {"subscribe": "subscriptions", "unsubscribe": "unsubscriptions"}.get(kind, "connections")
            self._into.account(node).add(category)
            self._into.sightings.append(Sighting(node, self._next(), t_us, kind, client, topic, _is_clean(event)))

    def _publish(self, node: str, client: str, topic: str, t_us: int, event: Mapping[str, Any]) -> None:
        flags = event.get("flags")
        if isinstance(flags, dict) and flags.get("dup"):
            self._into.account(node).add("repetitions")
            return
        size = event.get("payload_size", event.get("bytes"))
        if not isinstance(size, int):
            size = len(_text(event, "payload").encode())
        self._into.account(node).add("publications")
        self._into.publications[PublishedMessages(node, t_us, client, topic, size)] += 1

    def _next(self) -> int:
        self._order += 1
        return self._order


def _document(path: Path) -> Any | None:
    """The file as one JSON document, or None if it has lines."""
    if not path.exists():
        raise InputError(str(path), "no such file")
    if not head_of(path, 64).lstrip().startswith((b"{", b"[")):
        return None
    data = b"".join(_whole(path))
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _whole(path: Path) -> Iterator[bytes]:
    for block in line_blocks(LogPiece("", 0, str(path), 0, None), is_closed=True):
        yield block.data


def _text(row: Any, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _is_clean(row: Mapping[str, Any]) -> bool:
    """A session that the broker keeps after the connection is lasting, whatever it began like."""
    expiry = row.get("expiry_interval")
    return expiry in (0, None) and row.get("clean_start", True) is not False
