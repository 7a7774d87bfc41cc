"""Clients are sent where the plan wants them: those who follow, once, and nobody in circles."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.commands import Place
from coterie.broker.links import PeerLinks
from coterie.broker.placement import Placing
from coterie.broker.settings import LinkSection
from coterie.broker.turn import Turn
from coterie.broker.writes import Saved
from coterie.live.client import MqttClient, connect_packet
from coterie.mqtt.packets import Connect
from tests.interop.fleet import Network, run, until

pytestmark = pytest.mark.interop


class PlacedNetwork(Network):
    """Peers that say which server clients should be told."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, "flooding", count)
        self.tell_servers()


def place(node: Any, clients: dict[str, int]) -> dict[str, Any]:
    document: dict[str, Any] = node._take_placement({}, json.dumps({"version": 1, "clients": clients}).encode())
    return document


def test_connected_and_new_clients_that_follow_are_moved_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with PlacedNetwork(tmp_path, 2) as network:
            got: list[Any] = []
            mover = await network.client(0, "mover", got)
            await mover.subscribe("t", qos=1)
            stayer = MqttClient("127.0.0.1", network.port(0), connect_packet("stayer"), follow=False)
            await stayer.start()
            old = MqttClient("127.0.0.1", network.port(0), connect_packet("old", version=4))
            await old.start()
            wanted = dict.fromkeys(("mover", "stayer", "old", "late"), 1)
            told = place(network.nodes[0], wanted)
            assert told == {"version": 1, "clients": ["mover", "old", "stayer"], "to_move": 3}
            await until(lambda: mover.redirects == 1 and "mover" in network.nodes[1].broker.sessions.of)
            late = await network.client(0, "late")
            assert late.server[1] == network.port(1)
            await until(lambda: network.nodes[1].broker.sessions.index.count == 1)  # it subscribed again over there
            await stayer.publish("t", b"found you", qos=1)
            await until(lambda: len(got) == 1)
            assert sorted(name for name, one in network.nodes[0].broker.sessions.of.items() if one.is_online) == [
                "old",
                "stayer",
            ]
            # Now the other node wants it back: it goes, is sent on by neither of them again, and stays.
            place(network.nodes[1], {"mover": 0})
            await until(lambda: mover.redirects == 2)
            await until(lambda: network.nodes[0].broker.sessions.of.get("mover") is not None)
            assert network.nodes[0].broker.sessions.of["mover"].is_online
            for client in (mover, stayer, old, late):
                await client.stop()

    run(main)


def test_the_admin_interface_checks_what_it_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "flooding", 2, admin={"token": "secret"}) as network:
            port = network.nodes[0].ports["admin"]

            def ask(path: str, token: str = "", body: bytes | None = None) -> tuple[int, bytes]:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
                try:
                    with urllib.request.urlopen(request, timeout=10) as answer:
                        return answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    with error:
                        return error.code, error.read()

            async def get(*arguments: Any) -> tuple[int, bytes]:
                return await asyncio.to_thread(ask, *arguments)

            assert (await get("/health"))[0] == 200
            assert (await get("/metrics"))[0] == 401
            assert (await get("/metrics", "wrong"))[0] == 401
            status, text = await get("/metrics", "secret")
            assert status == 200
            assert b"coterie_links{" in text
            for path in ("/topology", "/channels", "/ledger", "/plan", "/totals", "/placement"):
                assert (await get(path, "secret"))[0] == 200
            assert (await get("/nothing", "secret"))[0] == 404
            assert (await get("/placement", "secret", b"{}"))[0] == 400
            assert (await get("/placement", "secret", b'{"version": 1, "clients": {"x": 9}}'))[0] == 400
            assert (await get("/plan", "secret", b"not json"))[0] == 400

    run(main)


def test_a_client_is_not_sent_again_within_the_cooldown() -> None:
    turn = Turn()
    turn.now_s = 1000.0
    links = PeerLinks(0, [1], LinkSection(), turn)
    placement = Placing(0, {1: "b:1"}, links, turn)
    placement.take(Place(3, {"ann": 1, "bob": 0}))
    follower = MqttClient("h", 1, connect_packet("ann"))._client.connect
    assert placement.redirect(Connect("ann")) == ""
    assert placement.redirect(follower) == "b:1"
    assert placement.redirect(follower) == ""
    turn.now_s += 61
    assert placement.redirect(follower) == "b:1"
    again = Placing(0, {1: "b:1"}, links, turn)
    again.load(Saved({table: [(key, value)] for table, key, value in turn.writes}))  # type: ignore[dict-item,list-item]
    assert (again.version, again.of) == (3, {"ann": 1, "bob": 0})


def test_nothing_is_missed_or_doubled_on_the_way(tmp_path: Path) -> None:
    """Clients are moved to and fro under QoS 1 load; what comes while they are nowhere comes with their sessions."""

    async def main() -> None:
        async with PlacedNetwork(tmp_path, 3) as network:
            got: list[list[bytes]] = [[] for _ in range(4)]
            movers = []
            for number in range(4):
                mover = await network.client(0, f"mover{number}")
                mover.on_message = lambda message, number=number: got[number].append(message.payload)  # type: ignore[misc]
                await mover.subscribe(f"t/{number % 2}" if number else "t/+", qos=1)
                movers.append(mover)
            writers = [await network.client(node, f"writer{node}") for node in range(3)]
            sent: list[tuple[int, bytes]] = []

            async def publish(rounds: int) -> None:
                for _ in range(rounds):
                    for node, writer in enumerate(writers):
                        payload = b"%d %d" % (node, len(sent))
                        sent.append((len(sent) % 2, payload))
                        await writer.publish(f"t/{sent[-1][0]}", payload, qos=1)
                    await asyncio.sleep(0.005)

            for target in (1, 2):
                for node in network.nodes:
                    place(node, {f"mover{number}": target for number in range(4)})
                    node.broker.placing._sent_s.clear()  # as if the cooldown were over
                done = asyncio.create_task(until(lambda target=target: all(
                    mover.redirects == target for mover in movers)))  # type: ignore[misc]  # fmt: skip
                while not done.done():
                    await publish(10)
                await publish(50)
            expected = [
                sorted(payload for kind, payload in sent if number == 0 or kind == number % 2) for number in range(4)
            ]
            await until(lambda: [sorted(one) for one in got] == expected, 50)
            await until(lambda: not network.nodes[0].broker.moving.leaving)
            assert sum(node.broker.takeover.taken_count for node in network.nodes) == 8
            assert all("mover0" not in network.nodes[node].broker.sessions.of for node in (0, 1))
            for client in (*movers, *writers):
                await client.stop()

    run(main)


def test_a_lasting_session_is_found_wherever_its_client_appears(tmp_path: Path) -> None:
    async def main() -> None:
        async with Network(tmp_path, "scribe", 3) as network:
            lasting = {"clean": False, "expiry_s": 3600}
            first = await network.client(0, "traveller", **lasting)
            await first.subscribe("news", qos=2)
            first.cut()
            await first.stop()
            writer = await network.client(2, "writer")
            for number in range(5):
                await writer.publish("news", b"%d" % number, qos=2)
            got: list[Any] = []
            again = await network.client(1, "traveller", got, **lasting)
            await again.subscribe("news", qos=2)
            await writer.publish("news", b"5", qos=2)
            await until(lambda: sorted(one.payload for one in got) == [b"%d" % number for number in range(6)])
            await until(lambda: "traveller" not in network.nodes[0].broker.sessions.of)
            await again.stop()
            await writer.stop()

    run(main)
