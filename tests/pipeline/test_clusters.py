"""The job on executors of their own: local-cluster, a standalone master with two workers, Spark Connect."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import coterie.submit
from coterie.pipeline import job
from coterie.pipeline.java import find_java, java_home

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
START_S = 120.0

# A session has its master for life, so every cluster gets a process of its own.
SCRIPT = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_job as tests
import pyarrow as pa
from coterie.pipeline.session import open_session
from coterie.pipeline.tasks import run_tasks
def where(task):
    import coterie, time
    time.sleep(0.2)  # long enough that one executor cannot take all of them
    return pa.table({"pid": pa.array([os.getppid()], pa.int64()), "file": [coterie.__file__]})
folder, out, master = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
conf = {} if master.startswith("sc:") else {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = open_session(master, profile="test", work_dir=out / "spark", conf=conf)
few = tests.job.run_job(spark, tests.request(folder), tests.candidates(), out)
if os.environ.get("WITH_A_CROWD"):
    placer = tests.job.Candidate(tests.SYSTEMS["coterie"], tests.SYSTEMS["coterie"].parameters())
    asked = tests.replace(tests.request(folder), is_crowd=True)
    crowd = tests.job.run_job(spark, asked, tests.candidates(), out / "crowd", placer=placer)
    for ours, theirs in zip([one for one in crowd.priced if one.placement == "stay"], few.priced, strict=True):
        assert ours.later.columns() == tests.pytest.approx(theirs.later.columns(), rel=1e-9)
found = run_tasks(spark, list(range(12)), where, "pid long, file string")
told = {name: sorted(set(found[name].to_pylist())) for name in ("pid", "file")}
sys.stdout.write("\\n" + json.dumps(told) + "\\n")
spark.stop()
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    import test_job

    folder = tmp_path_factory.mktemp("files")
    test_job.write_files(folder)
    return folder


@pytest.fixture(scope="module")
def expected(spark, files, tmp_path_factory) -> list[dict]:
    """The ledgers of the same job in the session of this process."""
    import test_job

    out = tmp_path_factory.mktemp("here")
    job.run_job(spark, test_job.request(files), test_job.candidates(), out)
    return pq.read_table(out / job.LEDGERS).to_pylist()


def run_on(master: str, files: Path, out: Path, **environment: str) -> dict[str, list]:
    """With relative paths, which must mean the same to executors that work in other folders."""
    paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT,
            str(Path(__file__).parent),
            files.name,
            os.path.relpath(out, files.parent),
            master,
        ],
        cwd=files.parent,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until somebody listens; skips the test where that never happens."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            errors = [line for line in log.read_text().splitlines() if "Exception" in line or "rror" in line]
            pytest.skip(f"the daemon ended with code {process.returncode}: {' / '.join(errors[:2])}")
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.skip(f"nobody listened on port {port} within {START_S:g} s")


@contextmanager
def daemons() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended together with all their children, whatever happens."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in reversed(started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def start(log: Path, *command: str, memory: str = "256m") -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java_home(find_java())),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_LOG_DIR": str(log.parent),
        "SPARK_PID_DIR": str(log.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    with open(log, "ab") as file:
        return subprocess.Popen(
            [str(HOME / "bin" / command[0]), *command[1:]],
            env=environment,
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def test_local_cluster(files, expected, tmp_path):
    told = run_on("local-cluster[2,1,1024]", files, tmp_path)
    assert pq.read_table(tmp_path / job.LEDGERS).to_pylist() == expected
    assert len(told["pid"]) == 2


def test_standalone_master_and_two_workers(files, expected, tmp_path):
    port, log = free_port(), tmp_path / "daemons.log"
    url = f"spark://{LOOPBACK}:{port}"
    with daemons() as started:
        master = ("org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
        started.append(start(log, "spark-class", *master))
        wait_for_port(port, started[0], log)
        for index in range(2):
            work = tmp_path / f"worker-{index}"
            sizes = ("--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(work))
            started.append(start(log, "spark-class", "org.apache.spark.deploy.worker.Worker", *sizes, url))
        told = run_on(url, files, tmp_path / "out", SPARK_LOCAL_IP=LOOPBACK)
    assert pq.read_table(tmp_path / "out" / job.LEDGERS).to_pylist() == expected
    assert len(told["pid"]) == 2, "both workers take part"
    assert all("unpacked" in file for file in told["file"]), "executors run the package that was shipped to them"


def test_spark_submit(files, expected, tmp_path):
    """The command under the session that spark-submit has made, also for a log that would need none."""
    words = [f"subscriptions={files / 'subs.csv'}", f"publications={files / 'pubs.jsonl'}", "--brokers", "5"]
    words += ["--system", "flooding", "--system", "scribe", "--zones", "1", "--out", str(tmp_path / "out")]
    command = ["spark-submit", "--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=2"]
    program = Path(coterie.submit.__file__)
    running = start(tmp_path / "out.log", *command, "--conf", "spark.ui.enabled=false", str(program), "compare", *words)
    with daemons() as started:
        started.append(running)
        assert running.wait(600) == 0, (tmp_path / "out.log").read_text()[-3000:]
    path = next((tmp_path / "out").rglob(str(job.LEDGERS)))
    found = {tuple(list(row.values())[:4]): row["value"] for row in pq.read_table(path).to_pylist()}
    for row in expected:
        key = (row["system"], "stay", row["window"], row["column"])
        assert found[key] == pytest.approx(row["value"], rel=1e-9), key


NOTEBOOK = """
import sys
from pyspark.sql import SparkSession
told = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": sys.argv[2]}
spark = SparkSession.builder.master("local-cluster[1,1,1024]").config(map=told).getOrCreate()
spark.read.csv(sys.argv[1], header=True).write.saveAsTable("subs")
import coterie.submit
sys.argv = ["submit.py", *sys.argv[3:]]
try:
    coterie.submit.main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("still there:", spark.range(5).count())
"""


def test_the_session_of_a_notebook_or_a_platform(files, expected, tmp_path):
    """Somebody else has made it: its tables are read, our package goes to its executors, and it goes on afterwards."""
    words = ["subscriptions=table:subs", f"publications={files / 'pubs.jsonl'}", "--brokers", "5"]
    words += ["--system", "flooding", "--system", "scribe", "--zones", "1", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
    environment["COTERIE_CACHE"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", NOTEBOOK, str(files / "subs.csv"), str(tmp_path / "tables"), "plan", *words]
    with open(tmp_path / "out.log", "wb") as log, daemons() as started:
        running = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        started.append(running)
        running.wait(600)
    told = (tmp_path / "out.log").read_text()
    assert "still there: 5" in told, told[-3000:]
    path = next((tmp_path / "out").rglob(str(job.LEDGERS)))
    found = {tuple(list(row.values())[:4]): row["value"] for row in pq.read_table(path).to_pylist()}
    for row in expected:
        key = (row["system"], "stay", row["window"], row["column"])
        assert found[key] == pytest.approx(row["value"], rel=1e-9), key


@contextmanager
def connect_server(folder: Path, **settings: str) -> Iterator[str]:
    port, log = free_port(), folder / "daemons.log"
    told = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        **settings,
    }
    conf = [word for key, value in told.items() for word in ("--conf", f"{key}={value}")]
    with daemons() as started:
        started.append(
            start(log, "../sbin/start-connect-server.sh", "--wait", "--master", "local[2]", *conf, memory="1g")
        )
        wait_for_port(port, started[0], log)
        yield f"sc://{LOOPBACK}:{port}"


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs coterie[connect]")
def test_spark_connect(files, expected, tmp_path):
    with connect_server(tmp_path) as url:
        told = run_on(url, files, tmp_path / "out", WITH_A_CROWD="1")
    assert pq.read_table(tmp_path / "out" / job.LEDGERS).to_pylist() == expected
    assert told["file"]


WATCHING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_watch as tests
from coterie.pipeline.session import open_session
spark = open_session(sys.argv[3])
tests.WatchLock(spark, tests.spark_watch(Path(sys.argv[2]), 50_000)).run_until_idle()
spark.stop()
"""


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs coterie[connect]")
def test_watch_over_spark_connect_with_its_client_killed(spark, tmp_path):
    import test_watch

    far, near = tmp_path / "far", tmp_path / "near"
    for folder in (far, near):
        test_watch.write_journal(folder / "journal", test_watch.lively())
    here = test_watch.WatchLock(spark, test_watch.spark_watch(near, 50_000))
    here.run_until_idle()
    paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with connect_server(tmp_path, **{"spark.sql.shuffle.partitions": "2"}) as url:
        command = [sys.executable, "-c", WATCHING, str(Path(__file__).parent), str(far), url]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as client:
            until = time.monotonic() + START_S
            while not (far / "out/progress.json").exists():
                assert client.poll() is None, client.stderr.read()[-3000:]
                assert time.monotonic() < until, "it does not begin"
                time.sleep(0.05)
            client.kill()
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    assert test_watch.published(far) == test_watch.published(near)
    assert test_watch.WatchLock(None, test_watch.spark_watch(far, 50_000)).progress() == here.progress()
