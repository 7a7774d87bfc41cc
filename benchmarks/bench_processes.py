"""What several processes behind one port cost and bring, with one process beside them in the same run.

Run `python benchmarks/bench_processes.py` (`--processes 4`, `--scale 5` for longer runs, `--only "in step"` for rows so
named). All get the same bytes from the same load generators, in turns; a round's ratio is broker CPU
per delivery, several processes to one, and the median of the rounds counts. Rows:

- `crowds`: 1 publisher, 100 subscribers, wherever the kernel put them: a message crosses once, for all who are there.
  *In step* the next batch of a hundred is sent when all have the last one: so one process and several read and write as
  often. As fast as it goes, who has less to do finds less at a time, and wakes up and writes more often. *Apart* are
  nodes that know nothing of each other, with a part of the crowd and a publisher each: nothing crosses, and what they
  cost beyond one process is what it costs to share the machine's cores and caches with each other and the generator.
- `clients`: what is in each round of the crowds besides deliveries: a client connects, subscribes and goes again.
- `pairs`: 1:1, wherever the kernel put them; the publisher's socket goes to where the subscriber is.
- `placed`: as pairs, with both where their topic is wanted: at the process's own port, as admission sends clients.
- `capacity`: deliveries a second with as many load generators as processes. The generators need cores too: what they
  used is said beside it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median

from brokers import node, shared_port
from coterie.live.load import Result, Shape, run_load
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, Connect
from paced_load import scheduled_s

CONNECTIONS = 400
CROWD, PAIR = Shape(1, 100, 1, window=50_000), Shape(1, 1, 1)
RUNS = count()


def cost_us(ports: list[int], pids: Sequence[int], shape: Shape, messages: int) -> float:
    """Broker CPU per delivery."""
    before_s, topic = sum(map(scheduled_s, pids)), f"bench/{next(RUNS)}"
    result = run_load("127.0.0.1", ports, replace(shape, topic=topic, filter=topic), messages)
    if result.missing:
        raise SystemExit(f"{result.missing} of {result.published} messages did not arrive: {shape}")
    return (sum(map(scheduled_s, pids)) - before_s) / result.delivered * 1e6


def coming_us(port: int, pids: Sequence[int], shape: Shape) -> float:
    """Broker CPU per client of a crowd to which nothing is said."""
    before_s, topic = sum(map(scheduled_s, pids)), f"bench/{next(RUNS)}"
    run_load("127.0.0.1", [port], replace(shape, topic=topic, filter=topic), 0)
    return (sum(map(scheduled_s, pids)) - before_s) / (shape.subscribers + shape.publishers) * 1e6


def several_us(ports: list[list[int]], pids: Sequence[int], shape: Shape, messages: int, times: int) -> float:
    """The mean over several pairs, each with new connections: the kernel deals them out anew."""
    return sum(cost_us(ports[one % len(ports)], pids, shape, messages // times) for one in range(times)) / times


def spread(port: int, pids: Sequence[int]) -> list[int]:
    """How the kernel deals out connections: sockets by process."""
    found: list[socket.socket] = []
    before = [_sockets(pid) for pid in pids]
    for number in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(encode_packet(Connect(f"spread{number}", MQTT_3, True, 0), MQTT_3))
        one.recv(4)
        found.append(one)
    counts = [_sockets(pid) - had for pid, had in zip(pids, before, strict=True)]
    for one in found:
        one.close()
    return counts


def _sockets(pid: int) -> int:
    links = (os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink())
    return Counter(link.partition(":")[0] for link in links)["socket"]


def _loaded(port: int, messages: int) -> tuple[Result, float]:
    began_s = time.process_time()
    shape = Shape(1, 20, 0, topic=f"bench/{os.getpid()}", filter=f"bench/{os.getpid()}")
    result = run_load("127.0.0.1", [port], shape, messages)
    return result, time.process_time() - began_s


def capacity(ports: list[int], pids: Sequence[int], messages: int) -> tuple[float, float, float]:
    """(deliveries a second, cores of the brokers, cores of the generators)."""
    before_s, began_s = sum(map(scheduled_s, pids)), time.perf_counter()
    with multiprocessing.Pool(len(ports)) as pool:
        found = pool.starmap(_loaded, [(port, messages) for port in ports])
        wall_s = time.perf_counter() - began_s
    delivered = sum(result.delivered for result, _ in found)
    broker_s = sum(map(scheduled_s, pids)) - before_s
    return delivered / wall_s, broker_s / wall_s, sum(spent_s for _, spent_s in found) / wall_s


def compare(
    what: str, shape: Shape, messages: int, times: int, rounds: int,
    one: tuple[list[list[int]], Sequence[int]], several: tuple[list[list[int]], Sequence[int]],
) -> None:  # fmt: skip
    costs = []
    for _ in range(rounds):
        single_us = several_us(*one, shape, messages, times)
        costs.append((single_us, several_us(*several, shape, messages, times)))
    tell(what, costs, len(several[1]))


def tell(what: str, costs: list[tuple[float, float]], count: int, unit: str = "delivery") -> None:
    single_us, several_us = (median(one) for one in zip(*costs, strict=True))
    ratio = median(several / single for single, several in costs)
    told = f"{single_us:6.2f} us a {unit} with one, {several_us:6.2f} with {count}"
    print(f"{what:26} {told}: ratio {ratio:.2f}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--processes", type=int, default=2)
    arguments.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments.add_argument("--rounds", type=int, default=5, help="the median counts")
    arguments.add_argument("--only", default="", help="rows whose name has this in it")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as home:
        first, second, apart = (Path(home) / name for name in ("one", "several", "apart"))
        for folder in (first, second, *(apart / str(number) for number in range(chosen.processes))):
            folder.mkdir(parents=True)
        with (
            node(first) as (alone, pid),
            shared_port(second, chosen.processes) as (port, own, pids),
            ExitStack() as stack,
        ):
            parts = [stack.enter_context(node(apart / str(number))) for number in range(chosen.processes)]
            own_ports = [own + number for number in range(chosen.processes)]
            counts = spread(port, pids)
            print(f"{CONNECTIONS} connections over {chosen.processes} processes: {counts}", flush=True)
            few = int(20_000 * chosen.scale)
            rows = [
                ("crowds, in step, QoS 1", replace(CROWD, window=1), int(2_000 * chosen.scale), [[port]], 1),
                ("crowds, in step, QoS 0", replace(CROWD, window=1, qos=0), int(10_000 * chosen.scale), [[port]], 1),
                ("crowds, 1:100, QoS 1", CROWD, int(2_000 * chosen.scale), [[port]], 1),
                ("crowds, 1:100, QoS 0", replace(CROWD, qos=0), int(10_000 * chosen.scale), [[port]], 1),
                ("pairs, 1:1 as they come", PAIR, few, [[port]], 8),
                ("placed, 1:1", PAIR, few, [[one] for one in own_ports], chosen.processes),
            ]
            for what, shape, messages, ports, times in rows:
                if chosen.only not in what:
                    continue
                compare(what, shape, messages, times, chosen.rounds, ([[alone]], [pid]), (ports, pids))
            if chosen.only in (what := "clients that come and go"):
                costs = [(coming_us(alone, [pid], CROWD), coming_us(port, pids, CROWD)) for _ in range(chosen.rounds)]
                tell(what, costs, len(pids), "client")
            ids, where = [pid for _, pid in parts], [port for port, _ in parts]
            for _, shape, messages, _, _ in rows[:4]:  # the crowds
                how = "in step" if shape.window == 1 else "1:100"
                what = f"apart, {how}, QoS {shape.qos}"
                if chosen.only not in what:
                    continue
                divided = replace(shape, publishers=len(parts), reach=shape.subscribers // len(parts))
                costs = []
                for _ in range(chosen.rounds):
                    single_us = cost_us([alone], [pid], shape, messages)
                    costs.append((single_us, cost_us(where, ids, divided, messages * len(parts))))
                tell(what, costs, len(parts))
            for what, targets, ids in (("one", [alone] * chosen.processes, [pid]), ("several", own_ports, pids)):
                if chosen.only not in f"capacity, {what}":
                    continue
                rate, broker, generator = capacity(targets, ids, int(20_000 * chosen.scale))
                told = f"{rate:9,.0f} deliveries a second, brokers {broker:.2f} cores, generators {generator:.2f}"
                print(f"capacity, {what:16} {told} of {os.cpu_count()}", flush=True)


if __name__ == "__main__":
    main()
