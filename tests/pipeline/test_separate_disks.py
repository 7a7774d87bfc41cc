"""A standalone cluster whose machines share nothing but an S3 endpoint, and lose a worker in the middle.

Each worker has a mount namespace of its own, with an empty disk where the driver has its files; the bills are those of
one process that has everything.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_clusters as clusters
import test_job as tests
import test_stores as stores

from coterie.pipeline import job
from coterie.pipeline.storage import Remote

LOOPBACK = "127.0.0.1"
WAIT_S = 600.0
EVENTS, FILES = 4000, 20
CAN_UNSHARE = shutil.which("unshare") is not None and os.geteuid() == 0

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not stores.JARS.is_dir(), reason="no hadoop-aws here: make jars brings it (needs Maven)"),
    pytest.mark.skipif(stores.MOTO is None, reason="no S3 server here: pip install 'moto[s3,server]'"),
    pytest.mark.skipif(not CAN_UNSHARE, reason="mount namespaces need root here"),
]


def test_plan_compare_and_watch_share_nothing_but_a_store_and_lose_workers(spark, tmp_path):
    tests.write_files(tmp_path)
    few = job.run_job(spark, tests.request(tmp_path), tests.candidates(), tmp_path / "few")
    disk = tmp_path / "disk"  # a folder of the driver; to each worker an empty disk of its own
    disk.mkdir()
    store_port, port, log = clusters.free_port(), clusters.free_port(), tmp_path / "daemons.log"
    endpoint, url = f"http://{LOOPBACK}:{store_port}", f"spark://{LOOPBACK}:{port}"
    s3a = {"endpoint": endpoint, "access.key": "a", "secret.key": "b", "endpoint.region": "x"}
    out = Remote("s3a://logs/out", tuple(sorted((f"fs.s3a.{key}", value) for key, value in s3a.items())))
    conf = {f"spark.hadoop.fs.s3a.{key}": value for key, value in (s3a | {"path.style.access": "true"}).items()}
    conf |= {"spark.jars": ",".join(map(str, sorted(stores.JARS.glob("*.jar")))), "spark.task.maxFailures": "8"}
    conf |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.ui.enabled": "false"}
    on_cluster = ["--spark", url, *(word for item in conf.items() for word in ("--conf", "=".join(item)))]
    with clusters.daemons() as started:
        store = [stores.MOTO, "-H", LOOPBACK, "-p", str(store_port)]
        started.append(
            subprocess.Popen(store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        )
        master = ("org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
        started.append(clusters.start(log, "spark-class", *master))
        clusters.wait_for_port(port, started[-1], log)
        workers = [worker(log, disk, url) for _ in range(2)]
        started += workers
        stores._put(f"{endpoint}/logs")
        for name in ("subs.csv", "pubs.jsonl"):
            stores._put(f"{endpoint}/logs/in/{name}", (tmp_path / name).read_bytes())

        inputs = ["subscriptions=s3a://logs/in/subs.csv", "publications=s3a://logs/in/pubs.jsonl"]
        inputs += ["--brokers", "5", "--zones", "1"]
        systems = [word for name in tests.NAMES for word in ("--system", name)]
        running = coterie(disk, "plan", *inputs, *systems, "--out", str(out), *on_cluster)
        until(lambda: any(out.rglob("part-*.parquet")), running, disk)
        kill(workers[0])
        told = ended(running, disk)
        ledgers = next(path for path in out.rglob("ledgers.parquet"))
        bills = pq.read_table(ledgers.key, filesystem=out.filesystem).to_pylist()
        for one in few.priced:
            which = (one.system, "stay", "later")
            found = {row["column"]: row["value"] for row in bills if which == tuple(list(row.values())[:3])}
            assert found == pytest.approx(one.later.columns(), rel=1e-9), told
        assert any(out.rglob("CURRENT"))
        again = coterie(disk, "compare", *inputs, *systems, "--out", str(out), *on_cluster)
        assert "scribe" in ended(again, disk)

        started.append(worker(log, disk, url))
        wished, said = write_events(tmp_path / "events")
        for path in sorted((tmp_path / "events").iterdir()):
            stores._put(f"{endpoint}/logs/events/{path.name}", path.read_bytes())
        watched = ["--out", str(disk / "plans"), "--window", "60", "--until-idle", "--checkpoint", "s3a://logs/stream"]
        running = coterie(disk, "watch", "s3a://logs/events", *watched, *systems, *on_cluster)
        until((out.parent / "stream/checkpoint/offsets/0").exists, running, disk)
        kill(workers[1])
        ended(running, disk)
    known = json.loads((disk / "plans/progress.json").read_text())
    assert (known["line_count"], known["event_count"]) == (wished + said, said)
    assert any((disk / "plans").rglob("CURRENT"))


def worker(log: Path, disk: Path, url: str) -> subprocess.Popen[bytes]:
    """One that finds an empty disk where the driver keeps its files."""
    inside = f'mount -t tmpfs none {disk} && mkdir {disk}/work {disk}/tmp && TMPDIR={disk}/tmp exec "$@"'
    sizes = ("--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", f"{disk}/work")
    spark_class = str(clusters.HOME / "bin" / "spark-class")
    command = ("sh", "-c", inside, "worker", spark_class, "org.apache.spark.deploy.worker.Worker", *sizes, url)
    return clusters.start(log, str(shutil.which("unshare")), "-m", *command)


def coterie(disk: Path, *words: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(stores.ROOT / "src"),
        "TMPDIR": str(disk),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    with open(disk / "err.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "coterie", *words], cwd=disk, env=environment, stdout=subprocess.PIPE, stderr=log,
            text=True,
        )  # fmt: skip


def until(is_so, running: subprocess.Popen[str], disk: Path) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert running.poll() is None, errors_of(disk)
        assert time.monotonic() < end, "it does not begin"
        time.sleep(0.2)


def ended(running: subprocess.Popen[str], disk: Path) -> str:
    try:
        told = running.communicate(timeout=2 * WAIT_S)[0]
    except subprocess.TimeoutExpired:
        running.kill()
        raise
    assert running.returncode == 0, errors_of(disk)
    return told


def errors_of(disk: Path) -> str:
    return (disk / "err.log").read_text()[-3000:]


def kill(process: subprocess.Popen[bytes]) -> None:
    """A machine that is gone: the worker and its executors."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write_events(folder: Path) -> tuple[int, int]:
    """Wishes, and publications of twenty minutes, in several files."""
    folder.mkdir()
    wishes = [
        {
            "time": 1.0 + index,
            "node": f"n{index % 4}",
            "kind": "subscribe",
            "client": f"c{index}",
            "topic": f"t{index % 9}",
        }
        for index in range(40)
    ]
    events = [
        {"time": 60.0 + 1200 * index / EVENTS, "node": f"n{index % 4}", "kind": "publish", "client": f"c{index % 40}",
         "topic": f"t{index * index % 9}"}
        for index in range(EVENTS)
    ]  # fmt: skip
    rows = wishes + events
    for number in range(FILES):
        pq.write_table(pa.Table.from_pylist(rows[number::FILES]), folder / f"{number:03d}.parquet")
    return len(wishes), len(events)
