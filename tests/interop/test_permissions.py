"""Ways around the permissions, tried at a node of ours and, where they apply, at mosquitto."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import RunError
from coterie.live.client import MqttClient
from coterie.mqtt.packets import Connect, Will
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import Reason
from tests.interop.fleet import Network, Processes, run, until, write_configs
from tests.interop.rivals import broker_with, users_of

pytestmark = pytest.mark.interop
BROKERS = ["coterie", "mosquitto"]
USERS: dict[str, dict[str, Any]] = {
    "ann": {"publish": ["secret/#", "gone/ann"], "subscribe": ["secret/#"]},
    "bob": {"publish": ["public/#"], "subscribe": ["public/#"]},
    "dev": {"publish": ["dev/%c/#"], "subscribe": ["dev/%c/#"]},
    "root": {"publish": ["#"], "subscribe": ["#"]},
}


def client(port: int, user: str, name: str, got: list[Any], lasting: bool = False, **more: Any) -> MqttClient:
    properties = Properties(session_expiry_s=300) if lasting else Properties()
    packet = Connect(name, 5, not lasting, 30, user, user.encode(), properties=properties, **more)
    return MqttClient("127.0.0.1", port, packet, got.append, follow=False, give_up_s=3.0)


@pytest.mark.parametrize("kind", BROKERS)
def test_another_user_with_somebodys_client_identifier_gets_nothing(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_with(kind, tmp_path, USERS) as port:
            ann, bob, root = [], [], []  # type: ignore[var-annotated]
            async with client(port, "ann", "device", ann, lasting=True) as owner:
                assert await owner.subscribe("secret/#", qos=1) == (1,)
            async with client(port, "root", "root", root) as writer:
                await writer.publish("secret/x", b"queued", qos=1)
                thief = client(port, "bob", "device", bob, lasting=True)
                reason = "accepted"
                try:
                    await thief.start()
                except RunError as error:
                    reason = str(error)
                await writer.publish("secret/x", b"live", qos=1)
                await asyncio.sleep(0.3)
                await thief.stop()
                assert bob == []
                if kind == "coterie":
                    assert "client id not valid" in reason
                    async with client(port, "ann", "device", ann, lasting=True):  # the owner has lost nothing
                        await until(lambda: [one.payload for one in ann] == [b"queued", b"live"])

    run(main)


def test_nobody_is_pushed_aside_by_another_user(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_with("coterie", tmp_path, USERS) as port:
            got: list[Any] = []
            async with client(port, "ann", "device", got) as owner, client(port, "root", "r", []) as writer:
                await owner.subscribe("secret/#", qos=1)
                for lasting in (False, True):
                    with pytest.raises(RunError, match="client id not valid"):
                        await client(port, "bob", "device", [], lasting=lasting).start()
                await writer.publish("secret/x", b"still here", qos=1)
                await until(lambda: [one.payload for one in got] == [b"still here"])

    run(main)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "coterie") for name in ("+", "#", "one/x", "+/x")), ("+", "mosquitto"), ("#", "mosquitto")],
)
def test_a_client_identifier_is_no_wildcard(name: str, kind: str, tmp_path: Path) -> None:
    """The pattern of CVE-2017-7650. (mosquitto 2.0.11 takes `one/x` for a path; later ones do not.)"""

    async def main() -> None:
        async with broker_with(kind, tmp_path, USERS) as port:
            got: list[Any] = []
            async with client(port, "root", "root", got) as root, client(port, "dev", "one", got) as one:
                await root.subscribe("dev/one/#", qos=1)
                try:
                    thief = client(port, "dev", name, got)
                    await thief.start()
                except RunError:
                    return  # a broker may as well not let it in
                for wish in ("dev/+/#", "dev/#", "dev/one/x", f"dev/{name}/#"):
                    if "#/" not in wish:
                        await thief.subscribe(wish, qos=1)
                await thief.publish("dev/one/x", b"forged", qos=1)
                await one.publish("dev/one/x/y", b"private", qos=1)
                await until(lambda: b"private" in [each.payload for each in got])
                await asyncio.sleep(0.2)
                await thief.stop()
                assert [each.payload for each in got] == [b"private"]  # once: root has it, the thief has not

    run(main)


def test_dollar_topics_are_not_published_and_read_by_rule_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_with("coterie", tmp_path, USERS) as port, client(port, "root", "r", []) as root:
            for topic in ("$SYS/broker/version", "$coterie/retained"):
                assert await root.publish(topic, b"lie", qos=1, retain=True) == Reason.NOT_AUTHORIZED
            assert await root.subscribe("$SYS/#", "$share/g/$SYS/#", "#") == (0x87, 0x87, 0)

    run(main)


def _owned(tmp_path: Path, users: dict[str, dict[str, Any]]) -> list[Path]:
    access = {"anonymous": "loopback", "anonymous_publish": ["#"], "anonymous_subscribe": ["#"]}
    return write_configs(tmp_path, "flooding", 1, access={**access, "users": users_of(users)})


def test_owners_and_wills_hold_through_kill_and_restart(tmp_path: Path) -> None:
    """Anonymous clients may everything here, which is what rights fell back to."""
    paths = _owned(tmp_path, USERS)
    processes = Processes(paths)

    async def main() -> None:
        port = processes.configs[0].mqtt.port
        processes.start(0)
        await processes.healthy([0])
        for user, topic in (("bob", "secret/will"), ("ann", "gone/ann")):
            will = Will(topic, b"will", 1, True)
            one = client(port, user, f"{user}-device", [], lasting=True, will=will)
            if user == "bob":
                with pytest.raises(RunError, match="not authorized"):
                    await one.start()
                # The will may leave, at first: what was allowed when it was given is asked again when it is due.
                will = Will("public/will", b"will", 1, True)
                one = client(port, user, "bob-device", [], lasting=True, will=will)
            await one.start()
            if user == "ann":
                await one.subscribe("secret/#", qos=1)
        processes.kill(0)
        text = paths[0].read_text()
        assert '"public/#"' in text
        paths[0].write_text(text.replace('"public/#"', '"nothing"'))
        processes.start(0)
        await processes.healthy([0])
        got: list[Any] = []
        async with MqttClient("127.0.0.1", port, Connect("looker", 5), got.append) as looker:
            await looker.subscribe("#", qos=1)
            await until(lambda: bool(got))
            await asyncio.sleep(0.3)
            assert {one.topic for one in got} == {"gone/ann"}  # and not what bob may not say any more
            with pytest.raises(RunError, match="client id not valid"):
                await MqttClient("127.0.0.1", port, Connect("ann-device", 5, False), got.append).start()

    try:
        run(main)
    finally:
        processes.stop()


def test_a_session_at_another_node_is_not_taken_from_there(tmp_path: Path) -> None:
    async def main() -> None:
        access = {"anonymous": "never", "users": users_of(USERS)}
        async with Network(tmp_path, "flooding", 2, access=access) as network:
            got: list[Any] = []
            async with client(network.port(0), "ann", "device", got, lasting=True) as owner:
                await owner.subscribe("secret/#", qos=1)
                with pytest.raises(RunError, match="client id not valid"):  # wherever in the network it is
                    await client(network.port(1), "bob", "device", [], lasting=True).start()
                async with client(network.port(1), "root", "root", []) as writer:
                    await writer.publish("secret/x", b"mine", qos=1)
                    await until(lambda: [one.payload for one in got] == [b"mine"])
            assert network.nodes[0].broker.sessions.of["device"].owner == "ann"

    run(main)


def test_a_session_of_the_same_name_takes_nothing_away_at_other_nodes(tmp_path: Path) -> None:
    """With a clean start nobody is asked. However often such a session moves, it is not the other's."""

    async def main() -> None:
        access = {"anonymous": "never", "users": users_of(USERS)}
        async with Network(tmp_path, "flooding", 3, access=access) as network:
            got: list[Any] = []
            async with client(network.port(0), "ann", "device", got, lasting=True) as owner:
                await owner.subscribe("secret/#", qos=1)
            fresh = Connect("device", 5, True, 30, "bob", b"bob", properties=Properties(session_expiry_s=300))
            async with MqttClient("127.0.0.1", network.port(1), fresh, [].append, follow=False, give_up_s=3.0):
                pass
            async with client(network.port(2), "bob", "device", [], lasting=True):
                pass
            async with client(network.port(2), "root", "root", []) as writer:
                await writer.publish("secret/x", b"mine", qos=1)
            assert network.nodes[0].broker.sessions.of["device"].owner == "ann"
            async with client(network.port(1), "ann", "device", got, lasting=True):
                await until(lambda: [one.payload for one in got] == [b"mine"])

    run(main)
