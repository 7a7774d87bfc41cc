"""All that a broker can order; see `facts` for the turn, lines and peers. Orders are in the imperative.

Timers are those of `protocol.events`: `SetTimer(timer, delay_s)` (setting one that is set moves it) and `CancelTimer`;
when one is due the driver says `TimerFired(timer)`. None survives the process.
"""

from __future__ import annotations

import msgspec

from coterie.broker.credentials import Check
from coterie.broker.writes import StoreWrite
from coterie.protocol.events import CancelTimer, SetTimer


class Write(msgspec.Struct, frozen=True, gc=False):
    """Send these bytes to a client, one behind the other."""

    line: int
    chunks: list[bytes]


class Close(msgspec.Struct, frozen=True, gc=False):
    """End a client's connection behind all that was written. `linger`: it should get to read the last of it."""

    line: int
    linger: bool = False


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Read nothing more from this client until `Resume`."""

    line: int


class Resume(msgspec.Struct, frozen=True, gc=False):
    line: int


class PassSocket(msgspec.Struct, frozen=True, gc=False):
    """Give a client's socket, with all that was not read from it yet, to another process of the machine, where it
    becomes `GotSocket`. The line is gone with it; if it cannot be given, the connection ends.
    """

    line: int
    peer: int
    number: int


class Prove(msgspec.Struct, frozen=True):
    """Find out whether a client is who it says; the answer is `Proven`. It takes its time, so it is not done here.

    `may_try` False: only if the answer is known from before; else it is SERVER_BUSY.
    """

    line: int
    check: Check
    address: str
    may_try: bool = True


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Send these frames, as they are, to a peer. Dropped if the peer is not there (any more)."""

    peer: int
    chunks: list[bytes]


class Dial(msgspec.Struct, frozen=True, gc=False):
    """Connect to a peer where the configuration, or `Meet`, says it is; `PeerUp` or `DialFailed` answers."""

    peer: int


class Meet(msgspec.Struct, frozen=True, gc=False):
    """This peer is a member from now on, and can be dialled there."""

    peer: int
    host: str
    port: int


class AnswerDoor(msgspec.Struct, frozen=True, gc=False):
    """Tell whoever knocked at this door, then close it."""

    door: int
    data: bytes


class LeaveNetwork(msgspec.Struct, frozen=True, gc=False):
    """The node has left the network: stop it in good order. What is left of it on disk is of no use to anybody."""

    reason: str


class HangUp(msgspec.Struct, frozen=True, gc=False):
    """End all connections with a peer behind what it was told (`abrupt`: at once); `PeerGone` answers."""

    peer: int
    reason: str = ""
    abrupt: bool = False


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Make these writes safe, all or none of them, then carry out `then`, then say `Persisted(batch)`.

    Batches are numbered from 1 without gaps and become safe in that order; several may be under way. After a crash the
    store holds the batches up to some number and nothing of later ones: that number is at least the greatest for which
    `then` was begun. `writes` may be empty (only the order of `then` matters then).
    """

    batch: int
    writes: list[StoreWrite]
    then: list[Order]


class Note(msgspec.Struct, frozen=True, gc=False):
    """Lines for the journal of what clients do, each without its end of line."""

    lines: list[bytes]


class Say(msgspec.Struct, frozen=True, gc=False):
    """A line for the log, for people."""

    text: str


class Fail(msgspec.Struct, frozen=True, gc=False):
    """The node cannot do its job: end it. Nothing of this broker counts any more."""

    reason: str


Order = (
    Write | Close | Pause | Resume | PassSocket | Prove | Tell | Dial | HangUp | Persist | SetTimer | CancelTimer | Note
    | Say | Fail | Meet | AnswerDoor | LeaveNetwork
)  # fmt: skip
