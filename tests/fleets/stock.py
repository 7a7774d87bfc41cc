"""Stock programs on loopback for tests: mosquittos in a star behind HAProxy, and a crowd of paho clients."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from coterie.fleets.export import haproxy, mosquitto_acl
from coterie.fleets.fleet import BrokerFleet, host_port, read_fleet

LIMIT_S = 20.0


def program(name: str) -> str:
    """Where a stock program is; the test is skipped where it is not."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed (make peers)")
    return found


def until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not become true in {limit_s:g} s"
        time.sleep(0.02)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.3).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports below those that outgoing connections get: nobody takes them between two restarts of a broker."""
    draw, found = Random(), []
    while len(found) < count:
        port = draw.randrange(12_000, 32_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


class Stock:
    """Processes of a fleet; use as a context manager."""

    def __init__(
        self, folder: Path, count: int = 0, unknown: str = "hash", has_star: bool = True, text: str = "", **limits: Any
    ) -> None:
        """So many brokers on free ports, or those of a fleet file's text."""
        self.mosquitto, self.haproxy = program("mosquitto"), program("haproxy")
        self.folder, self.has_star = folder, has_star
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.path = folder / "fleet.toml"
        settings = {"patience_s": 5.0, "moves_per_s": 40.0, **limits}
        self.path.write_text(text or self._fleet_file(free_ports(count + 1), unknown, settings))
        self.fleet: BrokerFleet = read_fleet(self.path)
        assert self.fleet.balancer is not None
        self.ports = [host_port(one.address)[1] for one in self.fleet.broker]
        self.front = host_port(self.fleet.balancer.bind)[1]
        for number, broker in enumerate(self.fleet.broker):
            home = folder / broker.name
            home.mkdir()
            (home / "mosquitto.conf").write_text(self._configuration(number, home))
        spokes = [one.bridge_name for one in self.fleet.broker[1:]]
        everything = mosquitto_acl.block(dict.fromkeys(spokes, ("#",)), self.fleet.probe.topic)
        (folder / "b0" / "acl").write_text(mosquitto_acl.base(self.fleet) + everything)
        (folder / "haproxy.cfg").write_text(haproxy.configuration(self.fleet))
        self.fleet.balancer.map.write_text("")

    def _fleet_file(self, ports: list[int], unknown: str, limits: dict[str, Any]) -> str:
        *ports, front = ports
        lines = ['name = "test"', 'hub = "b0"']
        for number, port in enumerate(ports):
            lines += ["[[broker]]", f'name = "b{number}"', f'address = "127.0.0.1:{port}"']
            lines += [f'log = "b{number}/log"', f'pid_file = "b{number}/pid"']
            lines += ['acl = "b0/acl"'] if number == 0 else []
            if not self.has_star:
                restart = f"sh {self.folder / f'b{number}' / 'restart'}"
                lines += [f'config = "b{number}/conf.d"', f'restart = "{restart}"']
        lines += ["[balancer]", 'socket = "haproxy.sock"', 'map = "clients.map"', f'bind = "127.0.0.1:{front}"']
        lines += [f'unknown = "{unknown}"', "[limits]", *(f"{key} = {value}" for key, value in limits.items())]
        return "\n".join(lines) + "\n"

    def _configuration(self, number: int, home: Path) -> str:
        lines = [f"listener {self.ports[number]} 127.0.0.1", "allow_anonymous true", f"log_dest file {home / 'log'}"]
        lines += ["log_type all", "connection_messages true", "max_queued_messages 100000", "user root"]
        lines += [f"pid_file {home / 'pid'}", "max_inflight_messages 0", "persistence false"]
        if not self.has_star:
            (home / "conf.d").mkdir()
            start = f"{self.mosquitto} -c {home / 'mosquitto.conf'} -d"
            (home / "restart").write_text(
                f"pid=$(cat {home / 'pid'})\nkill $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.02; done\n{start}\n"
                f"while ! kill -0 $(cat {home / 'pid'} 2>/dev/null || echo none) 2>/dev/null; do sleep 0.02; done\n"
            )
            return "\n".join([*lines, f"include_dir {home / 'conf.d'}", ""])
        if number == 0:
            return "\n".join([*lines, f"acl_file {home / 'acl'}", ""])
        return "\n".join([*lines, mosquitto_acl.bridge(self.fleet, f"b{number}", "127.0.0.1", self.ports[0])])

    def __enter__(self) -> Stock:
        try:
            for broker in self.fleet.names:
                self.start(broker)
            self.start_haproxy()
            hub = self.folder / "b0" / "log"
            bridges = len(self.ports) - 1 if self.has_star else 0
            until(lambda: hub.read_text().count("Received SUBSCRIBE from bridge-") >= bridges, "all bridges up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, broker: str) -> None:
        home = self.folder / broker
        errors = open(home / "errors", "ab")  # noqa: SIM115
        command = [self.mosquitto, "-c", str(home / "mosquitto.conf")]
        if self.has_star:
            self.running[broker] = subprocess.Popen(command, stdout=errors, stderr=errors)
        else:  # its own script restarts it: nobody's child
            subprocess.run([*command, "-d"], stdout=errors, stderr=errors, check=True)
        errors.close()
        until(lambda: answers(self.ports[int(broker[1:])]), f"{broker} answers")

    def start_haproxy(self) -> None:
        errors = open(self.folder / "haproxy.log", "ab")  # noqa: SIM115
        command = [self.haproxy, "-db", "-f", str(self.folder / "haproxy.cfg")]
        self.running["haproxy"] = subprocess.Popen(command, stdout=errors, stderr=errors)
        errors.close()
        until(lambda: answers(self.front), "HAProxy answers")

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name)
        process.send_signal(how)
        process.wait(10)

    def __exit__(self, *error: object) -> None:
        for name in list(self.running):
            self.stop(name, signal.SIGKILL)
        for path in self.folder.glob("b*/pid") if not self.has_star else ():  # restarted by their own script
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)


class Crowd:
    """Clients of clustered tastes: `modes` groups, each with topics of its own, and one topic of somebody else's."""

    def __init__(self, clients: int, topics: int, modes: int, seed: int, lasting: Iterable[int] = ()) -> None:
        draw = Random(seed)
        per_mode = topics // modes
        self.wishes: dict[str, tuple[str, ...]] = {}
        self.publishes: dict[str, tuple[str, ...]] = {}
        self.qos: dict[str, int] = {}
        for number in range(clients):
            mode = number % modes
            own = [f"mode{mode}/{one}" for one in draw.sample(range(per_mode), per_mode - 1)]
            stranger = f"mode{draw.randrange(modes)}/{draw.randrange(per_mode)}" if draw.random() < 0.25 else own[0]
            self.wishes[f"client {number}"] = tuple(sorted({*own, stranger}))
            self.publishes[f"client {number}"] = tuple(own[:2])
        self.lasting = {f"client {number}" for number in lasting}
        self.got: dict[str, Counter[bytes]] = {name: Counter() for name in self.wishes}
        self.sent: Counter[tuple[str, str]] = Counter()
        self.messages: list[tuple[str, bytes]] = []
        self.clients: dict[str, paho.Client] = {}
        self.connects: Counter[str] = Counter()
        self.subscribed: set[str] = set()
        self.left_s: dict[str, float] = {}  # when a client's connection first ended

    def start(self, port_of: Callable[[str], int]) -> None:
        for number, name in enumerate(self.wishes):
            self.clients[name] = self._client(name, paho.MQTTv5 if number % 2 else paho.MQTTv311, port_of(name))
        until(lambda: len(self.subscribed) == len(self.wishes), "everybody has subscribed")

    def _client(self, name: str, version: int, port: int) -> paho.Client:
        is_lasting = name in self.lasting
        options: dict[str, Any] = {} if version == paho.MQTTv5 else {"clean_session": not is_lasting}
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=version, **options)
        client.reconnect_delay_set(1, 1)
        client._reconnect_min_delay = client._reconnect_max_delay = 0.1  # type: ignore[assignment]
        client.on_connect = lambda one, *_: self._subscribe(name, one)
        client.on_subscribe = lambda *_: self.subscribed.add(name)
        client.on_disconnect = lambda *_: self._leave(name)
        client.on_message = lambda _one, _data, message: self.got[name].update([message.payload])
        more: dict[str, Any] = {}
        if version == paho.MQTTv5:
            more["properties"] = Properties(PacketTypes.CONNECT)
            more["properties"].SessionExpiryInterval = 600 if is_lasting else 0
            more["clean_start"] = not is_lasting
        client.connect("127.0.0.1", port, 30, **more)
        client.loop_start()
        return client

    def _leave(self, name: str) -> None:
        self.subscribed.discard(name)
        self.left_s.setdefault(name, time.monotonic())

    def _subscribe(self, name: str, client: paho.Client) -> None:
        self.connects[name] += 1
        client.subscribe([(topic, 1) for topic in self.wishes[name]])

    def publish(self, rounds: int, qos: int, mark: str) -> None:
        """Every client publishes on its topics."""
        for turn in range(rounds):
            for name, topics in self.publishes.items():
                for topic in topics:
                    payload = f"{mark} {name} {topic} {turn}".encode()
                    self.clients[name].publish(topic, payload, qos)
                    self.sent[name, topic] += 1
                    self.messages.append((topic, payload))

    def expected(self, name: str) -> set[bytes]:
        return {payload for topic, payload in self.messages if topic in self.wishes[name]}

    def delivered(self) -> int:
        return sum(len(got) for got in self.got.values())

    def missing(self) -> int:
        return sum(len(self.expected(name) - set(got)) for name, got in self.got.items())

    def twice(self) -> int:
        return sum(count - 1 for got in self.got.values() for count in got.values())

    def settle(self) -> None:
        """Until everything has arrived, or nothing more comes."""
        last, still = -1, 0
        while still < 20 and self.missing():
            now = self.delivered()
            still = still + 1 if now == last else 0
            last = now
            time.sleep(0.1)

    def forget(self) -> None:
        for got in self.got.values():
            got.clear()
        self.sent.clear()
        self.messages.clear()

    def stop(self) -> None:
        for client in self.clients.values():
            client.disconnect()
        for client in self.clients.values():
            client.loop_stop()
            client._reset_sockets()  # paho leaves its wake-up pair open
