"""Writes the log that tutorial and notebooks use: `python examples/make_log.py` makes subs.csv and pubs.csv again.

A bus company. 240 phones follow the stops of the one or two lines that their owners take; 24 buses say where they are.
People are drawn, from one seed; half of them come or go during the two hours, so that the second hour is not the first.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

LINES, STOPS, PEOPLE, BUSES_PER_LINE = 8, 10, 240, 3
BEGIN, HOURS = datetime(2026, 3, 2, 7, tzinfo=UTC), 2


def stamp(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=round(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def wishes(draw: Random) -> list[tuple[str, str, str, str]]:
    rows = []
    for person in range(PEOPLE):
        home = draw.randrange(LINES)
        lines = [home] if draw.random() < 0.7 else [home, draw.randrange(LINES)]
        span = HOURS * 3600
        since = stamp(draw.uniform(0, 0.9 * span)) if draw.random() < 0.25 else ""
        until = stamp(draw.uniform(0.1 * span, span)) if not since and draw.random() < 0.25 else ""
        stops = {(line, draw.randrange(STOPS)) for line in lines for _ in range(4)}
        topics = [f"bus/{line}/stop/{stop}" for line, stop in sorted(stops)]
        if person % 40 == 0:
            topics = [f"bus/{home}/#"]  # a display at the terminus wants the whole line
        rows += [(f"phone-{person:03d}", topic, since, until) for topic in topics]
    return rows


def reports(draw: Random) -> list[tuple[str, str, str, int]]:
    rows = []
    for line in range(LINES):
        for bus in range(BUSES_PER_LINE):
            at, stop = draw.uniform(0, 60), draw.randrange(STOPS)
            while at < HOURS * 3600:
                topic = f"bus/{line}/stop/{stop % STOPS}"
                rows.append((stamp(at), f"bus-{line}-{bus}", topic, draw.randrange(120, 360)))
                at, stop = at + draw.uniform(30, 90), stop + 1
    return sorted(rows)


def write(name: str, header: tuple[str, ...], rows: list) -> None:
    with (Path(__file__).parent / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    draw = Random(7)
    write("subs.csv", ("user", "topic", "since", "until"), wishes(draw))
    write("pubs.csv", ("time", "publisher", "topic", "bytes"), reports(draw))
