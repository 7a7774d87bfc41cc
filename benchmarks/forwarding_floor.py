"""What two processes and one Unix socket cost with nothing in them, for a row of `bench_processes`: in step, QoS 0.

Run `python benchmarks/forwarding_floor.py --rounds 61`. A forwarder is uvloop and as little as a load generator can be
told apart by: CONNECT and SUBSCRIBE are answered from constants, whatever else comes is written to all subscribers as
it is. One of them has the whole crowd; of two each has those whom the kernel dealt to it, and what one's publisher said
goes to the other over a Unix socket, once, before its own subscribers get it. *Apart* are two that are not linked. The
crowd, the load and how processor time is read are those of `bench_processes`: in step, at QoS 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench_processes import CROWD, cost_us, tell
from brokers import free_port, running

FORWARDER = """
import asyncio, os, socket, sys, uvloop
port, own, other = int(sys.argv[1]), sys.argv[2], sys.argv[3]
subscribers, links = [], []
class Link(asyncio.Protocol):
    def connection_made(self, transport):
        transport.set_write_buffer_limits(high=0)
        links.append(transport)
    def data_received(self, data):
        for one in subscribers:
            one.write(data)
class Client(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        if data[0] == 0x30:
            for link in links:
                link.write(data)
            for one in subscribers:
                one.write(data)
        elif data[0] == 0x10:
            self.transport.write(bytes((0x20, 2, 0, 0)))
        else:
            subscribers.append(self.transport)
            self.transport.write(bytes((0x90, 3, 0, 1, 0)))
    def connection_lost(self, error):
        if self.transport in subscribers:
            subscribers.remove(self.transport)
async def main():
    loop = asyncio.get_running_loop()
    if own:
        await loop.create_unix_server(Link, own)
    if other:
        while not os.path.exists(other):
            await asyncio.sleep(0.01)
        await loop.create_unix_connection(Link, other)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    server = await loop.create_server(Client, sock=listener, backlog=256)
    await server.serve_forever()
uvloop.run(main())
"""


@contextmanager
def forwarder(port: int, own: str = "", other: str = "") -> Iterator[int]:
    with running([sys.executable, "-c", FORWARDER, str(port), own, other], port) as (_, pid):
        yield pid


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments.add_argument("--rounds", type=int, default=5, help="the median counts")
    chosen = arguments.parse_args()
    shape, messages = replace(CROWD, window=1, qos=0), int(10_000 * chosen.scale)
    halves = replace(shape, publishers=2, reach=shape.subscribers // 2)
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        path = str(Path(home) / "link")
        single, shared, *ports = (free_port() for _ in range(4))
        alone = stack.enter_context(forwarder(single))
        linked = [stack.enter_context(forwarder(shared, *ends)) for ends in ((path, ""), ("", path))]
        apart = [stack.enter_context(forwarder(port)) for port in ports]
        costs, others = [], []
        for _ in range(chosen.rounds):
            single_us = cost_us([single], [alone], shape, messages)
            costs.append((single_us, cost_us([shared], linked, shape, messages)))
            others.append((single_us, cost_us(ports, apart, halves, messages * 2)))
        tell("crowds, in step, QoS 0", costs, 2)
        tell("apart, in step, QoS 0", others, 2)
        beyond = median(two / apart for (_, two), (_, apart) in zip(costs, others, strict=True))
        print(f"linked, to apart: ratio {beyond:.2f}", flush=True)


if __name__ == "__main__":
    main()
