"""Copies between brokers as the brokers themselves count them, and what the plan predicts for the same messages."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from coterie.errors import InputError
from coterie.fleets.crossing import Copies
from coterie.fleets.fleet import BrokerFleet

PUBLISH = re.compile(
    rb"(Received PUBLISH from|Sending PUBLISH to) (.+) \(d(\d), q\d, r\d, m\d+, '(.*)', \.\.\. \(\d+ bytes\)\)"
)


@dataclass
class Counted:
    """What a stretch of logs says."""

    copies: int = 0
    delivered: int = 0
    published: Counter[tuple[str, str]] = field(default_factory=Counter)  # (broker, topic) -> messages of clients

    @property
    def per_delivered(self) -> float:
        return self.copies / self.delivered if self.delivered else 0.0

    def predicted(self, copies: Copies) -> int:
        """Copies that these very messages make by the plan."""
        return sum(count * copies.of(broker, topic) for (broker, topic), count in self.published.items())


class MosquittoLogs:
    """Counts in mosquitto's logs (`log_type all`) from where they ended when this was made."""

    def __init__(self, fleet: BrokerFleet) -> None:
        self.fleet = fleet
        self._logs = {one.name: one.log for one in fleet.broker if one.log is not None}
        if missing := [one.name for one in fleet.broker if one.log is None]:
            raise fleet.missing(fleet.key(missing[0], "log"), "copies are counted in the brokers' logs")
        self._from = {name: _size(path) for name, path in self._logs.items()}
        names = [one.bridge_name for one in fleet.broker]
        names += [f"{name}-{other}" for name in names for other in fleet.names]
        self._bridges = {name.encode() for name in names} | {f"local.{name}".encode() for name in names}

    def count(self) -> Counted:
        found = Counted()
        for broker, path in self._logs.items():
            with open(path, "rb") as file:
                file.seek(self._from[broker])
                for line in file:
                    self._take(broker, line, found)
        return found

    def _take(self, broker: str, line: bytes, found: Counted) -> None:
        if b" PUBLISH " not in line:
            return
        match = PUBLISH.search(line)
        if match is None or match[3] == b"1":
            return
        topic = match[4].decode("utf-8", "replace")
        if topic.startswith((f"{self.fleet.probe.topic}/", "$SYS/")):
            return
        is_bridge = match[2] in self._bridges or match[2].startswith(b"local.")
        if match[1].startswith(b"Received"):
            if is_bridge:
                found.copies += 1
            else:
                found.published[broker, topic] += 1
        elif not is_bridge:
            found.delivered += 1


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError(str(path), f"log cannot be read: {error.strerror}") from None
