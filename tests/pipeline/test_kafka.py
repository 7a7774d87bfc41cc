"""From a real Kafka broker to a plan: every message counted once, with driver and broker killed in between.

Needs `make jars`. COTERIE_KAFKA_MESSAGES=1000000 for the full size.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.pipeline.progress import Progress, load_progress
from coterie.plans.store import PlanStore

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".jars"
MESSAGES = int(os.environ.get("COTERIE_KAFKA_MESSAGES", "60000"))
BATCHES = 20
WISHED = 170  # pairs of user and page, each said again and again
WAIT_S = 280.0 + MESSAGES / 1000
WINDOW_S = 2.0 if MESSAGES < 200_000 else 60.0  # a message is a millisecond

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(4 * WAIT_S),
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not (JARS / "broker").is_dir(), reason="no Kafka here: make jars brings it (needs Maven)"),
    pytest.mark.skipif(shutil.which("java") is None, reason="no java command here"),
]

COMMON = """
import glob, sys
from pathlib import Path
from coterie.pipeline.session import open_session
jars = [*glob.glob(sys.argv[1] + "/*kafka*.jar"), *glob.glob(sys.argv[1] + "/commons-pool2*.jar")]
spark = open_session("local[2]", profile="test", conf={"spark.jars": ",".join(jars)})
servers, count, out = sys.argv[2], int(sys.argv[3]), sys.argv[4]
"""
PRODUCE = """
from pyspark.sql import functions as sf
told = sf.struct(
    (sf.lit(1_700_000_000_000) + sf.col("id")).alias("ts"), sf.concat(sf.lit("u"), sf.col("id") % 100).alias("user"),
    sf.when(sf.col("id") % 10 == 0, "subscribe").otherwise("publish").alias("what"),
    sf.concat(sf.lit("t/"), sf.col("id") % 17).alias("page"))
rows = spark.range(0, count, 1, 1).select(sf.to_json(told).alias("value"))
rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "events").save()
"""
WATCH = """
from coterie.pipeline.reconfiguration import DecisionRules
from coterie.pipeline.planning import Candidate
from coterie.pipeline.streams import KafkaLines
from coterie.pipeline.watch import Watch, WatchLock
from coterie.systems import SYSTEMS
columns = {"time": "ts", "client": "user", "kind": "what", "topic": "page"}
source = KafkaLines(servers, "events", columns, batch_messages=count // BATCHES)
rules = DecisionRules([Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())], SYSTEMS, windows_per_period=5)
WatchLock(spark, Watch(Path("."), Path(out), rules, WINDOW_S, source=source)).run_until_idle()
"""


class Broker:
    """One Kafka broker that is its own controller (KRaft)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ports = folder, [_free_port(), _free_port()]
        self.servers = f"127.0.0.1:{self.ports[0]}"
        text = f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{self.ports[1]}
listeners=PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{self.ports[1]}
advertised.listeners=PLAINTEXT://{self.servers}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder / "logs"}
num.partitions=3
offsets.topic.replication.factor=1
"""
        folder.mkdir()
        (folder / "server.properties").write_text(text)
        command = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]
        subprocess.run(
            [*self._java(), *command, str(folder / "server.properties")], check=True, capture_output=True, timeout=120
        )
        self.process: subprocess.Popen[bytes] | None = None

    def _java(self) -> list[str]:
        return ["java", "-Xmx400m", "-cp", f"{JARS / 'broker'}/*"]

    def start(self) -> None:
        with open(self.folder / "out.log", "ab") as log:
            command = [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(lambda: _answers(self.ports[0]))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as caller:
        caller.settimeout(1)
        return caller.connect_ex(("127.0.0.1", port)) == 0


def wait_until(is_so, process: subprocess.Popen[bytes] | None = None, log: Path | None = None) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        assert process is None or process.poll() is None, log and log.read_text()[-3000:]
        time.sleep(0.2)


def run(script: str, servers: str, out: Path) -> subprocess.Popen[bytes]:
    text = (COMMON + script).replace("BATCHES", str(BATCHES)).replace("WINDOW_S", str(WINDOW_S))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", text, str(JARS / "spark"), servers, str(MESSAGES), str(out)]
    with open(out.parent / "out.log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """The driver with its JVM and workers, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_every_message_is_counted_once_through_kills_of_driver_and_broker(tmp_path):
    broker, out = Broker(tmp_path / "broker"), tmp_path / "out"
    running = []

    def known() -> Progress:
        return load_progress(out, Progress(WINDOW_S, 0.3, 32))

    try:
        broker.start()
        running.append(run(PRODUCE, broker.servers, out))
        assert running[-1].wait(WAIT_S) == 0, (tmp_path / "out.log").read_text()[-3000:]
        running.append(run(WATCH, broker.servers, out))
        wait_until(lambda: known().batch >= 2, running[-1], tmp_path / "out.log")
        end(running[-1])
        first = known().batch
        assert first < BATCHES, "it was done before it could be killed"
        running.append(run(WATCH, broker.servers, out))
        wait_until(lambda: known().batch >= first + 2, running[-1], tmp_path / "out.log")
        broker.kill()
        time.sleep(1)
        broker.start()
        assert running[-1].wait(WAIT_S) == 0, (tmp_path / "out.log").read_text()[-3000:]
    finally:
        for process in running:
            end(process)
        broker.kill()
    last = known()
    assert (last.line_count, last.bad_count, last.late_count) == (MESSAGES, 0, 0)
    assert last.event_count == MESSAGES - -(-MESSAGES // 10)
    assert last.batch >= BATCHES - 1
    assert last.wanted_count == WISHED
    plans = PlanStore(out)
    keys = [plans.facts(version).key for version in plans.versions()]
    assert keys
    assert len(set(keys)) == len(keys)
    assert plans.current() == last.plan
