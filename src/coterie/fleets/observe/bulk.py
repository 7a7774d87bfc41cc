"""Big logs: Spark takes them apart, the result is committed like any other batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.fleets.observe.brokerfiles import NOT_ENDED, Unread
from coterie.fleets.observe.gathering import LineAccount
from coterie.fleets.observe.mosquitto import LogMemory
from coterie.fleets.observe.stamps import shapes_of
from coterie.pipeline.brokerlogs import BrokerFindings, BrokerLog, read_broker_logs
from coterie.pipeline.logfiles import is_compressed, last_line_end
from coterie.pipeline.session import EXTRA_JVM, close_session, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.fleets.observe.following import LogObserver

HUGE = "-XX:-DontCompileHugeMethods"  # all questions about a line are one method; compiled it takes half the time
UNKNOWN_END = 1 << 62  # of a compressed file that was read to its end


def observe_in_spark(
    observer: LogObserver,
    unread: dict[str, list[Unread]],
    report: Callable[[str, float], None],
    spark: SparkSession | None = None,
) -> None:
    """All files at once. `spark` is stopped at the end unless it was given."""
    store, state = observer.store, observer.store.state
    accounts = {node: LineAccount() for node in unread}
    logs = [_log(node, files, observer, accounts[node]) for node, files in unread.items()]
    report("starting Spark", 0.0)
    session = spark or open_session(observer.master, conf={EXTRA_JVM: HUGE})
    try:
        shapes = shapes_of(observer.time_format)
        findings = read_broker_logs(session, logs, shapes, observer.zone, store.aside, report)
    finally:
        if spark is None:
            close_session(session)
    for log, found in zip(logs, findings, strict=True):
        _take_over(accounts[log.node], found)
        broker = state.broker(log.node)
        broker.memory = LogMemory(found.block, found.expected, found.bridges, found.names_accepted)
        broker.sessions = found.sessions
        for file, piece in zip(unread[log.node], log.pieces, strict=True):
            file.advance(UNKNOWN_END if piece.stop is None else piece.stop, True)
    store.commit_files(
        {log.node: found.files for log, found in zip(logs, findings, strict=True)},
        sum(found.line_count for found in findings),
    )
    observer.totals.add(accounts)


def _log(node: str, files: list[Unread], observer: LogObserver, account: LineAccount) -> BrokerLog:
    broker = observer.store.state.broker(node)
    pieces = []
    for file in files:
        path, stop = file.piece.path, None
        if not is_compressed(path):
            stop = os.path.getsize(path) if file.is_closed else last_line_end(path, file.piece.start)
            if not file.is_closed and stop < os.path.getsize(path):
                account.note(f"{path}: {NOT_ENDED}")
        pieces.append(file.piece._replace(stop=stop))
    memory = broker.memory
    return BrokerLog(
        node, pieces, memory.block, memory.expected, memory.bridges, memory.names_accepted, broker.sessions
    )


def _take_over(account: LineAccount, found: BrokerFindings) -> None:
    for category, count in found.counts.items():
        account.add(category, count)
    account.examples = found.examples
    account.backwards = found.backwards
