"""The alerts and the board's questions in a real Prometheus: rules fire when they should, questions have answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from coterie.live.client import MqttClient
from tests.deploy.test_files import DEPLOY, documents
from tests.interop.fleet import TOKEN, Network, free_ports, run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90)]
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
# alert -> what a network tells in which it must fire, minute by minute
TROUBLE = {
    "CoterieNodeDown": {'up{job="coterie", instance="a"}': "0x60"},
    "CoterieNodeAlone": {'coterie_links{node="a"}': "0x60", 'coterie_links{node="b"}': "2x60"},
    "CoterieCopiesLacking": {'coterie_copies_lacking{node="a"}': "1x60"},
    "CoterieLinkShedding": {'coterie_link_shed_total{node="a"}': "0+9x60"},
    "CoterieClientsTooSlow": {'coterie_shed_messages{node="a"}': "0+9x60"},
    "CoterieBehind": {'coterie_behind{node="a"}': "1x60"},
    "CoterieLoginsFailing": {'coterie_logins_failed_total{node="a"}': "0+900x60"},
    "CoterieLogFull": {'coterie_log_dropped_total{node="a"}': "0+9x60"},
}
WELL = {
    'up{job="coterie", instance="a"}': "1x60", 'coterie_links{node="a"}': "2x60", 'coterie_links{node="b"}': "2x60",
    'coterie_copies_lacking{node="a"}': "0x60", 'coterie_link_shed_total{node="a"}': "7x60",
    'coterie_shed_messages{node="a"}': "7x60", 'coterie_behind{node="a"}': "0x60",
    'coterie_logins_failed_total{node="a"}': "0+60x60", 'coterie_log_dropped_total{node="a"}': "7x60",
}  # fmt: skip


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make peers")
    return found


def rules() -> list[dict[str, Any]]:
    (found,) = documents("prometheus/alerts.yml")
    return [rule for group in found["groups"] for rule in group["rules"]]


def firing(series: dict[str, str], wanted: dict[str, bool]) -> dict[str, Any]:
    """A case for promtool: which alerts there are after half an hour of this."""
    questions = [
        {"expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}})', "eval_time": "30m",
         "exp_samples": [{"labels": "{}", "value": 1}] if is_wanted else []}
        for name, is_wanted in wanted.items()
    ]  # fmt: skip
    given = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": given, "promql_expr_test": questions}


def test_every_alert_fires_in_its_trouble_and_none_when_all_is_well(tmp_path: Path):
    promtool, names = program("promtool"), [rule["alert"] for rule in rules()]
    assert sorted(names) == sorted(TROUBLE)
    cases = [firing(series, {name: True}) for name, series in TROUBLE.items()]
    cases.append(firing(WELL, dict.fromkeys(names, False)))
    path = tmp_path / "cases.yml"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def prometheus(tmp_path: Path) -> tuple[str, Path, int]:
    """Not started yet: its folder with our rules, and its port."""
    (port,) = free_ports(1)
    (tmp_path / "admin.token").write_text(TOKEN)
    shutil.copy(ALERTS, tmp_path)
    return program("prometheus"), tmp_path, port


def asked(port: int, expression: str) -> list[Any]:
    words = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}", timeout=5) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as error:
        pytest.fail(f"{expression}: {error.read().decode()}")
    found: list[Any] = said["data"]["result"]
    return found


def questions() -> list[str]:
    board = json.loads((DEPLOY / "grafana" / "coterie.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [one.replace("$__rate_interval", "10s") for one in found]


def test_a_prometheus_loads_the_rules_and_has_an_answer_to_every_question_of_the_board(tmp_path, prometheus):
    command, folder, port = prometheus
    (config,) = documents("prometheus/prometheus.yml")

    async def main() -> None:
        async with Network(tmp_path / "net", "mesh", 2) as network:
            targets = [f"127.0.0.1:{node.ports['admin']}" for node in network.nodes]
            config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
            config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
            (folder / "prometheus.yml").write_text(json.dumps(config))
            reader = await network.client(0, "reader", clean=False, expiry_s=60)
            await reader.subscribe("t/#", qos=1)
            writer = await network.client(1, "writer")
            with open(folder / "log", "wb") as log:
                process = subprocess.Popen(
                    [command, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                     f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log,
                )  # fmt: skip
            try:
                await answered(writer, port)
            finally:
                process.terminate()
                process.wait()
            for one in (reader, writer):
                await one.stop()

    async def answered(writer: MqttClient, port: int) -> None:
        unanswered, deadline_s = questions(), time.monotonic() + 60
        while unanswered and time.monotonic() < deadline_s:
            for _ in range(20):
                await writer.publish("t/x", b"", 1)
            await asyncio.sleep(0.5)
            try:
                unanswered = [one for one in unanswered if not await asyncio.to_thread(asked, port, one)]
            except OSError:
                continue  # it is not there yet
        assert not unanswered, (folder / "log").read_text()[-2000:]
        loaded = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=5))
        health = {one["name"]: one["health"] for group in loaded["data"]["groups"] for one in group["rules"]}
        assert health == {rule["alert"]: "ok" for rule in rules()}
        assert not [one for one in loaded["data"]["groups"][0]["rules"] if one["alerts"]], (
            "an alert on a healthy network"
        )

    run(main, 80.0)
