"""Which functions have a row of a CSV file in their hands on its way to a node's slice: a walk of docs/ARCHITECTURE.md.

The commands run as anybody runs them: a plan is made from a log, a network is started, the plan is applied. Every
process that they start, Spark's workers and the nodes among them, watches itself by a `sitecustomize`. A function
counts if it has the subscriber or the topic of the row in its hands, as a word (`watching.Watcher`). Where the row is a
number among numbers, in kernels and designs, nothing is counted.

    python -m tests.interop.row_walk                      # this version
    python -m tests.interop.row_walk --source OLD/src     # another one
    python -m tests.interop.row_walk --spark              # this one, with a log that is too large to do without Spark
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import coterie
from tests.interop.watching import Hop, in_short

HERE = Path(__file__).resolve()
MARK, DEPTH = "qzx", 6
SYSTEM = "tamara"  # whose slices name topics
TOPICS, CLIENTS, NODES = 12, 24, 4
PORT = 28_830
CUSTOMIZE = """
import sys
sys.path.insert(0, {home!r})
from tests.interop.watching import watch_this_process
watch_this_process({source!r}, {mark!r}, {depth!r}, {folder!r})
"""
SPARK = "\nimport coterie.pipeline.here\ncoterie.pipeline.here.SMALL_BYTES = 0\n"


def write_log(folder: Path) -> None:
    """Each client wants three topics; the marked client wants the marked topic, and nobody publishes on it."""
    topics = [f"plant/line-{number}/state" for number in range(TOPICS)]
    rows = [(f"client-{one}", topics[(one + step) % TOPICS]) for one in range(CLIENTS) for step in (0, 1, 3)]
    rows += [(f"client-{MARK}", f"plant/{MARK}")]
    (folder / "subs.csv").write_text("subscriber,topic\n" + "".join(f"{who},{what}\n" for who, what in rows))
    times = range(1_700_000_000, 1_700_004_000, 20)
    said = [f"{at},client-{at // 20 % CLIENTS},{topics[at // 20 % TOPICS]},40\n" for at in times]
    (folder / "pubs.csv").write_text("time,publisher,topic,bytes\n" + "".join(said))


def walk_of_a_row(source: Path, folder: Path, is_spark: bool = False) -> list[Hop]:
    """In the order in which the row came by; `folder` is for all that the commands leave."""
    write_log(folder)
    seen, site = folder / "seen", folder / "site"
    for new in (seen, site):
        new.mkdir()
    watcher = CUSTOMIZE.format(
        home=str(HERE.parents[2]), source=f"{source}/coterie/", mark=MARK, depth=DEPTH, folder=str(seen)
    )
    (site / "sitecustomize.py").write_text(watcher + (SPARK if is_spark else ""))
    watched = {**os.environ, "PYTHONPATH": f"{site}:{source}"}
    ports = ["--nodes", str(NODES), "--base-port", str(PORT)]
    words = ["plan", f"subscriptions={folder}/subs.csv", f"publications={folder}/pubs.csv", "--out", "out"]
    run([*words, "--nodes", str(NODES), "--system", SYSTEM], watched, folder)
    (plan,) = (path.parent for path in folder.glob("out/*/plans"))
    up = [sys.executable, "-m", "coterie", "up", *ports, "--data", str(folder / "net")]
    with subprocess.Popen(up, env=watched, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as network:
        try:
            wait_until_ready()
            run(["apply", str(plan), *ports, *token_of(folder)], watched, folder)
            time.sleep(1.0)
        finally:
            network.send_signal(signal.SIGINT)
    return hops_in(seen)


def token_of(folder: Path) -> list[str]:
    return ["--data", str(folder / "net")] if (folder / "net" / "admin.token").exists() else []


def run(words: list[str], environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *words],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def wait_until_ready(limit_s: float = 300.0) -> None:
    until_s = time.monotonic() + limit_s
    for port in range(PORT + 1000, PORT + 1000 + NODES):
        while not is_ready(port):
            if time.monotonic() > until_s:
                raise SystemExit("the network did not start")
            time.sleep(0.2)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            return bool(json.load(answer)["ready"])
    except OSError:
        return False


def hops_in(seen: Path) -> list[Hop]:
    """Of all processes, by time."""
    lines = [line.split("\t") for file in seen.iterdir() for line in file.read_text().splitlines()]
    hops = dict.fromkeys(Hop(file, function) for _, file, function in sorted(lines, key=lambda words: float(words[0])))
    return list(hops)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(coterie.__file__).parents[1])
    parser.add_argument("--spark", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = walk_of_a_row(asked.source.resolve(), Path(name), asked.spark)
    print(in_short(found), *(f"  {hop.file} {hop.function}" for hop in found), sep="\n")  # noqa: T201
