"""HAProxy in front of brokers: who came from where, and to which server.

One line a connection, as `coterie export --to haproxy` configures it: `ADDRESS:PORT SERVER FLAGS VERSION EXPIRY
CLIENT`, the client url-encoded. Shorter ones (`ADDRESS:PORT BACKEND/SERVER CLIENT`) do too, and a time (`%Ts.%ms`) may
stand before.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import unquote, urlsplit

from coterie.errors import InputError
from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.journalstore import ObserveState
from coterie.pipeline.logfiles import DAMAGED, LogPiece, line_blocks
from coterie.pipeline.logpatterns import compiled

RING = "conns"
ELSEWHERE = "(haproxy)"
ANSWER_S = 10.0
KEPT = 3  # lines at the end of the ring by which the next look finds its place
_line = compiled(
    r"(?s)^(?:<[0-9]+>.*?(?: - -|\]:) )?(?:([0-9]{9,11})\.([0-9]{1,6}) )?([^ ]+:[0-9]+) (?:[^ /]+/)?([^ /]+)"
    r" (?:[0-9-]+ [0-9-]+ [0-9-]* ?)?([^ ]+)(?!.)"
).match


def ask_ring(address: str) -> list[str]:
    """The ring's lines by the runtime socket: unix:///path or tcp://host:port, with ?ring=NAME if not `conns`."""
    parts = urlsplit(address)
    ring = parts.query.removeprefix("ring=") or RING
    family = socket.AF_UNIX if parts.scheme == "unix" else socket.AF_INET
    try:
        with socket.socket(family) as line:
            line.settimeout(ANSWER_S)
            line.connect(parts.path if parts.scheme == "unix" else (parts.hostname, parts.port))
            line.sendall(f"show events {ring}\n".encode())
            data = b""
            while block := line.recv(1 << 16):
                data += block
    except (OSError, TypeError) as error:
        raise InputError(address, f"no runtime socket of HAProxy answers: {error}") from None
    text = data.decode("utf-8", "backslashreplace")
    if text.startswith(("No such event sink", "Unknown command", "Permission denied")):
        raise InputError(address, f"HAProxy says: {text.splitlines()[0]}; `ring {ring}` must be configured")
    return [line for line in text.split("\n") if line.strip()]


def read_ring_file(path: str) -> tuple[list[str], float]:
    """Saved lines, and when they were saved."""
    lines: list[str] = []
    try:
        for block in line_blocks(LogPiece("", 0, path, 0, None), is_closed=True):
            lines += block.data.decode("utf-8", "backslashreplace").split("\n")
        return [line for line in lines if line.strip()], os.path.getmtime(path)
    except DAMAGED as error:
        raise InputError(path, f"cannot be read: {error}") from None


def take_in(lines: Sequence[str], now_s: float, place: str, state: ObserveState, into: Gathering) -> None:
    """What is new since the last look."""
    marks = state.broker("").totals
    new, is_torn = _fresh(lines, marks.get(place, []))
    if is_torn:
        into.account(ELSEWHERE).note("the ring has run over since the last look; connections may be missing")
    marks[place] = [_mark(line) for line in lines[-KEPT:]] or marks.get(place, [])
    for line in new:
        found = _line(line)
        if found is None:
            into.account(ELSEWHERE).puzzle(line)
            continue
        seconds, fraction, origin, server, client = found.groups()
        if server.startswith("<") or client == "-":
            into.account(ELSEWHERE).add("other")
            continue
        t_us = int(seconds) * 1_000_000 + int(fraction.ljust(6, "0")) if seconds else round(now_s * 1e6)
        into.account(server).add("connections")
        into.attached.append((server, t_us, unquote(client), origin))


def _fresh(lines: Sequence[str], marks: list[int]) -> tuple[Sequence[str], bool]:
    """Lines behind those that were the last ones before, and whether their place was lost."""
    if not marks:
        return lines, False
    hashes = [_mark(line) for line in lines]
    for end in range(len(lines), 0, -1):
        if hashes[max(0, end - len(marks)) : end] == marks[-min(end, len(marks)) :]:
            return lines[end:], False
    return lines, True


def _mark(line: str) -> int:
    return int.from_bytes(blake2b(line.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "big")
