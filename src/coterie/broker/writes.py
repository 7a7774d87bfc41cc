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
| seen          | publication id      | empty: had from another node                                                   |
| plan          | "kept"              | `planes.KeptPlans`                                                             |

At a start everything but `log` and `seen` comes in as `Saved`; those two can be long, and are read where they lie, by
`Shelf`: reading is rare, never on the way of a message, and sees every batch that was handed to the store before.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from coterie.mqtt.packets import Will

META, SESSIONS, SUBSCRIPTIONS, INCOMING, DELIVERIES = "meta", "sessions", "subscriptions", "incoming", "deliveries"
MESSAGES, RETAINED, LOG, SEEN, PLAN = "messages", "retained", "log", "seen", "plan"
LOADED = (META, SESSIONS, SUBSCRIPTIONS, INCOMING, DELIVERIES, MESSAGES, RETAINED, PLAN)  # given at the start
READ = (LOG, SEEN)  # asked for
INTEGER_KEYS = (MESSAGES, LOG, SEEN)
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

    def bytes_in(self, table: str) -> int:
        """About how many bytes the values of a table have."""
        ...


class SessionRow(msgspec.Struct, frozen=True, array_like=True):
    expiry_s: int = 0
    will: Will | None = None
    will_due_s: float | None = None
    expires_at_s: float | None = None
    owner: str | None = None


class DeliveryRow(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way to a client, by the message's publication id."""

    message: int
    qos: int
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    packet_id: int = 0
    state: int = 0
