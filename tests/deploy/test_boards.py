"""Alerts and the board: every metric they ask for is one that a node tells, with a meaning."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coterie.live.config import config_of
from coterie.live.metrics import MEANING
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.deploy.test_files import DEPLOY, documents

ASKED = re.compile(r"coterie_[a-z_]+")


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> set[str]:
    """The metrics of a node that runs."""

    async def run() -> str:
        table = {"mqtt": {"port": 0}, "admin": {"token": "t" * 16}}
        node = LiveNode(config_of(table, str(tmp_path_factory.mktemp("node"))), system_named("flooding"))
        await node.start()
        try:
            return node.interface.answer(
                "GET", "/metrics", {"host": "127.0.0.1", "authorization": f"Bearer {'t' * 16}"}, b""
            )[2].decode()
        finally:
            await node.stop()

    text = asyncio.run(run())
    families = list(text_string_to_metric_families(text))
    unexplained = {one.name for one in families if one.documentation.startswith(one.name.removeprefix("coterie_"))}
    assert not unexplained, "live/metrics.py MEANING has no words for these"
    return {sample.name for one in families for sample in one.samples}


def test_alerts_ask_for_what_nodes_tell(told):
    (found,) = documents("prometheus/alerts.yml")
    rules = [rule for group in found["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert {"summary", "description"} <= set(rule["annotations"])
        assert set(ASKED.findall(rule["expr"])) <= told, rule["alert"]
        assert set(ASKED.findall(rule["annotations"]["description"])) <= told, rule["alert"]


def test_the_board_asks_for_what_nodes_tell(told):
    board = json.loads((DEPLOY / "grafana" / "coterie.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert set(ASKED.findall(target["expr"])) <= told, panel["title"]
            assert "http" not in json.dumps(target)


def test_what_is_explained_exists(told):
    names = {name.removeprefix("coterie_") for name in told}
    assert set(MEANING) - names == set(), "these are told by no node"
