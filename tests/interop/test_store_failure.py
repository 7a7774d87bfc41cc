"""When the disk fails, the node ends rather than acknowledge what it cannot keep; its folder has one owner."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from coterie.errors import ConfigError
from coterie.live.client import MqttClient, connect_packet
from coterie.live.node import LiveNode
from coterie.systems import system_named
from tests.interop.fleet import lone_config, run

pytestmark = pytest.mark.interop


def test_nothing_is_acknowledged_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        node = LiveNode(lone_config(tmp_path), system_named("flooding"))
        await node.start()
        with pytest.raises(ConfigError, match="no running node uses"):
            LiveNode(lone_config(tmp_path), system_named("flooding"))
        packet = connect_packet("ann", clean=False, expiry_s=100)
        client = MqttClient("127.0.0.1", node.ports["mqtt"], packet)
        await client.start()
        await client.subscribe("a", qos=1)
        working = node.store.append

        def broken(writes: object) -> int:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(node.store, "append", broken)
        answer = client.send("a", b"x", qos=1)
        assert "disk is full" in await asyncio.wait_for(node.failure, 10)
        assert not answer.done()
        monkeypatch.setattr(node.store, "append", working)
        await client.stop()
        await node.stop()

    run(main)
