"""Many inputs, in process: `python -m tests.fuzz --inputs 1000000 [--target codec] [--seed 0]`, or with atheris:
`python -m tests.fuzz --atheris codec -- -max_total_time=60`.

Prints what was tried and how memory grew; an input that breaks something is written to the corpus and ends the run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from hashlib import sha256

from tests.fuzz.mutate import CORPUS, inputs, kept
from tests.fuzz.targets import TARGETS


def keep(target: str, data: bytes) -> str:
    path = CORPUS / target / sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def memory_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def run(target: str, seed: int, count: int) -> None:
    check = TARGETS[target][0]
    for data in kept(target):
        check(data)
    for data in inputs(target, seed + 1, min(count, 2000)):
        check(data)  # caches and pools fill before memory is looked at
    before_mb, start_s = memory_mb(), time.monotonic()
    for data in inputs(target, seed, count):
        try:
            check(data)
        except BaseException:
            sys.stderr.write(f"{target}: kept in {keep(target, data)}\n")
            raise
    spent_s = time.monotonic() - start_s
    sys.stdout.write(f"{target:8} {count:>12,} inputs  {count / spent_s:>9,.0f} a second  "
                     f"memory {memory_mb() - before_mb:+.1f} MB\n")  # fmt: skip
    sys.stdout.flush()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--inputs", type=int, default=100_000, help="for each target")
    arguments.add_argument("--target", choices=list(TARGETS), action="append")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--atheris", choices=list(TARGETS), help="guided by coverage, where atheris is installed")
    chosen, rest = arguments.parse_known_args()
    if chosen.atheris:
        import atheris

        atheris.instrument_all()
        atheris.Setup([sys.argv[0], *rest, str(CORPUS / chosen.atheris)], TARGETS[chosen.atheris][0])
        atheris.Fuzz()
        return
    for target in chosen.target or TARGETS:
        run(target, chosen.seed, chosen.inputs)


if __name__ == "__main__":
    main()
