"""A running HAProxy by its socket: who is where, where clients shall go, ending a connection so that it goes there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from coterie.errors import RunError
from coterie.fleets.export.haproxy import key_of
from coterie.fleets.fleet import Balancer

ANSWER_S = 10.0
AGAIN_S = 0.2
LINE_BYTES = 8000  # of commands at once; HAProxy's buffer has 16 kB
CLEAN_BIT = 2  # of CONNECT's flags


@dataclass(frozen=True)
class Seat:
    """Where a client was seen last. A lasting session has a memory at its broker that does not move with it."""

    broker: str
    is_lasting: bool
    session: str = ""  # what the connection is called; empty: not connected now
    source: str = ""  # the client's address, as the balancer sees it


class LiveBalancer:
    """One HAProxy."""

    def __init__(self, balancer: Balancer, patience_s: float = 0.0) -> None:
        self.balancer, self._patience_s = balancer, patience_s

    def ask(self, command: str) -> str:
        """The answer to one line; RunError if nobody answers for `patience_s` (a restart takes a moment)."""
        path = str(self.balancer.socket)
        deadline_s = time.monotonic() + self._patience_s
        while True:
            try:
                answer = self._ask(path, command)
                break
            except OSError as error:
                if time.monotonic() >= deadline_s:
                    why = error.strerror or str(error)
                    raise RunError(f"balancer.socket {path}: HAProxy does not answer: {why}") from None
                time.sleep(AGAIN_S)
        if "Permission denied" in answer:
            raise RunError(f"balancer.socket {path}: HAProxy refuses; its `stats socket` line needs `level admin`")
        return answer

    @staticmethod
    def _ask(path: str, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_S)
            line.connect(path)
            line.sendall(command.encode() + b"\n")
            parts = []
            while part := line.recv(1 << 16):
                parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")

    # --- where clients shall go ---

    def map_name(self) -> str:
        """How the socket's commands call the map."""
        listed = self.ask("show map")
        wanted = str(self.balancer.map)
        named: dict[str, str] = {}
        for line in listed.splitlines():
            number, _, rest = line.partition(" (")
            if number.strip().isdigit():
                path = rest.partition(")")[0]
                named.setdefault(path.rsplit("/", 1)[-1], number.strip())  # a configuration may name it otherwise
                named[path] = number.strip()
        for name in (wanted, self.balancer.map.name):
            if name in named:
                return f"#{named[name]}"
        raise RunError(
            f"balancer.map {wanted}: HAProxy uses no such map; `coterie export --to haproxy` writes one that does"
        )

    def homes(self) -> dict[str, str]:
        rows = (line.split(" ", 2) for line in self.ask(f"show map {self.map_name()}").splitlines())
        return {unquote(row[1]): row[2].strip() for row in rows if len(row) == 3}

    def set_homes(self, homes: Mapping[str, str]) -> int:
        """Make the running map these homes and no others; returns how many entries changed."""
        name, there = self.map_name(), self.homes()
        commands = [f"del map {name} {key_of(client)}" for client in sorted(there) if client not in homes]
        for client, broker in sorted(homes.items()):
            if client and there.get(client) != broker:
                commands.append(f"{'set' if client in there else 'add'} map {name} {key_of(client)} {broker}")
        self._batched(commands)
        return len(commands)

    def set_home(self, client: str, broker: str) -> None:
        """One entry, whatever was there before."""
        name = self.map_name()
        verb = "set" if client in self.homes() else "add"
        self._batched([f"{verb} map {name} {key_of(client)} {broker}"])

    def _batched(self, commands: Iterable[str]) -> None:
        batch: list[str] = []
        size = 0
        for command in [*commands, ""]:
            if batch and (not command or size + len(command) > LINE_BYTES):
                answer = self.ask(";".join(batch)).strip()
                if answer:
                    raise RunError(f"balancer.map {self.balancer.map}: HAProxy refuses: {answer.splitlines()[0]}")
                batch, size = [], 0
            batch.append(command)
            size += len(command) + 1

    # --- who is where ---

    def seats(self) -> dict[str, Seat]:
        """Client -> where it is, or was when it was last seen."""
        by_source: dict[str, tuple[str, Seat]] = {}
        found: dict[str, Seat] = {}
        for line in self.ask(f"show events {self.balancer.ring}").splitlines():
            parsed = _parse(line)
            if parsed is not None:
                source, client, seat = parsed
                by_source[source] = client, seat
                found.pop(client, None)
                found[client] = seat
        for session, source, broker in self._sessions():
            if source in by_source:
                client, seat = by_source[source]
                found[client] = Seat(broker, seat.is_lasting, session, source)
        return found

    def _sessions(self) -> list[tuple[str, str, str]]:
        """(session, source address, broker) of every client's connection."""
        found = []
        for line in self.ask("show sess").splitlines():
            session, _, rest = line.partition(": ")
            fields = dict(word.split("=", 1) for word in rest.split() if "=" in word)
            if fields.get("fe") == self.balancer.frontend and not fields.get("srv", "<").startswith("<"):
                found.append((session, fields.get("src", ""), fields["srv"]))
        return found

    def end(self, seats: Iterable[Seat]) -> int:
        """End these connections, how many it were; a name that has passed to another connection is left alone."""
        still = {(session, source) for session, source, _ in self._sessions()}
        ended = [seat for seat in seats if (seat.session, seat.source) in still]
        for seat in ended:
            self.ask(f"shutdown session {seat.session}")
        return len(ended)

    def up(self) -> dict[str, bool]:
        """Broker -> whether HAProxy finds it alive."""
        rows = [line.split(",") for line in self.ask("show stat").splitlines()]
        return {
            row[1]: row[17].startswith("UP")
            for row in rows
            if len(row) > 17 and row[0] == "planned" and row[1] != "BACKEND"
        }


def _parse(line: str) -> tuple[str, str, Seat] | None:
    """`SOURCE SERVER FLAGS VERSION EXPIRY CLIENT`, as our configuration logs it."""
    words = line.strip("\0 ").split(" ")
    if len(words) != 6 or words[1].startswith("<") or not words[2].isdigit():
        return None
    source, broker, flags, version, expiry, client = words
    if client in ("", "-"):
        return None
    is_lasting = expiry not in ("-", "0") if version == "5" else not int(flags) & CLEAN_BIT
    return source, unquote(client), Seat(broker, is_lasting)
