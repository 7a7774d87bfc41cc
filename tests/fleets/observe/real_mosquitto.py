"""A real mosquitto on loopback that writes its log, and clients of other people's making."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.fleet import free_ports

PROGRAM = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
needs_mosquitto = pytest.mark.skipif(PROGRAM is None, reason="no mosquitto here: install the package of that name")


class RealMosquitto:
    """`extra` lines go to its configuration."""

    def __init__(self, folder: Path, name: str, extra: str = "log_type all", log: str = "") -> None:
        self.port = free_ports(1)[0]
        self.log = folder / f"{name}.log"
        self.configuration = folder / f"{name}.conf"
        listener = f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\n"
        self.configuration.write_text(f"{listener}{log or f'log_dest file {self.log}'}\n{extra}\n")

    def __enter__(self) -> RealMosquitto:
        assert PROGRAM is not None
        self.process = subprocess.Popen([PROGRAM, "-c", str(self.configuration)], stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("mosquitto does not start")

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(10)


class Paho:
    """A client that waits for its answers."""

    def __init__(self, port: int, name: str, clean: bool = True, version: int = 4) -> None:
        import paho.mqtt.client as paho

        self.name = name
        session: dict[str, Any] = {} if version == 5 else {"clean_session": clean}
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=version, **session)
        self._answered = threading.Semaphore(0)
        self.got: list[tuple[str, bytes]] = []
        self.client.on_connect = self.client.on_subscribe = lambda *told: self._answered.release()
        self.client.on_unsubscribe = lambda *told: self._answered.release()
        self.client.on_message = lambda client, told, message: self.got.append((message.topic, message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self._wait()

    def _wait(self) -> None:
        assert self._answered.acquire(timeout=10), "the broker did not answer"

    def subscribe(self, *filters: str) -> None:
        self.client.subscribe([(one, 1) for one in filters])
        self._wait()

    def unsubscribe(self, *filters: str) -> None:
        self.client.unsubscribe(list(filters))
        self._wait()

    def publish(self, topic: str, payload: bytes, count: int = 1) -> None:
        told = [self.client.publish(topic, payload, 1) for _ in range(count)]
        for one in told:
            one.wait_for_publish(10)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
