"""What sealing a link costs: CPU of two nodes for each message that crosses from one to the other, with it and without.

    python benchmarks/bench_links.py [--messages 20000] [--repeat 3] [--json]

`without` are the same nodes with records passed through as they are, which only this benchmark can do. There is a
subscriber at each node and a publisher at one. The last line is the sealing alone, both ends, for each frame of a write
of one and of a hundred.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokers import free_base, wait_open
from coterie.api.running import arranged
from coterie.live.load import Shape, cpu_s, run_load
from coterie.live.sealing import Sealing

RUN = """
import sys
from pathlib import Path
from coterie.cli.node import node_command
from coterie.live.sealing import Sealing
if sys.argv[2] == "without":
    Sealing.seal = lambda self, plain: plain
    Sealing.open = lambda self, data: data
node_command(Path(sys.argv[1]))
"""


@contextmanager
def two_nodes(how: str) -> Iterator[tuple[list[int], list[int]]]:
    base = free_base(2)
    with tempfile.TemporaryDirectory() as folder:
        arranged(None, 2, "flooding", {}, base, Path(folder), "127.0.0.1", 0)
        configs = [Path(folder) / f"node-{node}" / "node.toml" for node in range(2)]
        nodes = [
            subprocess.Popen([sys.executable, "-c", RUN, str(path), how], stdout=subprocess.DEVNULL) for path in configs
        ]
        try:
            for port, node in enumerate(nodes, base):
                wait_open(port, node)
            time.sleep(2.0)  # until they have met
            yield [base, base + 1], [node.pid for node in nodes]
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait()


def each_us(how: str, qos: int, messages: int, repeat: int) -> float:
    """CPU microseconds of both nodes for a message; the best of several runs."""
    with two_nodes(how) as (ports, pids):
        best = float("inf")
        for _ in range(repeat):
            before_s = sum(map(cpu_s, pids))
            result = run_load("127.0.0.1", ports, Shape(1, 2, qos, window=2000), messages)
            if result.missing:
                raise SystemExit(f"{result.missing} of {messages} messages did not arrive")
            best = min(best, 1e6 * (sum(map(cpu_s, pids)) - before_s) / messages)
    return best


def alone_us(frames: int, size: int = 200) -> float:
    dialler, acceptor = Sealing(True), Sealing(False)
    dialler.agree(b"a", b"b", acceptor.public, (b"k",))
    acceptor.agree(b"b", b"a", dialler.public, (b"k",))
    plain, rounds = bytes(frames * size), 20_000 // frames
    start_s = time.perf_counter()
    for _ in range(rounds):
        acceptor.open(dialler.seal(plain))
    return 1e6 * (time.perf_counter() - start_s) / rounds / frames


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--messages", type=int, default=20_000)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    rows: dict[str, Any] = {}
    for qos in (0, 1):
        sealed, bare = (each_us(how, qos, chosen.messages, chosen.repeat) for how in ("with", "without"))
        rows[f"QoS {qos}"] = {"sealed_us": sealed, "bare_us": bare, "ratio": sealed / bare}
    rows["alone"] = {"one_frame_us": alone_us(1), "hundred_frames_us": alone_us(100)}
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    for name, row in rows.items():
        print(f"{name:6}", ", ".join(f"{key} {value:.2f}" for key, value in row.items()))


if __name__ == "__main__":
    main()
