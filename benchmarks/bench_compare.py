"""`coterie compare` on the embedded data, all systems, beside an older version of this very program.

    git worktree add /tmp/old db4eabf                             # 0.1
    python benchmarks/bench_compare.py --peer /tmp/old/src        # interleaved, three runs each
    python benchmarks/bench_compare.py                            # without a peer: our own times

Both run in this Python, each on kernels that an unmeasured run has compiled. Seconds and CPU seconds of all processes,
the JVM and its workers included; the CPU is what counts on a machine that others use. Then the rerun, `--help` and
`import coterie`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

OWN = Path(__file__).resolve().parents[1] / "src"
PR_SET_CHILD_SUBREAPER = 36  # Linux: whoever is left behind becomes our child, and its time is counted


class Took(NamedTuple):
    seconds: float
    cpu_s: float


def took(words: list[str], source: Path, folder: Path) -> Took:
    """A command from start to end, with all that it started."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compared(source: Path, folder: Path, name: str) -> Took:
    return took(["-m", "coterie", "compare", "--out", name], source, folder)


def show(what: str, runs: list[Took]) -> Took:
    middle = Took(statistics.median(one.seconds for one in runs), statistics.median(one.cpu_s for one in runs))
    print(f"{what:34s}{middle.seconds:8.2f} s{middle.cpu_s:8.2f} cpu-s   of {len(runs)}, load {os.getloadavg()[0]:.1f}")
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="the src folder of the version to compare with")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = {"ours": OWN} | ({} if asked.peer is None else {"peer": asked.peer.resolve()})
        runs: dict[str, list[Took]] = {who: [] for who in sources}
        for who, source in sources.items():
            compared(source, folder, f"warm-{who}")
        for number in range(asked.runs):
            for who, source in sources.items():
                runs[who].append(compared(source, folder, f"{who}-{number}"))
        found = {who: show(f"compare, {who}", of) for who, of in runs.items()}
        if "peer" in found:
            ratio = [mine / theirs for mine, theirs in zip(found["ours"], found["peer"], strict=True)]
            print(f"{'ours / peer':34s}{ratio[0]:8.2f}  {ratio[1]:8.2f}")
        again = "ours-0"
        show("the same again", [compared(OWN, folder, again) for _ in range(asked.runs)])
        show("--help", [took(["-m", "coterie", "--help"], OWN, folder) for _ in range(asked.runs)])
        show("import coterie", [took(["-c", "import coterie"], OWN, folder) for _ in range(asked.runs)])
        show("python itself", [took(["-c", "pass"], OWN, folder) for _ in range(asked.runs)])


if __name__ == "__main__":
    main()
