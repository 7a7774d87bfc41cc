"""The files under deploy/: linted, checked against schemas, and in step with what the code does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coterie.founding.hosts import read_hosts
from coterie.founding.templates import Ports
from coterie.live.config import load_config
from tests.docs.pages import with_command

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def documents(name: str) -> list[dict]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@pytest.mark.parametrize("name", ["Dockerfile", "spark/Dockerfile"])
def test_the_images_are_linted(name):
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, DEPLOY / name], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_special_and_says_how_it_is():
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["10001"]
    assert "HEALTHCHECK" in text
    assert (ROOT / ".dockerignore").read_text().startswith("*\n"), "nothing goes in that is not named"


STUB = """#!/bin/sh
for word; do printf '%s\\n' "$word"; done
"""
POD = {
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_JAVA_OPT_0": "-Da=two words",
    "SPARK_JAVA_OPT_1": "-Db=1",
}


def pod(home: Path, *words: str) -> list[str]:
    """What the image of Spark's pods would start."""
    for name in ("bin/java", "bin/spark-submit"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(STUB)
        (home / name).chmod(0o755)
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(home),
        **POD,
    }
    command = ["bash", DEPLOY / "spark/entrypoint.sh", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_pods_of_spark_are_started_as_spark_says(tmp_path):
    driver = pod(tmp_path, "driver", "--properties-file", "p", "local:///opt/coterie/submit.py", "plan", "a b")
    assert driver[:4] == ["--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.7"]
    assert driver[-5:] == ["--properties-file", "p", "local:///opt/coterie/submit.py", "plan", "a b"]
    executor = pod(tmp_path, "executor")
    assert executor[:5] == ["-Da=two words", "-Db=1", "-Xms1g", "-Xmx1g", "-cp"]
    assert executor[5] == f"/opt/spark/conf:{tmp_path}/jars/*"
    told = dict(zip(executor[7::2], executor[8::2], strict=True))
    assert told == {
        "--driver-url": POD["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "exec-3",
    }
    assert pod(tmp_path, "echo", "as", "it is") == ["as it is"]


def test_what_pods_of_spark_are_told_is_what_this_spark_says():
    """Its own words, from the classes that make the pods."""
    pyspark = pytest.importorskip("pyspark")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        words = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
        backend = classes.read("org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend$.class")
    text = (DEPLOY / "spark/entrypoint.sh").read_text()
    asked = set(re.findall(r"\$\{?!?(SPARK_[A-Z_]+)", text)) - {"SPARK_HOME", "SPARK_CLASSPATH"}
    assert asked, "the script says nothing of Spark's"
    assert [name for name in asked if name.encode() not in words] == []
    assert [flag for flag in re.findall(r"--[a-zA-Z-]+(?= \"\$SPARK)", text) if flag.encode() not in backend] == []


def test_the_manifests_are_kubernetes():
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    kinds = []
    for document in documents("kubernetes/coterie.yaml"):
        validate.validate(document, "1.33", strict=True)
        kinds.append(document["kind"])
    assert kinds == ["Service", "Service", "PodDisruptionBudget", "StatefulSet"]


def test_as_many_hosts_as_replicas_and_the_ports_that_init_writes():
    found = next(one for one in documents("kubernetes/coterie.yaml") if one["kind"] == "StatefulSet")
    pod = found["spec"]["template"]["spec"]
    told = next(one["value"] for one in pod["containers"][0]["env"] if one["name"] == "HOSTS")
    assert [host.name for host in read_hosts([told])] == [f"coterie-{n}" for n in range(found["spec"]["replicas"])]
    ports = {one["name"]: one["containerPort"] for one in pod["containers"][0]["ports"]}
    own = Ports()
    assert ports == {"mqtt": own.mqtt, "admin": own.admin, "links": own.links}


def test_compose_starts_what_init_makes():
    (found,) = documents("compose.yml")
    hosts = read_hosts([re.search(r"--hosts (\S+)", found["services"]["init"]["command"][0])[1]])
    for host in hosts:
        assert f"/net/{host.name}/node.toml" in found["services"][host.name]["command"][2]


@pytest.mark.interop
def test_haproxy_accepts_its_configuration(tmp_path):
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed: make peers")
    text = re.sub(r"    server (node\d) \S+", r"    server \1 127.0.0.1:1883", (DEPLOY / "haproxy.cfg").read_text())
    (tmp_path / "haproxy.cfg").write_text(text)
    done = subprocess.run(
        ["haproxy", "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_pods_found_the_network_or_join_it_by_its_name(tmp_path):
    """What the first container of a pod does: three founders, and whoever comes when the set is scaled up."""
    first = documents("kubernetes/coterie.yaml")[-1]["spec"]["template"]["spec"]["initContainers"][0]
    (tmp_path / "secret").mkdir()
    for name in ("network.key", "admin.token"):
        (tmp_path / "secret" / name).write_text("a secret of some length")
    script = first["args"][0].replace("/etc/coterie", str(tmp_path)).replace("/secret", str(tmp_path / "secret"))
    named = {one["name"]: one.get("value", "") for one in first["env"]}
    for pod, number, joins in (("coterie-1", 1, []), ("coterie-4", 4, ["coterie-0.coterie-nodes:3883"])):
        environment = with_command(tmp_path) | named | {"POD": pod}
        done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        config = load_config(tmp_path / "net" / pod / "node.toml")
        assert (config.node.id, config.network.join[:1], config.node.data) == (number, joins, "/data")
