"""Spark and one pass in Python read the same log alike: journal, account and memory."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from coterie.fleets.observe.bulk import observe_in_spark
from coterie.fleets.observe.following import LogObserver
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace
from tests.fleets.observe.fake_mosquitto import FakeMosquitto

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from coterie.pipeline.session import open_session

    return open_session("local[1]", profile="test", work_dir=tmp_path_factory.mktemp("spark"))


def journal(folder: Path) -> dict[str, object]:
    """Wishes of each client in their order, publications added up by moment, client, topic and size."""
    wishes: dict[tuple, list[tuple]] = {}
    messages: Counter[tuple] = Counter()
    for path in sorted(folder.glob("*/*.jsonl")):
        before = float("-inf")
        for line in path.read_text().split("\n")[:-1]:
            told = json.loads(line)
            assert told["t"] >= before, "lines are by time"
            before = told["t"]
            if told["kind"] == "publish":
                key = (told["node"], told["t"], told.get("client"), told["topic"], told["bytes"])
                messages[key] += told.get("count", 1)
            elif told["kind"] != "counters":
                entry = (told["t"], told["kind"], told["topic"], told.get("seen"))
                wishes.setdefault((told["node"], told["client"]), []).append(entry)
    return {"wishes": wishes, "messages": messages}


def observer(folder: Path, places: list[BrokerPlace], zone: str = "UTC") -> LogObserver:
    return LogObserver(JournalStore(folder, "mosquitto"), places, zone=zone)


def in_spark(one: LogObserver, spark) -> None:
    observe_in_spark(one, one._unread(), lambda stage, share: None, spark)


def known(one: LogObserver) -> dict[str, object]:
    return {
        node: msgspec.to_builtins((broker.memory, broker.sessions)) for node, broker in one.store.state.brokers.items()
    }


def test_any_log_gives_the_same_journal_account_and_memory(spark, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    places = []
    for seed in range(4):
        mode, version = ("wishes", "all", "debug", "all")[seed], ("2.0", "2.1")[seed % 2]
        fake = FakeMosquitto(seed, mode, version, ("epoch", "iso", "offset", "epoch")[seed])
        text = fake.run(500).encode()
        path = logs / f"b{seed}.log"
        older, newer = text[: len(text) // 2], text[len(text) // 2 :]  # cut anywhere: the end of the older one is torn
        (logs / f"b{seed}.log.2.gz").write_bytes(gzip.compress(older.replace(b"sensor-2", b"sensor-\xff")))
        path.write_bytes(newer + b"1794824999: torn")
        places.append(BrokerPlace(f"b{seed}", str(path)))
    one, other = (
        observer(tmp_path / "python", places, "America/New_York"),
        observer(tmp_path / "spark", places, "America/New_York"),
    )
    one.observe()
    in_spark(other, spark)
    assert journal(tmp_path / "python") == journal(tmp_path / "spark")
    assert known(one) == known(other)
    for node, account in one.totals.accounts.items():
        mirror = other.totals.accounts[node]
        assert account.counts == mirror.counts, node
        assert account.backwards == mirror.backwards
        assert account.notes == mirror.notes
        assert len(account.examples) == len(mirror.examples)
    assert sum(account.backwards for account in one.totals.accounts.values()) > 0
    one.store.close()
    other.store.close()
