"""A log of which nothing can be used ends the run with one sentence that says why and what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.errors import InputError, RunError
from coterie.pipeline.job import Request, tables_step
from coterie.pipeline.latesession import LateSession
from coterie.pipeline.mapping import Source
from coterie.pipeline.steps import run_steps


def never(master: str) -> Any:
    raise RunError("a small log needs no Spark")


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("empty.csv", b"", "not one row was found"),
        ("header.csv", b"subscriber,topic\n", "not one row was found"),
        ("junk.parquet", bytes(range(256)) * 9, "unreadable: Parquet magic bytes not found"),
        ("junk.csv", b"\x80\x81\r\x00\x7f" * 99, "unreadable: it does not begin with a line of text"),
        ("noise.csv", b"PK\x03\x04\x00 a,b\nc,d\n", "unreadable: it does not begin with a line of text"),
        ("mac.csv", b"subscriber,topic\ra,b\rc,d\r", "unreadable: its lines end with CR alone; save it with LF"),
        ("latin.csv", b"subscriber,topic\na,caf\xe9\nb,caf\xe9\n", "in a file for --mapping: encoding"),
        ("wide.csv", "subscriber,topic\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        ("cut.json", b'[{"subscriber": "a", "topic": "b"}, {"subsc', "the row of subscriptions was set aside: the"),
        ("times.csv", b"subscriber,topic,since\na,b,soon\nc,d,later\n", "for example --time-unit"),
        ("names.csv", b"user,page\na,b\nc,d\n", "name yours with --map"),
    ],
)  # fmt: skip
def test_a_log_without_a_good_row(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(data)
    request = Request("log", sources=(Source((str(tmp_path / name),), "subscriptions"),))
    with pytest.raises(InputError) as found:
        run_steps([tables_step(LateSession(opened=never, is_small=True), request)], tmp_path / "work")
    assert told in str(found.value)
    assert "defect" not in str(found.value)
