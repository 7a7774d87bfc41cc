"""What a look of the dashboard costs a node that has many channels: bytes and CPU, beside the documents of 0.1.

python benchmarks/bench_looks.py --channels 100000
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any

import msgspec

from coterie.broker import views
from coterie.live.overview import Overview
from coterie.protocol.node import NodeState


def node_with(channels: int) -> Any:
    """As much of a broker as looks go to: member of every channel, on the tree of every second one."""
    names = tuple(f"site/{number}/temperature" for number in range(channels))
    state = NodeState(links=(1, 2), parents=tuple((name, 1) for name in names[::2]), memberships=names)
    plane = SimpleNamespace(
        state=lambda: state, slice=SimpleNamespace(position=7, version=1), wanting=dict.fromkeys(names),
        system=SimpleNamespace(name="scribe"),
    )  # fmt: skip
    planes = SimpleNamespace(in_use=plane, outdated_by=0, generation=1, links=lambda: {1, 2})
    return SimpleNamespace(
        planes=planes,
        links=SimpleNamespace(connected=[1, 2], peers={1: None, 2: None}),
        setup=SimpleNamespace(node=0, name="node-0"),
        recovery=SimpleNamespace(behind=()),
        book=SimpleNamespace(remote=SimpleNamespace(of_node={})),
        sessions=SimpleNamespace(index=SimpleNamespace(count=channels)),
        keeping=None,
        draining=SimpleNamespace(phase=""),
        membership=SimpleNamespace(is_settled=True),
        is_alone=False,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--channels", type=int, default=100_000)
    options.add_argument("--looks", type=int, default=60)
    chosen = options.parse_args()
    broker = node_with(chosen.channels)
    overview = Overview(broker)

    def old() -> bytes:
        return msgspec.json.encode([views.topology(broker), views.channels(broker)])

    def new() -> bytes:
        return msgspec.json.encode(overview.document())

    print(f"{'look':<28}{'bytes':>12}{'CPU ms a look':>16}")
    for name, look in (("topology and channels (0.1)", old), ("overview", new)):
        began, size = time.process_time(), 0
        for _ in range(chosen.looks):
            size = len(look())
            time.sleep(0.02)  # browsers look once a second; this is fifty times as often
        print(f"{name:<28}{size:>12,}{1000 * (time.process_time() - began) / chosen.looks:>16.2f}")
    began = time.process_time()
    overview.find("99/")
    print(f"a search: {1000 * (time.process_time() - began):.1f} ms")


if __name__ == "__main__":
    main()
