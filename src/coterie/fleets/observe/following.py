"""Logs of mosquittos into a journal: batch after batch in this process, or all at once with Spark if they are big."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.errors import InputError
from coterie.fleets.observe.brokerfiles import BrokerFiles, Unread
from coterie.fleets.observe.gathering import Gathering, LineAccount
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.mosquitto import MosquittoLog
from coterie.fleets.observe.places import BrokerPlace
from coterie.fleets.observe.rendering import render
from coterie.fleets.observe.stamps import Stamps

BATCH_BYTES = 64 << 20  # in this process, and between two commits
QUIET_LINES = 100  # a log this long without a publication says too little
SPARK_BYTES = 8 << 30  # one pass takes minutes from here on; on two cores it is the faster one at two million lines


@dataclass
class Totals:
    """What became of all lines of a run, by broker."""

    accounts: dict[str, LineAccount] = field(default_factory=dict)

    def add(self, accounts: dict[str, LineAccount]) -> None:
        for node, account in accounts.items():
            self.accounts.setdefault(node, LineAccount()).merge(account)


def commit(store: JournalStore, gathering: Gathering, totals: Totals) -> None:
    """One batch into the journal."""
    carried = store.state.carried()
    wishes = gathering.wishes(carried)
    for node, sessions in carried.items():
        store.state.broker(node).sessions = sessions
    announce(store, gathering)
    store.commit(render(gathering, wishes))
    totals.add(gathering.accounts)


def announce(store: JournalStore, gathering: Gathering) -> None:
    """A broker that nobody used is a broker too: its first lines are its counters."""
    moments = [one.t_us for one in gathering.sightings] + [one.t_us for one in gathering.publications]
    for node, account in gathering.accounts.items():
        if node.startswith("("):  # lines of no broker
            continue
        if not any((store.folder / node).glob("*.jsonl")) and not any(one[0] == node for one in gathering.counters):
            own = [one.t_us for one in gathering.sightings if one.node == node]
            own += [one.t_us for one in gathering.publications if one.node == node]
            t_us = min(own or moments or [time.time_ns() // 1000])
            gathering.counters.append((node, t_us, {"lines_observed": float(account.lines)}))


@dataclass
class LogObserver:
    """The logs of some brokers."""

    store: JournalStore
    places: Sequence[BrokerPlace]
    time_format: str | None = None
    zone: str = "UTC"
    engine: str = "auto"  # or python, spark
    master: str = "local[*]"

    def __post_init__(self) -> None:
        self.totals = Totals()
        self._stamps = Stamps(self.time_format, self.zone)
        self._announced: set[str] = set()

    def observe(self, report: Callable[[str, float], None] = lambda stage, share: None) -> bool:
        """Everything that is new now; whether there was anything."""
        unread = self._unread()
        left = sum(file.size_bytes for files in unread.values() for file in files)
        if self.engine == "spark" or (self.engine == "auto" and left >= SPARK_BYTES):
            self._in_spark(unread, report)
        moved, is_more = 0, True
        while is_more:
            used = self._batch()
            moved += used
            is_more = used >= BATCH_BYTES
            report("reading", min(1.0, moved / max(1, left)))
        return moved > 0

    def _files(self) -> list[BrokerFiles]:
        return [
            BrokerFiles(place.node, Path(place.location), self.store.state.broker(place.node)) for place in self.places
        ]

    def _unread(self) -> dict[str, list[Unread]]:
        return {files.node: files.unread() for files in self._files()}

    def _batch(self) -> int:
        """About BATCH_BYTES of all brokers together; what was read and what follows from it are committed as one."""
        gathering, used = Gathering(), 0
        share = max(1, BATCH_BYTES // max(1, len(self.places)))
        is_full = False
        for files in self._files():
            log = MosquittoLog(files.node, self._stamps, files.state.memory, files.state.sessions, gathering)
            read = files.read(log, self._stamps, self.zone, share)
            log.finish()
            gathering.account(files.node).merge(files.account)
            used += read
            is_full |= read >= share
        if used or any(place.node not in self._announced for place in self.places):
            commit(self.store, gathering, self.totals)
            self._announced |= {place.node for place in self.places}
        else:
            self.totals.add(gathering.accounts)
        return max(used, BATCH_BYTES) if is_full else min(used, BATCH_BYTES - 1)

    def _in_spark(self, unread: dict[str, list[Unread]], report: Callable[[str, float], None]) -> None:
        """The files that mosquitto wrote itself; what journald wrapped is left to the loop."""
        from coterie.fleets.observe.bulk import observe_in_spark

        chosen = {node: [file for file in files if not file.form] for node, files in unread.items()}
        if any(chosen.values()):
            observe_in_spark(self, chosen, report)

    def follow(self, every_s: float, told: Callable[[Totals], None]) -> None:
        """Until somebody interrupts it."""
        while True:
            if self.observe():
                told(self.totals)
            time.sleep(every_s)

    def advise(self) -> None:
        """What a log that says too little should say."""
        for account in self.totals.accounts.values():
            if account.lines and not account.used:
                account.note("nothing here looks like mosquitto's log with its times; see docs/howto/observe.md")
            elif account.lines > QUIET_LINES and not account.counts.get("publications"):
                account.note("no publications in this log: `log_type all` shows them")

    def check_readable(self) -> None:
        """At least one of the places must be readable, or nothing would ever come."""
        reasons = []
        for files in self._files():
            files.unread()
            if not any("cannot be read" in note for note in files.account.notes):
                return
            reasons += files.account.notes
        raise InputError(self.places[0].location, reasons[0].partition(": ")[2] if reasons else "cannot be read")
