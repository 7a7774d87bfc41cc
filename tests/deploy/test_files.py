"""The files under deploy/: linted, checked against schemas, and in step with what the code does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
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


def test_the_image_is_linted():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_special_and_says_how_it_is():
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["10001"]
    assert "HEALTHCHECK" in text
    assert (ROOT / ".dockerignore").read_text().startswith("*\n"), "nothing goes in that is not named"


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
