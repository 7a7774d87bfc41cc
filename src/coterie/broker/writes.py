"""What a broker keeps: tables of a key and bytes. A store need not know what they mean.

A write is (table, key, value): value None removes. A key is an integer, a string or a tuple of these, of one kind per
table; `Between(first, last)` as key with None removes all of that span (tables with integer keys only).

| table         | key                 | value (msgpack unless said otherwise)                                          |
|---------------|---------------------|--------------------------------------------------------------------------------|
| meta          | name                | anything: "alive_us", "placement"                                              |
| sessions      | client              | `SessionRow`                                                                   |
| subscriptions | (client, filter)    | `mqtt.packets.Subscription`                                                    |
| incoming      | (client, packet id) | empty: a QoS 2 message was taken, its PUBREL has not come                      |
| deliveries    | (client, sequence)  | `DeliveryRow`, a reference: the body is in `messages`                          |
| messages      | publication id      | `carried.Carried`: a body once, however many deliveries and logs refer to it   |
| retained      | topic               | (stamp, bytes of a `carried.Carried`, or None: a removal, so that it stays one)|
| log           | publication id      | UTF-8 topic: what this node took at QoS 1 and 2 or retained; body in `messages`|
| marks         | (origin, topic)     | publication id: all of that origin on that topic up to here was dealt with     |
| wishes        | filter              | `Since`: from which publication of each origin on it is wanted here            |
| last          | topic               | publication id: the last one of this node on that topic that is in the log     |
| plan          | "kept"              | `planes.KeptPlans`                                                             |
| copies        | (origin, table, ...)| a row of that table at another node, whose keeper this one is (`copies`)       |
| copied_log    | publication id      | its `log`                                                                      |
| copied_bodies | publication id      | its `messages`, as far as it published them itself                             |
| copied_guests | (origin, id)        | the other ones                                                                 |

At a start everything but logs and copied bodies comes in as `Saved`; those can be long, and are read where they lie, by
`Shelf`: reading is rare, never on the way of a message, and sees every batch that was handed to the store before.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from coterie.mqtt.packets import Will

META, SESSIONS, SUBSCRIPTIONS, INCOMING, DELIVERIES = "meta", "sessions", "subscriptions", "incoming", "deliveries"
MESSAGES, RETAINED, LOG, PLAN = "messages", "retained", "log", "plan"
MARKS, WISHES, LAST = "marks", "wishes", "last"
COPIES, COPIED_LOG, COPIED_BODIES, COPIED_GUESTS = "copies", "copied_log", "copied_bodies", "copied_guests"
LOADED = (
    META,
    SESSIONS,
    SUBSCRIPTIONS,
    INCOMING,
    DELIVERIES,
    MESSAGES,
    RETAINED,
    PLAN,
    MARKS,
    WISHES,
    LAST,
    COPIES,
)  # given at the start
READ = (LOG, COPIED_LOG, COPIED_BODIES, COPIED_GUESTS)  # asked for
INTEGER_KEYS = (MESSAGES, LOG, COPIED_LOG, COPIED_BODIES)
TABLES = LOADED + READ


class Between(NamedTuple):
    """All keys from first to last, both included."""

    first: int
    last: int


Key = int | str | tuple[str | int, ...]
StoreWrite = tuple[str, Key | Between, bytes | None]
Rows = list[tuple[Key, bytes]]


class Saved(msgspec.Struct, frozen=True):
    """What a store holds at a start: rows by table, in any order but each key once; empty on the first start.

    `messages` has at least those that `deliveries` refer to.
    """

    tables: dict[str, Rows] = {}

    def rows(self, table: str) -> Rows:
        return self.tables.get(table, [])


class Shelf(Protocol):
    """What a broker reads back while it runs, at once."""

    def get(self, table: str, key: Key) -> bytes | None: ...

    def between(
        self, table: str, first: int, last: int, count_max: int = 0, newest_first: bool = False
    ) -> list[tuple[int, bytes]]:
        """Rows of a table with integer keys, in the order of keys (or the reverse), at most so many (0: all)."""
        ...

    def rows(self, table: str) -> Rows:
        """All of a table that is given at the start."""
        ...

    def bytes_in(self, table: str) -> int:
        """About how many bytes the values of a table have."""
        ...


class SessionRow(msgspec.Struct, frozen=True, array_like=True):
    expiry_s: int = 0
    will: Will | None = None
    will_due_s: float | None = None
    expires_at_s: float | None = None
    owner: str | None = None
    epoch: int = 1
    owed: tuple[tuple[str, str], ...] = ()
    past: bytes = b""  # `arrivals.Had`: what it had where it was before


class DeliveryRow(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way to a client, by the message's publication id."""

    message: int
    qos: int
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    packet_id: int = 0
    state: int = 0


class Since(msgspec.Struct, frozen=True, array_like=True):
    """When a filter was first subscribed to here: by this node's clock, and the last heard of each origin then."""

    now_us: int
    heads: dict[int, int]
    floor_us: int = 0  # for origins that nothing had been heard of; set where a client wanted it elsewhere before
