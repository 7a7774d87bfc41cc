"""What a node costs per delivery, with mosquitto beside it in the same run: deliveries per broker-CPU-second.

Run `python benchmarks/bench_broker.py` (`--json` for a machine, `--scale 5` for longer runs, `--only paced` for a
part). All brokers get the same bytes from the same load generator, one after the other; the node runs with accounting,
permissions, journal and store on. The ratio is what counts. Without mosquitto on this machine its columns stay empty.
`--beside FOLDER` adds a node of another version, by its source folder: an earlier checkout's `src`.

- `full`: as fast as it goes.
- `paced`: 5,000 messages a second one to one, QoS 1 also into a lasting session, with a bare uvloop forwarder beside;
  one message at a time to 100 subscribers. `coterie 1 ms` is a node with `mqtt.latency_budget_ms = 1`.
- `away`: 50 lasting sessions with `#` whose clients are away.

Processor time is the scheduler's. Paced rows are medians of rounds in which the brokers take turns, and the ratio is
the median of the rounds' ratios, for the machine is never quite the same twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from brokers import BrokerAt, free_port, mosquitto, node
from coterie.live.load import Shape, run_load
from paced_load import Paced, forwarder, one_at_a_time, paced, scheduled_s, stored_bytes, to_offline

SHAPES = [
    ("QoS 0, 1:1", Shape(1, 1, 0), 400_000),
    ("QoS 0, 1:100", Shape(1, 100, 0, window=200_000), 100_000),
    ("QoS 0, 100:1", Shape(100, 1, 0), 200_000),
    ("QoS 0, 1:1 wildcard", Shape(1, 1, 0, filter="bench/+/#"), 400_000),
    ("QoS 1, 1:1", Shape(1, 1, 1), 60_000),
    ("QoS 1, 1:100", Shape(1, 100, 1, window=50_000), 5_000),
    ("QoS 1, 100:1", Shape(100, 1, 1), 60_000),
]
RATE = 5000.0
PACED = [
    ("5,000/s QoS 0, 1:1", 0, False),
    ("5,000/s QoS 1, 1:1", 1, False),
    ("5,000/s QoS 1, 1:1 lasting", 1, True),
]
FAN = "one at a time, 1:100"
MINE, THEIRS, BARE = "coterie", "mosquitto", "forwarder"
TALK = sys.stderr if "--json" in sys.argv else sys.stdout
Brokers = dict[str, BrokerAt]


def say(text: str) -> None:
    print(text, file=TALK, flush=True)


def measure(broker: BrokerAt, shape: Shape, messages: int) -> float:
    """Deliveries per CPU second of the broker process."""
    port, pid = broker
    before_s = scheduled_s(pid)
    result = run_load("127.0.0.1", [port], shape, messages)
    spent_s = scheduled_s(pid) - before_s
    if result.missing:
        raise SystemExit(f"{result.missing} of {result.published} messages did not arrive: {shape}")
    return result.delivered / spent_s


def saturated(brokers: Brokers, scale: float, repeat: int) -> list[dict[str, Any]]:
    """The best of several runs, in turns."""
    rows = []
    say(f"{'deliveries per broker-CPU-second':34}" + "".join(f"{name:>16} {'ratio':>6}" for name in brokers))
    for what, shape, messages in SHAPES:
        best = dict.fromkeys(brokers, 0.0)
        for _ in range(repeat):
            for name, broker in brokers.items():
                count = int(messages * scale) // (4 if name == THEIRS else 1)
                best[name] = max(best[name], measure(broker, shape, max(100, count)))
        theirs = best.get(THEIRS)
        rows.append({"what": what, **best, "ratio": {name: theirs and one / theirs for name, one in best.items()}})
        beside = (f"{one:16,.0f} " + (f"{one / theirs:6.2f}" if theirs else f"{'-':>6}") for one in best.values())
        say(f"{what:34}" + "".join(beside))
    return rows


def in_turns(brokers: Brokers, rounds: int, what: str, run: Any) -> dict[str, Any]:
    """Every broker in turn, several times: medians of cost, delays and of the ratio to mosquitto in the same round."""
    found: dict[str, list[Paced]] = {name: [] for name in brokers}
    for _ in range(rounds):
        for name, broker in brokers.items():
            result = run(name, broker)
            if result.missing:
                raise SystemExit(f"{result.missing} of {result.delivered + result.missing} did not arrive: {name}")
            found[name].append(result)
    theirs = found.get(THEIRS, [])
    row: dict[str, Any] = {"what": what}
    for name, results in found.items():
        ratios = [one.per_cpu_s / other.per_cpu_s for one, other in zip(results, theirs, strict=False)]
        row[name] = {
            "us": median(1e6 / one.per_cpu_s for one in results),
            "per_cpu_s": median(one.per_cpu_s for one in results),
            "ratio": median(ratios) if ratios else None,
            "delay_ms": median(one.delay_ms for one in results),
            "delay_ms_99": median(one.delay_ms_99 for one in results),
            "rate": median(one.rate for one in results),
        }
        say(_paced_line(what, name, row[name]))
    return row


def _paced_line(what: str, name: str, one: dict[str, Any]) -> str:
    ratio = "-" if one["ratio"] is None else f"x {one['ratio']:.2f} of mosquitto"
    return (
        f"{what:27} {name:12} {one['us']:6.1f} us a delivery {one['per_cpu_s']:9,.0f} per CPU s  {ratio}"
        f"  {one['rate']:6,.0f}/s  delay {one['delay_ms']:.2f} ms, 99 %: {one['delay_ms_99']:.2f}"
    )


def at_rates(brokers: Brokers, scale: float, rounds: int) -> list[dict[str, Any]]:
    """The paced rows."""
    seconds, rows = 4 * scale, []
    with forwarder(free_port()) as bare:
        for what, qos, is_lasting in PACED:

            def run(name: str, broker: BrokerAt, qos: int = qos, is_lasting: bool = is_lasting) -> Paced:
                return paced(broker, qos, RATE, seconds, is_bare=name == BARE, is_lasting=is_lasting)

            rows.append(in_turns(brokers | ({} if qos else {BARE: bare}), rounds, what, run))
    rows.append(in_turns(brokers, rounds, FAN, lambda name, broker: one_at_a_time(broker, 100, int(seconds * 250))))
    return rows


def away(brokers: Brokers, folders: dict[str, Path], scale: float) -> dict[str, Any]:
    """Fifty lasting sessions that want everything, their clients away: what a message costs to take and to keep."""
    sessions, messages, payload_bytes = 50, max(100, int(992 * scale)), 1000
    what = f"QoS 1 to {sessions} offline sessions, {payload_bytes} bytes"
    row: dict[str, Any] = {"what": what}
    for name, broker in brokers.items():
        before = stored_bytes(folders[name]) if name in folders else 0
        spent_s = to_offline(broker, sessions, messages, payload_bytes)
        kept = stored_bytes(folders[name]) - before if name in folders else None
        row[name] = {"ms": spent_s / messages * 1e3, "stored_bytes": kept and kept / messages}
        stored = "nothing stored" if kept is None else f"{kept / messages:,.0f} bytes stored a message"
        say(f"{what:42} {name:12} {row[name]['ms']:.3f} ms CPU a publish, {stored}")
    return row


@contextmanager
def started(beside: str, only: str | None) -> Iterator[tuple[Brokers, dict[str, Path]]]:
    """(all brokers, the data folders of those that have one)."""
    with ExitStack() as stack:
        folders: dict[str, Path] = {}
        brokers: Brokers = {}

        def add(name: str, mqtt: str = "", source: str = "") -> None:
            folders[name] = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            brokers[name] = stack.enter_context(node(folders[name], mqtt, source))

        add(MINE)
        if only in (None, "paced"):
            add(f"{MINE} 1 ms", "latency_budget_ms = 1\n")
        if beside:
            add("beside", source=beside)
        theirs = stack.enter_context(mosquitto())
        yield brokers | ({} if theirs is None else {THEIRS: theirs}), folders


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="print the rows as JSON as well")
    arguments.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments.add_argument("--repeat", type=int, default=2, help="runs of a saturated row: the best counts")
    arguments.add_argument("--rounds", type=int, default=5, help="rounds of a paced row: the median counts")
    arguments.add_argument("--only", choices=("full", "paced", "away"), help="one part of it")
    arguments.add_argument("--beside", default="", metavar="FOLDER", help="the source folder of another version")
    chosen = arguments.parse_args()
    rows = []
    with started(chosen.beside, chosen.only) as (brokers, folders):
        plain = {name: one for name, one in brokers.items() if name != f"{MINE} 1 ms"}
        if chosen.only in (None, "full"):
            rows += saturated(plain, chosen.scale, chosen.repeat)
        if chosen.only in (None, "paced"):
            rows += at_rates(brokers, chosen.scale, chosen.rounds)
        if chosen.only in (None, "away"):
            rows.append(away(plain, folders, chosen.scale))
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
