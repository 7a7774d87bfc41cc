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
