"""What a reader of the bills should know about the log they were made from, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from coterie.pipeline.files import EMPTY_FILE, IN_ONE_PIECE, UNREADABLE

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def remarks(facts: Mapping[str, Any]) -> list[str]:
    """From the facts of `build_workloads`; nothing where there is nothing to remark."""
    told = []
    if facts["is_rate_assumed"] and facts["has_publications"]:
        told.append("Publications carry no times (--map time=COLUMN): they are ASSUMED to be one hour of traffic.")
    if facts["times_set_aside"]:
        told.append(_strays(facts))
    if facts["filters"]:
        told.append(_filters(facts))
    if facts["events_on_topics_nobody_wants"]:
        rate = facts["events_on_topics_nobody_wants"] * 3600
        told.append(f"{rate:,.0f} publications an hour are on topics that nobody wants: they are left out.")
    if facts["publishers_per_topic"]:
        busiest = facts["publishers_per_topic"]
        told.append(
            f"Publishers are many: the {busiest:,} busiest of each topic are kept, and they carry all its events."
        )
    return told


def _strays(facts: Mapping[str, Any]) -> str:
    first, last = (_day(facts[f"times_set_aside_{end}_s"]) for end in ("first", "last"))
    count = facts["times_set_aside"]
    rows = "1 row has a time" if count == 1 else f"{count:,} rows have times"
    when = first if first == last else f"{first} to {last}"
    return f"{rows} far from all others ({when}): left out."


def _day(time_s: float) -> str:
    try:
        return (EPOCH + timedelta(seconds=time_s)).date().isoformat()
    except OverflowError:
        return f"{time_s:g} s after 1970"


def _filters(facts: Mapping[str, Any]) -> str:
    shared = f", {facts['shared_filters']:,} of them shared," if facts["shared_filters"] else ""
    without = facts["filters_without_topics"]
    idle = f"; {without:,} of them match nothing that is published" if without else ""
    return f"{facts['filters']:,} filters{shared} match {facts['topics']:,} topics{idle}."


def file_remarks(table: str, account: Mapping[str, Any]) -> list[str]:
    """Which files of a table could not be read, or not to their ends, and which kept one task busy."""
    files = [file for file in account.get("files", ()) if file["note"] not in ("", EMPTY_FILE)]
    unread = [file for file in files if file["note"].startswith(UNREADABLE)]
    whole = [file for file in files if file["note"].startswith(IN_ONE_PIECE)]
    torn = [file for file in files if file not in unread and file not in whole]
    if any("torn here" in reason for reason in account["reasons"]):
        torn = []  # it is told with the rows that were set aside
    told = [(unread, "left out: "), (torn, "read up to a damaged spot: "), (whole, "")]
    of = f"of {account.get('file_count', len(account.get('files', ()))):,} files"
    return [f"{table}: {len(found):,} {of} {words}{_first_note(found)}" for found, words in told if found]


def _first_note(files: list[Mapping[str, Any]]) -> str:
    note, path = files[0]["note"].removeprefix(f"{UNREADABLE}: "), files[0]["path"]
    return f"{note} ({path}{', ...' if len(files) > 1 else ''})"
