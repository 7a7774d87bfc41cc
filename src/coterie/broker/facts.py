"""All that can happen to a broker. The contract between the machine and its drivers, with `orders` and `writes`.

    broker = Broker(setup, shelf)                    # `machine.Broker`; nothing happens yet
    orders = broker.step(Booted(...), now_s)         # the first fact, once
    orders = broker.step(fact, now_s)                # any number of facts: one turn
    orders = broker.end_turn(now_s)                  # what the turn wants written, sent and persisted
    orders = broker.straight(line, data, now_s)      # or, in between: a turn that is one chunk of a client
    orders = broker.landed(peer, frames, now_s)      # or what a process of the same machine said

- A **turn** is one or more steps, then `end_turn`; the driver decides how many. `step` returns what may be done at once
  (timers, dialling, questions, words for the log); `end_turn` returns the `Write` and `Tell` orders of the turn, each
  line and each peer at most once, and at most one `Persist`, which comes last. Orders are carried out in their order.
  After any step there may be something for `end_turn` (`has_turn` says so), so a driver calls it before it waits for
  anything.
- **The straight way**: between turns a driver may offer a client's chunk to `straight`, and what a peer said to
  `landed`, instead of making it a fact. They return the orders of a whole turn, or None: then nothing has happened, and
  it is to be a fact. What they do is what `step` and `end_turn` would have done (the module `straight` says when).
- **Time** is `now_s`: this node's clock, in seconds since 1970, the same for both calls. It never goes back while the
  broker lives; between lives, and between nodes, it may be anything. Nothing but the order of facts is taken from it
  where a promise depends on it.
- A **line** is one client's connection: a number that the driver gives and never uses again in this life. After
  `Closed(line)`, or after it has carried out `Close(line)`, the driver says nothing of that line any more (it still
  says `Closed` once if the line was there until then); orders for a line that is gone are dropped silently.
- A **peer** is another node, by its number. The driver may keep several connections to one; to the broker there is one
  or none: `PeerUp` when the first is there (greeted, key proven), `PeerGone` when the last has gone. Between the two,
  what was told arrives at the other side in order, once, or not at all with everything behind it (`PeerGone` follows).
- **Commands** (`commands`) are facts too: an operator, or the program that serves one, orders something. What is wrong
  with one raises CoterieError, and nothing has happened.
- Facts hold plain values. Lists in them belong to the broker afterwards; lists in orders belong to the driver.
- A broker never raises for what clients or peers do. `Fail` is its last order: the node ends.
"""

from __future__ import annotations

import msgspec

from coterie.broker.commands import Command
from coterie.broker.writes import Saved
from coterie.mqtt.ruling import Ruling
from coterie.protocol.events import Stopping, TimerFired


class Booted(msgspec.Struct, frozen=True):
    """The node exists from now on. `life` was never used before by this node: it rises with every start.

    `saved` is what the store holds; sessions in it work again at once, as if their clients had just gone.
    """

    life: int
    saved: Saved


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A client connected, from this address; `certified` is the user that its certificate names, if TLS asked.

    An inner line is a part of the node itself (a bridge): whom it names needs no certificate. A movable one is a plain
    socket, which the driver can pass to another process of the machine.
    """

    line: int
    host: str = ""
    certified: str = ""
    is_inner: bool = False
    is_movable: bool = False


class GotSocket(msgspec.Struct, frozen=True, gc=False):
    """Another process of the machine gave us a client's socket (`PassSocket` there): it is a line of ours."""

    line: int
    host: str
    peer: int
    number: int


class Bytes(msgspec.Struct, frozen=True, gc=False):
    """A client sent this; any split of its stream means the same."""

    line: int
    data: bytes


class Choked(msgspec.Struct, frozen=True, gc=False):
    """What is written to this client piles up; the driver reads nothing of it meanwhile. `Drained` ends it."""

    line: int


class Drained(msgspec.Struct, frozen=True, gc=False):
    line: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The client's connection is gone, whoever ended it."""

    line: int


class Proven(msgspec.Struct, frozen=True):
    """The answer to `Check`: who the client is, or why it is not let in. A line that is gone needs no answer."""

    line: int
    ruling: Ruling


class PeerUp(msgspec.Struct, frozen=True, gc=False):
    """There is a connection with this peer now, whoever dialled."""

    peer: int


class PeerSaid(msgspec.Struct, frozen=True, gc=False):
    """Whole frames from a peer, in order: (kind, body) each. `frames.FrameReader` makes them from any chunks."""

    peer: int
    frames: list[tuple[int, bytes]]


class PeerGone(msgspec.Struct, frozen=True, gc=False):
    """The last connection with this peer is gone; also the answer to `HangUp`."""

    peer: int
    reason: str = ""


class Knocked(msgspec.Struct, frozen=True, gc=False):
    """Somebody who has the network's key, and is no member here, connected as that node and said this.

    A door is a number that the driver gives; `AnswerDoor` closes it, and so may the driver, without a word. Who has no
    number yet is NEWCOMER; `named` is the node that its certificate is for, where links have certificates.
    """

    door: int
    node: int
    frames: list[tuple[int, bytes]]
    named: int = -1


class DialFailed(msgspec.Struct, frozen=True, gc=False):
    """The answer to `Dial`, if it is not `PeerUp`. Never without a `Dial`."""

    peer: int
    reason: str = ""


class PeerChoked(msgspec.Struct, frozen=True, gc=False):
    """What this peer is told piles up: the broker keeps the rest to itself until `PeerDrained`."""

    peer: int


class PeerDrained(msgspec.Struct, frozen=True, gc=False):
    peer: int


class Persisted(msgspec.Struct, frozen=True, gc=False):
    """This batch and all before it are safe, and what waited for them has been carried out."""

    batch: int


class StoreFailed(msgspec.Struct, frozen=True, gc=False):
    """A batch cannot be written. The node ends rather than break its word; `then` of that batch is never done."""

    reason: str


Fact = (
    Booted | Opened | GotSocket | Bytes | Choked | Drained | Closed | Proven | PeerUp | PeerSaid | PeerGone | DialFailed
    | PeerChoked | PeerDrained | Knocked | Persisted | StoreFailed | TimerFired | Stopping | Command
)  # fmt: skip
