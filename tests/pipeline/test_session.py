"""Sessions: refusals, settings, the shipped package."""

from __future__ import annotations

import os
import zipfile

import pytest

from coterie.errors import ConfigError
from coterie.pipeline import session as sessions
from coterie.pipeline import sparkd


@pytest.mark.parametrize("master", ["mesos://somewhere", "local[x]", "local[0]", "local[2", "local-cluster[2]"])
def test_a_master_nobody_knows_is_refused(master):
    with pytest.raises(ConfigError, match=r"local\[\*\]"):
        sessions.open_session(master)


def test_a_profile_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="job or test"):
        sessions.open_session(profile="fast")


def test_connect_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sessions, "_is_installed", lambda name: name != "grpc")
    with pytest.raises(ConfigError, match=r"needs grpc: pip install 'coterie\[connect\]'"):
        sessions.open_session("sc://localhost:15002")


def test_the_package_zip_holds_our_modules_and_is_made_once(tmp_path):
    first = sessions.package_zip(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert sessions.package_zip(tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    names = zipfile.ZipFile(first).namelist()
    assert "coterie/pipeline/session.py" in names
    assert "coterie/pipeline/log4j2.properties" in names
    assert not [name for name in names if name.endswith((".pyc", ".nbi"))]


def test_the_environment_comes_back_as_it_was(monkeypatch):
    monkeypatch.setenv("COTERIE_TEST_KEPT", "before")
    with sessions._environment({"COTERIE_TEST_KEPT": "during", "COTERIE_TEST_NEW": "x"}):
        assert os.environ["COTERIE_TEST_KEPT"] == "during"
    assert os.environ["COTERIE_TEST_KEPT"] == "before"
    assert "COTERIE_TEST_NEW" not in os.environ


@pytest.mark.spark
def test_workers_start_with_kernels_compiled_and_one_thread(spark):
    def look(batches):
        import sys

        import pyarrow as pa

        kernels = sys.modules.get("coterie.kernels.cosubscription")
        compiled = bool(kernels and kernels.count_pairs.signatures)
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"seen": [f"{compiled} {os.environ['NUMBA_NUM_THREADS']}"]})

    assert spark.range(1).mapInArrow(look, "seen string").toArrow()["seen"].to_pylist() == ["True 1"]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_worker_that_spark_left_ends_without_a_word():
    def left(connection, is_authenticated):
        raise BrokenPipeError

    assert sparkd.served(left)(None, True) == 1
    assert sparkd.served(lambda connection, is_authenticated: 0)(None, True) == 0
