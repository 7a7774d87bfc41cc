"""What brokers say to each other beside the systems' own messages: to one, or to all neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coterie.broker.cascades import Cascades
from coterie.broker.frames import CONTROL, DONE, TRACKED_CONTROL, ControlMessage, encode_control, frame
from coterie.broker.links import PeerLinks

Row = tuple[int, bytes]


def in_parts(rows: Iterable[Row], bytes_max: int) -> Iterator[tuple[Row, ...]]:
    """Rows in parts of not much more than so many bytes, each for a message of its own."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row[1])
        if size > bytes_max:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


class Talk:
    """Whatever is said because of a frame that is part of a cascade is part of it too."""

    def __init__(self, links: PeerLinks, cascades: Cascades) -> None:
        self.sent_count = 0
        self.sent_bytes = 0
        self._links, self._cascades = links, cascades

    def tell(self, peer: int, message: ControlMessage) -> bool:
        """False if it cannot be handed over at present."""
        return self._put(peer, encode_control(message))

    def flood(self, message: ControlMessage, but: int = -1) -> None:
        body = encode_control(message)
        for peer in self._links.connected:
            if peer != but:
                self._put(peer, body)

    def say_done(self, peer: int, number: int) -> None:
        self._links.send(peer, frame(DONE, b"", number))

    def _put(self, peer: int, body: bytes) -> bool:
        number = self._cascades.number_for(peer)
        data = frame(CONTROL, body) if number is None else frame(TRACKED_CONTROL, body, number)
        is_sent = self._links.send(peer, data, is_use=False)
        if number is not None and not is_sent:
            self._cascades.done(peer, number)
        self.sent_count += is_sent
        self.sent_bytes += len(data) if is_sent else 0
        return is_sent
