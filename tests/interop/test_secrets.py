"""Passwords, tokens and keys are nowhere in what a node writes: logs, journal, store, metrics, answers."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from coterie.errors import RunError
from coterie.live.client import MqttClient
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import Connect, Will
from coterie.mqtt.properties import Properties
from tests.broker.test_access import cheap
from tests.interop.fleet import TOKEN, Processes, run, until, write_configs

pytestmark = pytest.mark.interop
RIGHT, WRONG, LINK_KEY, JWT_KEY = "right-Hg7", "wrong-Pk2", "link-key-Zs9", "jwt-key-Qw4" + "x" * 32
BAD_TOKEN = "bad-admin-token-Ty6"


def client(port: int, user: str, password: str, **more: Any) -> MqttClient:
    properties = Properties(session_expiry_s=300)
    packet = Connect(f"of-{user}", 5, False, 30, user, password.encode(), properties=properties, **more)
    return MqttClient("127.0.0.1", port, packet, lambda _: None, follow=False, give_up_s=3.0)


async def misbehave(processes: Processes, token: str) -> None:
    """Everything that makes a node say something: logins, right and wrong, broken ones, strangers, reloads."""
    config = processes.configs[0]
    port = config.mqtt.port
    async with client(port, "ann", RIGHT, will=Will("gone", b"x", 1)) as ann:
        await ann.subscribe("#", qos=1)
        await ann.publish("t", b"x", qos=1)
    async with client(port, "dev", token) as dev:
        await dev.publish("t", b"x", qos=1)
    for user, password in (("ann", WRONG), ("nobody", WRONG), ("dev", token[:-4] + "AAAA")):
        with pytest.raises(RunError) as refused:
            await client(port, user, password).start()
        assert password not in str(refused.value)
    for where, data in ((port, encode_packet(Connect("c", 5, username="ann", password=RIGHT.encode()), 5)[:-3] + b"#"),
                        (config.links.port, LINK_KEY.encode() * 3),
                        (config.admin.port, f"GET /totals?x={BAD_TOKEN} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                            f"Authorization: Bearer {BAD_TOKEN}\r\n\r\n".encode())):  # fmt: skip
        _, writer = await asyncio.open_connection("127.0.0.1", where)
        writer.write(data)
        await asyncio.sleep(0.1)
        writer.close()


def test_what_a_node_writes_holds_no_secret(tmp_path: Path) -> None:
    users = [{"name": "ann", "password": cheap(RIGHT), "publish": ["#"], "subscribe": ["#"]}]
    access = {"anonymous": "never", "users": users, "jwt": {"algorithms": ["HS256"], "key": JWT_KEY}}
    paths = write_configs(tmp_path, "flooding", 2, access=access)
    for path in paths:
        path.write_text(path.read_text().replace('key = "test"', f'key = "{LINK_KEY}"'))
    processes = Processes(paths)
    token = jwt.encode({"sub": "dev", "exp": time.time() + 600}, JWT_KEY, "HS256")
    said: list[str] = []

    async def main() -> None:
        for node in (0, 1):
            processes.start(node)
        await processes.healthy([0, 1])
        await misbehave(processes, token)
        said.append(json.dumps(await asyncio.to_thread(processes.ask, 0, "/reload", "POST")))
        good = paths[0].read_text()
        paths[0].write_text(good.replace("[access]", f'[access]\npassword = "{RIGHT}"'))
        said.append(json.dumps(await asyncio.to_thread(processes.ask, 0, "/reload", "POST")))
        paths[0].write_text(good)
        pages = ("/totals", "/topology", "/overview", "/health", "/inspect", "/plan")
        said.extend([json.dumps(await asyncio.to_thread(processes.ask, 0, page)) for page in pages])
        await until(lambda: " failed: " in (paths[0].parent / "log").read_text())

    try:
        run(main)
    finally:
        processes.stop()
    written = {path: path.read_bytes() for node in paths for path in node.parent.rglob("*") if path.is_file()}
    kept_on_purpose = {"node.toml", "admin.token"}
    secrets = [RIGHT, WRONG, LINK_KEY, JWT_KEY, BAD_TOKEN, TOKEN, token, token[:-4]]
    assert (paths[0].parent / "log").read_text()
    for secret in secrets:
        assert all(secret not in one for one in said)
        holders = [str(path) for path, data in written.items() if secret.encode() in data]
        assert [one for one in holders if Path(one).name not in kept_on_purpose] == []
