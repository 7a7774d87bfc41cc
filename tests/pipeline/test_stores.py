"""A store instead of a disk: logs in and everything out by s3a, from a cluster whose executors share nothing else.

Needs `make jars` and moto's S3 server (`pip install 'moto[s3,server]'`; COTERIE_MOTO names the command where it is not
on the path).
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from coterie.errors import ConfigError, InputError
from coterie.pipeline import files, storage
from coterie.pipeline.etags import tagged_files
from coterie.pipeline.files import list_files
from coterie.pipeline.mapping import Source
from coterie.pipeline.steps import fingerprint_of_file
from coterie.pipeline.storage import Remote, folder_of

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".jars" / "spark"
MOTO = os.environ.get("COTERIE_MOTO") or shutil.which("moto_server")
WAIT_S = 280.0


def test_a_path_is_a_path_and_a_uri_is_none(tmp_path, monkeypatch):
    monkeypatch.setitem(storage._known, "options", ())
    assert folder_of(str(tmp_path)) == tmp_path
    assert folder_of(f"file://{tmp_path}") == tmp_path
    storage.use_settings({"spark.hadoop.fs.s3a.endpoint": "http://here:1", "spark.app.name": "x"})
    place = folder_of("s3a://bucket/logs/")
    assert place == Remote("s3a://bucket/logs", (("fs.s3a.endpoint", "http://here:1"),))
    early = pickle.loads(pickle.dumps(Remote("s3a://bucket/logs")))  # made before anybody said how to get there
    assert early == place
    assert str(place / "part-00001.parquet") == "s3a://bucket/logs/part-00001.parquet"
    assert ((place / "a.b").name, (place / "a.b").stem, (place / "a").parent) == ("a.b", "a", place)
    assert (place / "a").key == "bucket/logs/a"
    assert Remote("abfss://box@account.dfs.core.windows.net/a").key == "box/a"
    with pytest.raises(ConfigError, match="s3a, s3, gs, abfs"):
        folder_of("ftp://somewhere/a")


def test_files_of_a_store_are_listed_at_once(tmp_path, monkeypatch):
    for name in ("in/a.csv", "in/b.csv", "in/_SUCCESS", "in/more/c.csv"):
        (tmp_path / "box" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "box" / name).write_text("subscriber,topic\nann,p\n")
    monkeypatch.setattr(storage, "_file_system", lambda *how: fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    found = list_files(Source(("s3a://box/in",)))
    assert [str(one.where) for one in found] == [f"s3a://box/in/{name}.csv" for name in ("a", "b", "more/c")]
    times = [(tmp_path / "box/in/a.csv").stat().st_mtime_ns, found[0].status.st_mtime_ns]
    assert times[0] == times[1]
    assert [one.status.st_size for one in found] == [23] * 3
    assert [one.where.name for one in list_files(Source(("s3a://box/in/*.csv",)))] == ["a.csv", "b.csv"]
    assert [one.where.name for one in list_files(Source(("s3a://box/in/b.csv",)))] == ["b.csv"]
    with pytest.raises(InputError, match="no such file"):
        list_files(Source(("s3a://box/in/*.jsonl",)))


def test_a_listing_with_etags_is_used_where_a_package_gives_one(monkeypatch):
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    listed = [("a.csv", '"first"'), ("more/b.csv", '"second"')]
    asked: list = []

    class Listing:
        def __init__(self, **how):
            asked.append(how)

        def find(self, path, detail, maxdepth=None):
            found = [(name, tag) for name, tag in listed if maxdepth is None or "/" not in name]
            about = {"type": "file", "size": 23, "LastModified": noon}
            return {f"{path}/{name}": about | {"ETag": tag} for name, tag in found}

    monkeypatch.setitem(sys.modules, "s3fs", SimpleNamespace(S3FileSystem=Listing, __spec__=object()))
    monkeypatch.setattr(Remote, "is_file", lambda place: False)
    options = (("fs.s3a.access.key", "k"), ("fs.s3a.endpoint", "http://here:1"), ("fs.s3a.endpoint.region", "x"))
    place = Remote("s3a://box/in", options)
    monkeypatch.setattr(files, "folder_of", lambda text: Remote(text, options))
    found = list_files(Source(("s3a://box/in",)))
    assert [str(one.where) for one in found] == ["s3a://box/in/a.csv", "s3a://box/in/more/b.csv"]
    assert [str(one.where) for one in list_files(Source(("s3a://box/in/*.csv",)))] == ["s3a://box/in/a.csv"]
    assert found[0].status == (23, 1_767_268_800 * 10**9, "first")
    assert asked[0]["client_kwargs"] == {"endpoint_url": "http://here:1", "region_name": "x"}
    assert asked[0]["key"] == "k"
    before = fingerprint_of_file(place / "a.csv", status=found[0].status)
    listed[0] = ("a.csv", '"third"')  # written again: as long as before, within the same second
    after = fingerprint_of_file(place / "a.csv", status=list_files(Source(("s3a://box/in",)))[0].status)
    assert before != after
    assert fingerprint_of_file(place, status=storage.FileStat(23, 5)) == "23-5"


@pytest.mark.interop
@pytest.mark.skipif(MOTO is None, reason="no S3 server here: pip install 'moto[s3,server]'")
@pytest.mark.skipif(find_spec("s3fs") is None, reason="nothing here lists etags: pip install s3fs")
def test_two_files_of_one_second_differ_by_their_etags():
    with s3_server() as endpoint:
        told = {"access.key": "a", "secret.key": "b", "endpoint": endpoint, "endpoint.region": "us-east-1"}
        place = Remote("s3a://logs/in", tuple((f"fs.s3a.{key}", value) for key, value in sorted(told.items())))
        _put(f"{endpoint}/logs")
        for name in ("a.csv", "more/b.csv"):
            (place / name).write_bytes(b"one")
        first = tagged_files(place)
        assert first is not None
        assert {name: one.st_size for name, one in first.items()} == {"a.csv": 3, "more/b.csv": 3}
        assert list(tagged_files(place, is_recursive=False)) == ["a.csv"]
        assert list(tagged_files(place / "a.csv")) == [""]
        times = {name: one.st_mtime_ns // 10**9 for name, one in place.files().items()}
        assert times == {name: one.st_mtime_ns // 10**9 for name, one in first.items()}
        (place / "a.csv").write_bytes(b"two")
        assert tagged_files(place)["a.csv"].etag != first["a.csv"].etag
        assert tagged_files(place)["more/b.csv"] == first["more/b.csv"]
        assert tagged_files(place.parent / "none") == {}


def test_a_store_that_does_not_answer_is_told(monkeypatch):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        options = {"fs.s3a.endpoint": f"http://127.0.0.1:{nobody.getsockname()[1]}", "fs.s3a.endpoint.region": "x"}
        options |= {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}
        with pytest.raises(InputError, match="does not answer as it should"):
            _impatient(Remote("s3a://bucket/a", tuple(sorted(options.items()))), monkeypatch).read_bytes()


def _impatient(place: Remote, monkeypatch) -> Remote:
    once = {"connect_timeout": 1, "request_timeout": 1, "retry_strategy": fs.AwsStandardS3RetryStrategy(1)}
    made = fs.S3FileSystem(**storage.s3_settings(dict(place.options)), **once)
    monkeypatch.setattr(storage, "_file_system", lambda *which: made)
    return place


SCRIPT = """
import glob, json, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_job as tests
from coterie.pipeline import job
from coterie.pipeline.session import open_session
from coterie.pipeline.storage import folder_of
endpoint, jars, folder, master = sys.argv[2:]
s3a = {"endpoint": endpoint, "access.key": "a", "secret.key": "b", "path.style.access": "true", "endpoint.region": "x"}
conf = {"spark.jars": ",".join(glob.glob(jars + "/*.jar")), "spark.task.maxFailures": "8",
        **{"spark.hadoop.fs.s3a." + key: value for key, value in s3a.items()}}
spark = open_session(master, profile="test", conf=conf)
spark.range(2).count()
print("ready", flush=True)
request = tests.request(Path(folder))
moved = tuple(replace(one, paths=("s3a://logs/in/" + Path(one.paths[0]).name,)) for one in request.sources)
placer = job.Candidate(tests.SYSTEMS["coterie"], tests.SYSTEMS["coterie"].parameters())
for _ in range(2):
    outcome = job.run_job(spark, replace(request, sources=moved), tests.candidates(), folder_of("s3a://logs/out"),
                          placer=placer)
print(json.dumps({one.name: one.later.columns() for one in outcome.priced}))
"""


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not JARS.is_dir(), reason="no hadoop-aws here: make jars brings it (needs Maven)")
@pytest.mark.skipif(MOTO is None, reason="no S3 server here: pip install 'moto[s3,server]'")
def test_a_cluster_that_shares_nothing_but_a_store_and_loses_a_worker(spark, tmp_path):
    sys.path.insert(0, str(Path(__file__).parent))
    import test_job as tests

    from coterie.pipeline import job

    tests.write_files(tmp_path)
    few = job.run_job(spark, tests.request(tmp_path), tests.candidates(), tmp_path / "few")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    store = subprocess.Popen(
        [MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    running = None
    log = open(tmp_path / "err.log", "w")  # noqa: SIM115 - as long as the test
    try:
        _put(f"{endpoint}/logs")
        for name in ("subs.csv", "pubs.jsonl"):
            _put(f"{endpoint}/logs/in/{name}", (tmp_path / name).read_bytes())
        command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), endpoint, str(JARS), str(tmp_path)]
        running = subprocess.Popen(
            [*command, "local-cluster[2,1,1024]"],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert running.stdout.readline().strip() == "ready"
        time.sleep(3)
        os.kill(_executors(running.pid)[0], signal.SIGKILL)
        told = running.stdout.read().strip().splitlines()
        assert told, (tmp_path / "err.log").read_text()[-3000:]
        bills = json.loads(told[-1])
    finally:
        if running is not None and running.poll() is None:
            for one in [*_executors(running.pid), running.pid]:
                os.kill(one, signal.SIGKILL)
        if running is not None:
            running.communicate()
        log.close()
        store.kill()
        store.wait()
    for one in few.priced:
        assert bills[f"{one.system} (stay)"] == pytest.approx(one.later.columns(), rel=1e-9)


STREAM = """
import glob, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_watch as tests
from coterie.pipeline.session import open_session
from coterie.pipeline.storage import folder_of
endpoint, jars, folder = sys.argv[2:]
s3a = {"endpoint": endpoint, "access.key": "a", "secret.key": "b", "path.style.access": "true", "endpoint.region": "x"}
conf = {"spark.jars": ",".join(glob.glob(jars + "/*.jar")),
        **{"spark.hadoop.fs.s3a." + key: value for key, value in s3a.items()}}
spark = open_session("local[1]", profile="test", conf=conf)
kept = replace(tests.spark_watch(Path(folder), 50_000), checkpoint=folder_of("s3a://logs/stream"))
tests.WatchLock(spark, kept).run_until_idle()
"""


@contextmanager
def s3_server() -> Iterator[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [str(MOTO), "-H", "127.0.0.1", "-p", str(port)]
    store = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        store.kill()
        store.wait()


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not JARS.is_dir(), reason="no hadoop-aws here: make jars brings it (needs Maven)")
@pytest.mark.skipif(MOTO is None, reason="no S3 server here: pip install 'moto[s3,server]'")
def test_a_stream_keeps_its_state_in_a_store_and_goes_on_from_there(spark, tmp_path):
    import test_watch as tests

    far, near = tmp_path / "far", tmp_path / "near"
    for folder in (far, near):
        tests.write_journal(folder / "journal", tests.lively())
    here = tests.WatchLock(spark, tests.spark_watch(near, 50_000))
    here.run_until_idle()
    with s3_server() as endpoint:
        _put(f"{endpoint}/logs")
        command = [sys.executable, "-c", STREAM, str(Path(__file__).parent), endpoint, str(JARS), str(far)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with open(tmp_path / "err.log", "w") as log:
            first = subprocess.Popen(command, env=environment, stderr=log, start_new_session=True)
            end = time.monotonic() + WAIT_S
            while not (far / "out/progress.json").exists():
                assert first.poll() is None, (tmp_path / "err.log").read_text()[-3000:]
                assert time.monotonic() < end, "it does not begin"
                time.sleep(0.05)
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
            again = subprocess.run(command, env=environment, stderr=log, check=False)
        assert again.returncode == 0, (tmp_path / "err.log").read_text()[-3000:]
    assert tests.published(far) == tests.published(near)
    assert tests.WatchLock(None, tests.spark_watch(far, 50_000)).progress() == here.progress()
    assert not (far / "out/checkpoint").exists()


def _put(url: str, data: bytes = b"") -> None:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            kind = {"Content-Type": "application/octet-stream"}  # a form would be parsed and swallowed
            with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=kind, method="PUT")):
                return
        except OSError:
            assert time.monotonic() < end, "the S3 server does not answer"
            time.sleep(0.3)


def _executors(root: int) -> list[int]:
    """The executors' JVMs below a process."""
    parent, command = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    below = {root}
    while more := {one for one in command if parent[one] in below} - below:
        below |= more
    return sorted(one for one in below if b"CoarseGrainedExecutorBackend" in command.get(one, b""))
