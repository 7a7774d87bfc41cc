"""Logins: a fleet that comes back at once, and a client's ping while somebody guesses passwords; beside mosquitto.

    python benchmarks/bench_logins.py [--connects 10000] [--users 100] [--guesses 1000] [--seconds 5] [--own] [--json]

`burst` opens all connections as fast as this process can, each with a right password, and counts what comes back;
`again` does the same once every user is known. `guesses` sends so many wrong logins a second (from one address, and
from 200). Meanwhile a client in a process of its own pings every 5 ms, and before all that with nobody else (`quiet`).
mosquitto reads the same password file (PBKDF2 with its 101 iterations); `scrypt` is the node with its own form, which
costs some hundred times as much to check.

A ping can take long because the machine is busy with others, which says nothing about the broker. The kernel counts how
long a thread that could run was kept from it (schedstat): `own` is a ping's time without what the broker's loop and the
pinger waited like that. `others` is the share of the machine that neither the broker nor this benchmark used.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from brokers import free_port, wait_open
from coterie.broker.credentials import Check
from coterie.broker.settings import LoginSection
from coterie.live.load import cpu_s
from coterie.live.logins import LoginBook, Waiter
from coterie.live.node import loop_factory
from coterie.live.passwords import hash_password
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import Connect
from coterie.mqtt.ruling import Ruling

PING, PINGRESP = b"\xc0\x00", b"\xd0\x00"
OPENING = 50  # connections being opened at a time; the listen queue of a broker is short


@dataclass(frozen=True)
class Broker:
    name: str
    port: int
    pid: int


def connect(user: str, password: str, client: str) -> bytes:
    return encode_packet(Connect(client, 4, True, 60, user, password.encode()), 4)


async def log_in(
    port: int, packet: bytes, gate: asyncio.Semaphore, local: str = ""
) -> tuple[str, asyncio.StreamWriter | None]:
    """How it went, and the connection if it was accepted."""
    try:
        async with gate:
            # To bind takes the kernel long once thousands of ports are in use: only where the address matters.
            place = (local, 0) if local else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=place)
            writer.write(packet)
        answer = await asyncio.wait_for(reader.readexactly(4), 120)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return "dropped", None
    if answer[3] == 0:
        return "accepted", writer
    writer.transport.abort()
    return f"refused {answer[3]}", None


class Busy:
    """Who used the machine since it was made: this benchmark, the broker, others."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._start = broker, self._read(broker)

    @staticmethod
    def _read(broker: Broker) -> tuple[float, float, float]:
        fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        tick = os.sysconf("SC_CLK_TCK")
        own = sum(os.times()[:4]) + cpu_s(broker.pid)
        return (sum(fields) - fields[3] - fields[4]) / tick, own, sum(fields) / tick

    def others(self) -> float:
        used, own, whole = (now - then for now, then in zip(self._read(self._broker), self._start, strict=True))
        return max(0.0, used - own) / whole


@asynccontextmanager
async def pinging(broker: Broker, row: dict[str, Any]) -> AsyncIterator[None]:
    """Pings of another client meanwhile; what they took goes into the row."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pings = pool.submit(ping, broker.port, broker.pid, folder)
        while not (Path(folder) / "begun").exists() and not pings.done():
            await asyncio.sleep(0.05)
        busy = Busy(broker)
        yield
        (Path(folder) / "stop").touch()
        found = np.array(await asyncio.wrap_future(pings))
    for name, delays in (("ping", found[:, 0]), ("own", found[:, 0] - found[:, 1])):
        row[name] = {
            f"{part}_ms": float(np.percentile(delays, at)) for part, at in (("p50", 50), ("p99", 99), ("max", 100))
        }
    row["others"] = busy.others()


async def burst(broker: Broker, connects: int, users: int) -> dict[str, Any]:
    gate = asyncio.Semaphore(OPENING)
    packets = [connect(f"u{n % users}", f"u{n % users}", f"c{n}") for n in range(connects)]
    row: dict[str, Any] = {}
    async with pinging(broker, row):
        before_s, start_s = cpu_s(broker.pid), time.monotonic()
        found = await asyncio.gather(*(log_in(broker.port, packet, gate) for packet in packets))
        wall_s = time.monotonic() - start_s
        spent_s = cpu_s(broker.pid) - before_s
    for _, writer in found:
        if writer is not None:
            writer.transport.abort()
    await asyncio.sleep(0.5)
    return {"wall_s": wall_s, "cpu_ms_each": 1e3 * spent_s / connects, **Counter(how for how, _ in found), **row}


async def quiet(broker: Broker, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    async with pinging(broker, row):
        await asyncio.sleep(seconds)
    return row


async def guesses(broker: Broker, rate: float, seconds: float, addresses: int) -> dict[str, Any]:
    """Pings of another client while wrong logins come at a steady rate."""
    answers: Counter[str] = Counter()
    tasks: set[asyncio.Task[None]] = set()
    gate = asyncio.Semaphore(OPENING)

    async def guess(number: int) -> None:
        local = f"127.0.{1 + number % addresses // 200}.{1 + number % addresses % 200}"
        packet = connect(f"u{1 + number % 90}", f"guess{number}", f"g{number}")
        answers[(await log_in(broker.port, packet, gate, local))[0]] += 1

    row: dict[str, Any] = {}
    async with pinging(broker, row):
        start_s = time.monotonic()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start_s + number / rate - time.monotonic()))
            task = asyncio.create_task(guess(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        took_s = time.monotonic() - start_s
    waiting = len(tasks)
    for task in tasks:
        task.cancel()
    return {"sent_per_s": rate * seconds / took_s, **answers, "still waiting": waiting, **row}


def held_up_ms(pid: int) -> float:
    """How long a process's first thread could have run and was not let, so far."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6
    except (OSError, IndexError):
        return 0.0


def ping(port: int, pid: int, folder: str) -> list[tuple[float, float]]:
    """Milliseconds of each ping, and of them those that the machine kept the broker's loop or this process waiting."""
    found = []
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(connect("u0", "u0", "pinger"))
        assert line.recv(4, socket.MSG_WAITALL)[3] == 0
        (Path(folder) / "begun").touch()
        while not found or not (Path(folder) / "stop").exists():
            before_ms, sent_s = held_up_ms(pid) + held_up_ms(os.getpid()), time.perf_counter()
            line.sendall(PING)
            assert line.recv(2, socket.MSG_WAITALL) == PINGRESP
            took_ms = 1e3 * (time.perf_counter() - sent_s)
            found.append((took_ms, min(took_ms, held_up_ms(pid) + held_up_ms(os.getpid()) - before_ms)))
            time.sleep(0.005)
    return found


@contextmanager
def node(folder: Path, own_form: bool) -> Iterator[Broker]:
    port, kind = free_port(), "ours" if own_form else "theirs"
    (folder / "node.toml").write_text(
        f'[node]\ndata = "data-{kind}"\n[mqtt]\nport = {port}\n[journal]\nenabled = false\n'
        f'[access]\nanonymous = "never"\npassword_file = "{kind}"\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie.cli.node", "--config", str(folder / "node.toml")], stdout=subprocess.DEVNULL
    )
    try:
        wait_open(port, process)
        yield Broker("coterie, scrypt" if own_form else "coterie, same file", port, process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def mosquitto(folder: Path) -> Iterator[Broker]:
    found = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    assert found is not None
    port = free_port()
    (folder / "mosquitto.conf").write_text(
        f"user {getpass.getuser()}\nlistener {port} 127.0.0.1\nallow_anonymous false\n"
        f"password_file {folder / 'theirs'}\n"
    )
    process = subprocess.Popen([found, "-c", str(folder / "mosquitto.conf")], stderr=subprocess.DEVNULL)
    try:
        wait_open(port, process)
        yield Broker("mosquitto", port, process.pid)
    finally:
        process.terminate()
        process.wait()


def password_files(folder: Path, users: int) -> None:
    """Ours, and plain lines that mosquitto_passwd turns into its form."""
    names = [f"u{number}" for number in range(users)]
    (folder / "ours").write_text("".join(f"{name}:{hash_password(name)}\n" for name in names))
    if shutil.which("mosquitto_passwd") is None:
        return
    path = folder / "theirs"
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}:{name}\n" for name in names))
    subprocess.run(["mosquitto_passwd", "-U", str(path)], check=True, capture_output=True)


def known_us() -> float:
    """How long it takes to know a login that was checked before."""
    book = LoginBook(LoginSection(), b"k" * 32)
    checks = [Check(f"u{number}", b"password", "", True) for number in range(1000)]
    for check in checks:
        key = book.key(check)
        book.wait(key, check, "", Waiter(lambda: False, lambda verdict: None))
        book.next()
        book.done(key, Ruling(user=check.user), 0.0)
    start_s = time.perf_counter()
    known = [book.known(book.key(check), 1.0) for check in checks]
    spent_s = time.perf_counter() - start_s
    assert all(known)
    return 1e6 * spent_s / len(checks)


def measure(broker: Broker, chosen: argparse.Namespace) -> dict[str, Any]:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        rows: dict[str, Any] = {"quiet": runner.run(quiet(broker, 3.0))}
        _show(broker, "nobody else", rows["quiet"], chosen)
        for name in ("burst", "again"):
            rows[name] = runner.run(burst(broker, chosen.connects, chosen.users))
            _show(broker, f"{name}, {chosen.connects:,} CONNECTs of {chosen.users} users", rows[name], chosen)
        for addresses in (200, 1):
            row = runner.run(guesses(broker, chosen.guesses, chosen.seconds, addresses))
            rows[f"guesses from {addresses}"] = row
            _show(broker, f"{chosen.guesses:,} wrong logins a second from {addresses} addresses", row, chosen)
    return rows


def _show(broker: Broker, what: str, row: dict[str, Any], chosen: argparse.Namespace) -> None:
    if not chosen.json:
        print(f"{broker.name:18}  {what}: " + ", ".join(_said(name, value) for name, value in row.items()), flush=True)


def _said(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{name} " + "/".join(f"{one:,.3g}" for one in value.values()) + " ms"
    if name == "others":
        return f"others {value:.0%} of the machine"
    return f"{name} {value:,.3g}" if isinstance(value, float) else f"{name} {value:,}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--connects", type=int, default=10_000)
    arguments.add_argument("--users", type=int, default=100)
    arguments.add_argument("--guesses", type=float, default=1_000)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--own", action="store_true", help="only the node with its own form")
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        password_files(folder, chosen.users)
        if (folder / "theirs").exists() and not chosen.own:
            with mosquitto(folder) as broker:
                rows[broker.name] = measure(broker, chosen)
            with node(folder, own_form=False) as broker:
                rows[broker.name] = measure(broker, chosen)
        with node(folder, own_form=True) as broker:
            rows[broker.name] = measure(broker, chosen)
    rows["known_us"] = known_us()
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
    else:
        print(f"a login that was checked before is known after {rows['known_us']:.2f} us")


if __name__ == "__main__":
    main()
