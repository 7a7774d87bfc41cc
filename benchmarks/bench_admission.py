"""Admission by interest, live: 8 nodes, 500 real clients that come and go, against hash in the same run.

Every row is counted by the nodes and must equal what the planner's kernel says of the same course, round by round and
seat by seat; if it does not, the benchmark fails.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.coming_and_going import Copying, draw_course, measured, predicted

from coterie.live.node import loop_factory

NODES, CLIENTS, ROUNDS, TOPICS, GROUPS, SEED = 8, 500, 4, 400, 40, 1


def main() -> None:
    course = draw_course(NODES, CLIENTS, ROUNDS, TOPICS, GROUPS, SEED)
    came = sum(len(one.coming) for one in course)
    left = sum(len(one.leaving) for one in course)
    print(f"{NODES} nodes, {CLIENTS} clients at a time ({came} came, {left} left), {TOPICS} topics, mesh")
    found: list[Copying] = []
    print("| clients go | copies | delivered | copies per delivered | predicted | fullest node |")
    print("|---|---|---|---|---|---|")
    for name, by_interest in (("by hash", False), ("by interest", True)):
        with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=loop_factory()) as runner:
            counted = runner.run(measured(course, Path(folder), NODES, by_interest))
        expected = predicted(course, NODES, TOPICS, by_interest)
        print(
            f"| {name} | {sum(counted.copies)} | {sum(counted.deliveries)} | {counted.per_delivered:.3f} "
            f"| {expected.per_delivered:.3f} | {counted.fullest(NODES):.2f} |"
        )
        if counted != expected:
            raise SystemExit(f"predicted {expected.copies}, counted {counted.copies}: not equal")
        found.append(counted)
    saved = 1 - found[1].per_delivered / found[0].per_delivered
    print(f"by interest: {100 * saved:.0f} % fewer copies between nodes than by hash, nobody sent twice")


if __name__ == "__main__":
    main()
