"""What people did and saw, moment by moment: all that the judge goes by, besides the scenario and the disks."""

from __future__ import annotations

from collections import Counter

import msgspec


class Uttered(msgspec.Struct):
    """A message that somebody asked its client to send."""

    number: int
    who: int
    topic: str
    qos: int
    retain: bool
    asked_us: int
    acked_us: int = -1
    is_refused: bool = False
    copies: tuple[int, ...] = ()  # nodes that had it on disk when it was acknowledged
    copies_due: int = 0
    nodes: tuple[int, ...] = ()  # that it was sent to
    resends: int = 0  # connections on which it was sent again
    may_double: bool = False  # its client's session was gone, so it was sent as a new one
    expiry_s: int = 0
    is_will: bool = False
    is_unlawful: bool = False  # whoever said it may not, at some time at least


class Receipt(msgspec.Struct):
    """A message that came."""

    time_us: int
    number: int
    topic: str
    qos: int
    is_retained: bool
    epoch: int
    connection: int
    node: int = -1  # that sent it
    is_alone: bool = False  # whether that node may have gone on with fewer copies than it should have


class Grant(msgspec.Struct):
    """A subscription that was confirmed, until it was given up or its session was gone."""

    filter: str
    qos: int
    from_us: int
    epoch: int
    connection: int
    until_us: int = -1
    is_alone: bool = False  # as with receipts


class Violation(msgspec.Struct, frozen=True):
    """A broken promise. `rule` names it in one word; the same scenario breaks the same rule again."""

    rule: str
    text: str


class Diary:
    """One client's part of the record. `epoch` counts its sessions, `connection` its connections."""

    def __init__(self, who: int) -> None:
        self.who = who
        self.epoch = self.connection = 0
        self.since_us = 0  # when its last connection was accepted
        self.receipts: list[Receipt] = []
        self.grants: list[Grant] = []
        self.losses_us: list[int] = []  # when it noticed that its connection was gone
        self.wills_due: list[tuple[int, int]] = []  # when its connection with which node broke, and it had a will
        self.stays_alone: list[tuple[int, int]] = []  # when it left which node that may have had too few to keep for it
        self.presences: list[tuple[int, int]] = []  # from when to when its node may have seen it; -1: still
        self.got: dict[tuple[int, int], list[Receipt]] = {}  # (number, epoch) -> receipts

    def receive(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        if not receipt.is_retained:
            self.got.setdefault((receipt.number, receipt.epoch), []).append(receipt)

    def holds(self, grant: Grant, until_us: int) -> bool:
        """Whether it was wanted all the time until then; what is asked for once more goes on."""
        while 0 <= grant.until_us < until_us:
            again = [one for one in self.grants if one.filter == grant.filter and one.from_us == grant.until_us]
            if not again or again[-1] is grant:
                return False
            grant = again[-1]
        return True

    def end_grants(self, now_us: int, topic_filter: str | None = None) -> None:
        for grant in self.grants:
            if grant.until_us < 0 and topic_filter in (None, grant.filter):
                grant.until_us = now_us


class Chronicle:
    """Everything that happened, for the judge and for the report."""

    def __init__(self, residents: int) -> None:
        self.uttered: dict[int, Uttered] = {}
        self.diaries = [Diary(who) for who in range(residents)]
        self.violations: list[Violation] = []
        self.injected: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.failures: list[tuple[int, int]] = []  # when which node went down
        self.passed = 0  # sockets that went to another process
        self.choked = 0  # connections whose client did not keep up: what is QoS 0 may be given up there
        self.said: list[str] = []  # what brokers told their log, the last of it

    def violate(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, text))

    def say(self, text: str) -> None:
        self.said.append(text)
        if len(self.said) > 400:
            del self.said[:200]
