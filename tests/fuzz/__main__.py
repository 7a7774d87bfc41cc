"""Many bad inputs, and what became of them. Exit code 1 if anything broke.

    python -m tests.fuzz                         a hundred thousand mutated inputs to the parsers, in this process
    python -m tests.fuzz --inputs 10000000       as many as that, by target according to what one costs
    python -m tests.fuzz --ports 1000000         on the ports of a node: MQTT, WebSocket, links and admin
    python -m tests.fuzz --rival mosquitto       the same bytes to it and to us: taken or refused alike?
    python -m tests.fuzz --rival rust            the same against a codec in Rust (needs cargo, builds it once)
    python -m tests.fuzz --atheris codec         guided by coverage, where atheris is installed (`pip install atheris`);
                                                 what follows `--` goes to it: -- -max_total_time=60

An input that breaks something is printed and added to `corpus/`, where every test run finds it again.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import time

from tests.fuzz.mutate import inputs, keep, kept
from tests.fuzz.targets import TARGETS

GROWTH_MB_MAX = 64.0  # of memory, between a run's first tenth and its end


def memory_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def run(target: str, seed: int, count: int) -> bool:
    """Whether nothing broke and memory stayed where it was."""
    check = TARGETS[target].check
    for data in kept(target):
        check(data)
    before_mb, start_s, cpu_s = 0.0, time.monotonic(), time.process_time()
    for number, data in enumerate(inputs(target, seed, count)):
        if number == count // 10:
            before_mb = memory_mb()  # by now caches and pools are full
        if number % 500 == 0 and TARGETS[target].share < 100:
            gc.collect()  # whole brokers are cycles; left to themselves they pile up between collections
        try:
            check(data)
        except Exception as error:
            sys.stderr.write(f"{target}: {data.hex()} kept in {keep(target, data, type(error).__name__)}\n")
            raise
    grown_mb = memory_mb() - before_mb
    spent_s, cpu_s = time.monotonic() - start_s, time.process_time() - cpu_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    sys.stdout.write(
        f"{target:10} {count:>12,} inputs  none broke it  {spent_s:>7,.0f} s ({cpu_s:,.0f} s of CPU)  "
        f"memory {grown_mb:+.1f} MB, at most {peak_mb:.0f}\n"
    )
    sys.stdout.flush()
    return grown_mb <= GROWTH_MB_MAX


def parsed() -> tuple[argparse.Namespace, list[str]]:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--inputs", type=int, default=100_000, help="of all targets together")
    arguments.add_argument("--target", choices=list(TARGETS), action="append", help="these alone")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--ports", type=int, default=0, metavar="N", help="connections with a bad input each")
    arguments.add_argument("--rival", choices=["mosquitto", "rust"])
    arguments.add_argument("--atheris", choices=list(TARGETS))
    return arguments.parse_known_args()


def main() -> None:
    chosen, rest = parsed()
    if chosen.atheris:
        # Afresh, for what is to be watched must be watched while it is imported.
        sys.exit(
            subprocess.run([sys.executable, "-m", "tests.fuzz.guided", chosen.atheris, *rest], check=False).returncode
        )
    if chosen.rival:
        from tests.fuzz import rivals

        sys.exit(rivals.run(chosen.rival, chosen.inputs, chosen.seed))
    if chosen.ports:
        from tests.fuzz import ports

        sys.exit(ports.run(chosen.ports, chosen.seed))
    names = chosen.target or list(TARGETS)
    total = sum(TARGETS[name].share for name in names)
    sound = [run(name, chosen.seed, -(-chosen.inputs * TARGETS[name].share // total)) for name in names]
    sys.exit(0 if all(sound) else "memory grew")


if __name__ == "__main__":
    main()
