"""Text files in blocks of whole rows, however they are cut into chunks."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from coterie.pipeline import files, lines, reading
from coterie.pipeline.mapping import Source

TEXT = (
    'user,page,t\n"o\'hara\n\nann",news,1\nbob,"a ""b""\n,c",2\ncid,5" disk,3\n'
    'dan,p,4\neve,"x\ny",5\nfay,"never closed,6\ngus,q,7\n'
)
ROWS = [
    (1, "user,page,t"),
    (2, '"o\'hara\n\nann",news,1'),
    (5, 'bob,"a ""b""\n,c",2'),
    (7, 'cid,5" disk,3'),
    (8, "dan,p,4"),
    (9, 'eve,"x\ny",5'),
    (11, 'fay,"never closed,6'),
    (12, "gus,q,7"),
]


def rows_of(path: Path) -> list[tuple[int, str]]:
    file = files.look_into(str(path), Source((str(path),)))
    found, line = [], 1
    for block in lines.blocks_of(file, 0, None):
        assert block.data.endswith(b"\n")
        rows = lines.rows_of(block, line, file, "utf-8")
        found += list(zip(rows["line"].to_pylist(), rows["text"].to_pylist(), strict=True))
        line += block.lines
    return found


@pytest.mark.parametrize("chunk_bytes", [1 << 22, 40, 16, 7])
def test_a_quoted_line_break_does_not_end_a_row_wherever_chunks_end(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk_bytes)
    (tmp_path / "in.csv").write_text(TEXT)
    header = files.InputFile(str(tmp_path / "in.csv"), "csv", columns=("user", "page", "t"))
    monkeypatch.setattr(files, "look_into", lambda path, source: header)
    assert rows_of(tmp_path / "in.csv") == ROWS


def test_a_file_with_such_breaks_is_read_in_one_piece(tmp_path):
    for name, text in (("broken.csv", TEXT), ("plain.csv", 'user,page\nann,"a, b"\n')):
        (tmp_path / name).write_text(text)
        found = files.look_into(str(tmp_path / name), Source((name,)))
        assert found.has_breaks == (name == "broken.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_the_mark_at_the_beginning_is_taken_off_whole_and_nothing_else(encoding):
    told = "\u00bb\u00bf \u00ef" if encoding == "latin-1" else "\u00bb \u043b\u043f\u043d"
    data = files.BOM + f"{told},a\r\n".encode(encoding) + f"b,{told}\n".encode(encoding)
    found = lines.rows_of(lines.FileLines(data, 2), 1, files.InputFile("in.csv", "csv"), encoding)
    assert found["text"].to_pylist() == [f"{told},a", f"b,{told}"]
    assert not any(found["is_garbled"].to_pylist())


def test_garbled_lines_are_told_apart():
    data = "\u043b\u043f\n".encode() + b"caf\xe9\r\n" + "\u043d\u043f\n".encode()
    found = lines.rows_of(lines.FileLines(data, 3), 1, files.InputFile("in.csv", "csv"), "utf-8")
    assert found["text"].to_pylist() == ["\u043b\u043f", "caf\\xe9", "\u043d\u043f"]
    assert found["is_garbled"].to_pylist() == [False, True, False]


def test_the_elements_of_an_array_are_lines(tmp_path):
    (tmp_path / "in.json").write_text('\n[ {"a":\n 1},\n\n2, "x\\ny"]')
    assert rows_of(tmp_path / "in.json") == [(1, '{"a":  1}'), (2, "2"), (3, '"x\\ny"')]


HEADS = [
    *["subscriber,topic,since\n"] * 5,
    "subscriber,topic,since\r\n",
    "\ufeffsubscriber,topic,since\n",
    "user,topic\n",
]
CSV = ["u1,t1,100\n", "u2,,5\n", "\n", "  \n", '"u,4",t4,7\n', '"u5\nx",t,8\n', "u6,t6,soon\n", "u7\n", 'u9,"t9,1\n']
JSON = ['{"subscriber": "a", "topic": "t"}\n', '{"subscriber": "b", "topic": 7}\n', "{broken\n", "[1]\n", "\n"]


@pytest.mark.parametrize("seed", range(8))
def test_tiny_files_that_are_read_together_say_what_each_says_alone(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(reading, "TOGETHER", 7)
    draw = random.Random(seed)
    for number in range(60):
        name, head, some = draw.choice([("csv", draw.choice(HEADS), CSV), ("jsonl", "", JSON)])
        text = (head + "".join(draw.choices(some, k=draw.randrange(6)))).encode()
        text += b"u3,t\xff,5\n" * draw.choice([0, 0, 0, 1])
        (tmp_path / f"{len(head)}-{number:02d}.{name}").write_bytes(text[: -draw.choice([0, 0, 1]) or None])
    source = Source((str(tmp_path),))
    found = [file for file in files.find_files(source) if file.format]
    splits = [reading.Split(number, file, number, source) for number, file in enumerate(found)]
    alone = [table for split in splits for table in reading.read_split(split, 1 << 60)]
    together = list(reading.read_splits(splits, 1 << 60))
    assert len(together) < len(alone)
    order = [("origin", "ascending"), ("fault", "ascending"), ("subscriber", "ascending")]
    told, expected = (pa.concat_tables(tables).sort_by(order).to_pylist() for tables in (together, alone))
    assert told == expected
