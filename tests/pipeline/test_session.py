"""Sessions: refusals, settings, the shipped package."""

from __future__ import annotations

import os

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
    with pytest.raises(ConfigError, match=r"expected grpc for Spark Connect.*pip install 'coterie\[connect\]'"):
        sessions.open_session("sc://localhost:15002")


def conf_of(monkeypatch, tmp_path, master="local[2]", **conf):
    return sessions._settings(master, "job", tmp_path, conf)


def test_what_the_machine_says_wins_over_us_and_the_user_over_both(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.driver.memory   9g\nspark.ui.enabled=false\nspark.sql.adaptive.enabled: false\n"
        "spark.driver.extraJavaOptions -Dmine=1 -Dyours=2\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = conf_of(monkeypatch, tmp_path, **{"spark.sql.adaptive.enabled": "true"})
    assert "spark.driver.memory" not in settings
    assert "spark.ui.enabled" not in settings
    assert settings["spark.sql.adaptive.enabled"] == "true"
    assert "-Dmine=1 -Dyours=2" in settings["spark.driver.extraJavaOptions"]
    assert "log4j2" in settings["spark.driver.extraJavaOptions"]


def test_the_ui_is_on_and_partitions_follow_the_cluster(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    here = conf_of(monkeypatch, tmp_path, "local[16]")
    assert "spark.ui.enabled" not in here
    assert here["spark.sql.shuffle.partitions"] == "32"
    assert "spark.sql.shuffle.partitions" not in conf_of(monkeypatch, tmp_path, "spark://somewhere:7077")


def test_conf_is_read_as_spark_reads_it():
    assert sessions.parse_conf(["spark.a.b=c=d", " spark.x = y "]) == {"spark.a.b": "c=d", "spark.x": "y"}
    for word in ("spark.a", "a=b", ""):
        with pytest.raises(ConfigError, match=r"spark\.some\.key=value"):
            sessions.parse_conf([word])


def test_the_environment_comes_back_as_it_was(monkeypatch):
    monkeypatch.setenv("COTERIE_TEST_KEPT", "before")
    with sessions._environment({"COTERIE_TEST_KEPT": "during", "COTERIE_TEST_NEW": "x"}):
        assert os.environ["COTERIE_TEST_KEPT"] == "during"
    assert os.environ["COTERIE_TEST_KEPT"] == "before"
    assert "COTERIE_TEST_NEW" not in os.environ


@pytest.mark.spark
def test_a_session_that_is_there_is_joined_and_left_running(spark, monkeypatch):
    monkeypatch.setattr(sessions, "_opened", [])  # as if a notebook had made it
    joined = sessions.open_session("spark://somewhere:7077")
    assert joined is spark
    sessions.close_session(joined)
    assert spark.range(2).count() == 2


@pytest.mark.spark
def test_a_session_of_ours_is_stopped_by_the_last_who_has_it(spark, monkeypatch):
    stopped: list = []
    monkeypatch.setattr(sessions, "_opened", [spark])

    def stop(session):
        stopped.append(session)

    monkeypatch.setattr(type(spark), "stop", stop)
    again = sessions.open_session()
    sessions.close_session(again)
    assert not stopped
    sessions.close_session(spark)
    assert stopped == [spark]


@pytest.mark.spark
def test_workers_start_with_kernels_compiled_and_one_thread(spark):
    def look(batches):
        import sys

        import pyarrow as pa

        kernels = sys.modules.get("coterie.kernels.interests.cosubscription")
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
