"""Ready-made readers: real traces and journals, recognised by name or header, as canonical tables."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from coterie.errors import ConfigError, InputError
from coterie.model.relation import Relation
from coterie.pipeline.deriving import from_positions
from coterie.pipeline.files import look_into
from coterie.pipeline.ingest import Account, ingest, write_table
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.storage import Folder, remove_all
from coterie.pipeline.tasks import map_array, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Accounts = dict[str, Account]


@dataclass(frozen=True)
class Choices:
    """What the readers that have to draw or cut something may be told."""

    seed: int = 1
    subscribers: int = 1000  # machines drawn for the package trace
    programs: float = 8.0  # programs a machine's owner picks, on average; the rest comes with them
    cell_degrees: float = 1.0  # edge of a grid cell
    strict: bool = False
    now_s: float | None = None

    def __post_init__(self) -> None:
        if self.subscribers < 1:
            raise ConfigError("subscribers", self.subscribers, "at least 1")
        if self.cell_degrees <= 0:
            raise ConfigError("cell_degrees", self.cell_degrees, "a positive number of degrees")


DEFAULT_CHOICES = Choices()
Reader = Callable[["SparkSession", Path, Folder, Choices], Accounts]


@dataclass(frozen=True)
class InputShape:
    """One known kind of input: the start of its file names, its header, and its reader."""

    name: str
    says: str
    prefix: str
    header: tuple[str, ...]
    read: Reader


def shape_of(path: Path) -> InputShape | None:
    """The shape of a file or folder, by name and then by header; None if it is an ordinary file."""
    if path.is_dir():
        return JOURNAL if any(path.glob("*/*.jsonl")) else None
    for shape in SHAPES:
        if path.name.startswith(shape.prefix):
            return shape
    if not path.is_file():
        return None
    columns = look_into(str(path), Source((str(path),))).columns
    return next((shape for shape in SHAPES if shape.header and shape.header == columns), None)


def find_trace(name: str, folder: Path | None = None) -> Path:
    """The first file of a trace by the shape's name; ConfigError lists the names."""
    shape = next((shape for shape in SHAPES if shape.name == name), None)
    if shape is None:
        raise ConfigError("trace", name, f"one of {', '.join(shape.name for shape in SHAPES)}")
    from coterie.workloads.traces import FOLDER_VARIABLE, traces_folder  # they come with all generators

    home = traces_folder() if folder is None else folder
    found = [] if home is None else sorted(home.glob(f"{shape.prefix}*"))
    if not found:
        told = f"no file of trace {name} here: set {FOLDER_VARIABLE} to the folder that has {shape.prefix}*"
        raise InputError(str(home or name), told)
    return found[0]


def read_shape(spark: SparkSession, path: Path, out: Folder, choices: Choices = DEFAULT_CHOICES) -> Accounts:
    """Canonical tables of a known trace or journal in out/<table>/, with one account per table."""
    shape = shape_of(path)
    if shape is None:
        known = ", ".join(shape.name for shape in (*SHAPES, JOURNAL))
        raise InputError(str(path), f"not one of the known shapes ({known}): give a column mapping")
    return shape.read(spark, path, out, choices)


def _read_edits(columns: Mapping[str, str], time_unit: str) -> Reader:
    """Edits: the editor publishes to the page, and follows it from the first edit on."""

    def read(spark: SparkSession, path: Path, out: Folder, choices: Choices) -> Accounts:
        from pyspark.sql import functions as sf

        # Two equal edits in one second are two edits.
        source = Source((str(path),), "publications", columns, time_unit=time_unit, topics="plain")
        accounts = {"publications": _ingest(spark, source, out, choices)}
        edits = spark.read.parquet(str(out / "publications"))
        followed = edits.groupBy(sf.col("publisher").alias("subscriber"), "topic").agg(sf.min("time").alias("since"))
        followed = followed.withColumn("until", sf.lit(None).cast("timestamp"))
        return accounts | {"subscriptions": write_table(followed, "subscriptions", out)}

    return read


def _read_check_ins(shift_s: int) -> Reader:
    """Check-ins: a user wants the grid cell where it is, from the check-in that enters to the one that leaves."""

    def read(spark: SparkSession, path: Path, out: Folder, choices: Choices) -> Accounts:
        columns = {"subscriber": "user", "time": "unix_time", "place": "poi"}
        source = Source((str(path),), "positions", columns, time_unit="s", duplicates="keep")
        accounts = {"positions": _ingest(spark, source, out, choices)}
        return accounts | from_positions(spark, out, choices.cell_degrees, shift_s)

    return read


def _read_packages(spark: SparkSession, path: Path, out: Folder, choices: Choices) -> Accounts:
    """Packages: machines follow the source packages of everything installed on them; uploads are publications.

    A machine's owner picks programs (popularity by Zipf's law over a drawn order); what they depend on comes with them.
    """
    folder = path.parent
    packages = _read_csv(folder / "debian12_packages.csv.gz")
    edges = _read_csv(folder / "debian12_depends.csv.gz")
    count = len(packages)
    if packages["id"].to_pylist() != list(range(count)):
        raise InputError(str(folder / "debian12_packages.csv.gz"), "ids must count up from 0")
    needs = Relation.from_pairs(edges["package_id"].to_numpy(), edges["depends_on_id"].to_numpy(), count, count)
    arrays = out / "arrays"
    save_array(needs.indptr, arrays, "indptr")
    save_array(needs.columns, arrays, "columns")
    jobs = [(first, min(first + 250, choices.subscribers)) for first in range(0, choices.subscribers, 250)]
    work = _draw_machines(arrays, packages["source"].to_pylist(), choices)
    schema = "subscriber string, topic string, since timestamp, until timestamp"
    installed = run_tasks(spark, jobs, work, schema)
    remove_all(arrays)
    columns = {"publisher": "uploader_id", "topic": "source", "time": "unix_time", "bytes": "changelog_bytes"}
    uploads = Source((str(folder / "debian12_uploads.csv.gz"),), "publications", columns, time_unit="s", topics="plain")
    return {
        "subscriptions": write_table(spark.createDataFrame(installed), "subscriptions", out),
        "publications": _ingest(spark, uploads, out, choices),
    }


def _draw_machines(arrays: Folder, sources: list[str], choices: Choices) -> Callable[[tuple[int, int]], pa.Table]:
    def work(job: tuple[int, int]) -> pa.Table:
        indptr, columns = map_array(arrays, "indptr"), map_array(arrays, "columns")
        count = len(indptr) - 1
        order = np.random.default_rng(choices.seed).permutation(count)
        popularity = 1.0 / np.arange(1, count + 1)
        popularity /= popularity.sum()
        machines: list[str] = []
        followed: list[str] = []
        for machine in range(*job):
            draw = np.random.default_rng((choices.seed, machine))
            picks = order[draw.choice(count, 1 + draw.poisson(choices.programs - 1), p=popularity)]
            topics = sorted({sources[package] for package in closure(indptr, columns, picks)})
            machines += [f"machine-{machine:06d}"] * len(topics)
            followed += topics
        moments = pa.nulls(len(machines), pa.timestamp("us", "UTC"))
        return pa.table(
            {"subscriber": machines, "topic": followed, "since": moments, "until": moments},
            schema=pa.schema(
                [("subscriber", pa.string()), ("topic", pa.string()), ("since", moments.type), ("until", moments.type)]
            ),
        )

    return work


def closure(indptr: np.ndarray, columns: np.ndarray, start: np.ndarray) -> list[int]:
    """Everything reachable from `start`, itself included, ascending."""
    seen = np.zeros(len(indptr) - 1, bool)
    frontier = np.unique(start)
    while len(frontier):
        seen[frontier] = True
        following = np.concatenate([columns[indptr[row] : indptr[row + 1]] for row in frontier])
        frontier = np.unique(following[~seen[following]])
    reached: list[int] = np.flatnonzero(seen).tolist()
    return reached


def _read_library(spark: SparkSession, path: Path, out: Folder, choices: Choices) -> Accounts:
    """A reference library: users follow the articles they keep; articles are documents of words."""
    folder = path.parent
    columns = {"subscriber": "user", "topic": "item"}
    kept = Source((str(folder / "citeulike_t_user_item.csv.gz"),), "subscriptions", columns, topics="plain")
    accounts = {"subscriptions": _ingest(spark, kept, out, choices)}
    words = _read_csv(folder / "citeulike_t_vocab.csv.gz")["name"].to_pylist()
    documents = _bags_of_words(folder / "citeulike_t_bow.txt.gz", words)
    return accounts | {"documents": write_table(spark.createDataFrame(documents), "documents", out)}


def _bags_of_words(path: Path, words: list[str]) -> pa.Table:
    """Line n (from 0) is document n: a count, then word:times as often as the count says."""
    keywords: list[list[str]] = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            count, *pairs = line.split()
            try:
                listed = [words[int(pair.partition(":")[0])] for pair in pairs]
            except (ValueError, IndexError):
                raise InputError(str(path), "not a line of word:times pairs over the vocabulary", number) from None
            if len(listed) != int(count):
                raise InputError(str(path), f"{len(listed)} words where {count} are announced", number)
            keywords.append(listed)
    kinds = pa.nulls(len(keywords), pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "document": [str(number) for number in range(len(keywords))],
            "publisher": pa.nulls(len(keywords), pa.string()),
            "time": kinds,
            "keywords": pa.array(keywords, pa.list_(pa.string())),
        }
    )


def _read_live_journal(spark: SparkSession, path: Path, out: Folder, choices: Choices) -> Accounts:
    # Loads pyspark, which who plans what is in memory does without.
    from coterie.pipeline.journal import attachments_of, publications_of, read_journal, subscriptions_of

    # Three tables are made of the lines, each counted and then written: as text they would be parsed six times.
    lines = out / "lines"
    read_journal(spark, path).write.mode("overwrite").parquet(str(lines))
    events = spark.read.parquet(str(lines))
    nodes = pa.table({"node": sorted(entry.name for entry in path.iterdir() if any(entry.glob("*.jsonl")))})
    for column in table_schema("nodes").arrow:
        if column.name not in nodes.column_names:
            nodes = nodes.append_column(column.name, pa.nulls(len(nodes), column.type))
    accounts = {
        "nodes": write_table(spark.createDataFrame(nodes), "nodes", out),
        "attachments": write_table(attachments_of(events), "attachments", out),
        "subscriptions": write_table(subscriptions_of(events), "subscriptions", out, topics="mqtt"),
        "publications": write_table(publications_of(events), "publications", out, keep_duplicates=True, topics="mqtt"),
    }
    remove_all(lines)
    return accounts


def _ingest(spark: SparkSession, source: Source, out: Folder, choices: Choices) -> Account:
    return ingest(spark, [source], out, strict=choices.strict, now_s=choices.now_s)


def _read_csv(path: Path) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    except (OSError, pa.ArrowException) as error:
        raise InputError(str(path), f"cannot be read: {str(error).splitlines()[0]}") from None


MONTH_HEADER = ("user", "page", "t_seconds")
DAY_COLUMNS = {"publisher": "user", "topic": "page", "time": "unix_time", "bytes": "added"}
CHECK_IN_HEADER = ("user", "unix_time", "lat", "lon", "poi")
SHAPES = (
    InputShape(
        "wiki-month",
        "edits of 1,000 pages over a month",
        "wiki_edits_1month",
        MONTH_HEADER,
        _read_edits({"publisher": "user", "topic": "page", "time": "t_seconds"}, "s"),
    ),
    InputShape(
        "wiki-day",
        "edits of 51 wikis over a day",
        "wiki_edits_24h_multilang",
        ("unix_time", "channel", "user", "namespace", "page", "robot", "anon", "country", "added", "deleted"),
        _read_edits(DAY_COLUMNS, "s"),
    ),
    InputShape("debian", "packages installed on machines, and their uploads", "debian12_", (), _read_packages),
    # This trace's clock is eight hours behind UTC.
    InputShape("gowalla", "check-ins world-wide", "checkins_gowalla", (), _read_check_ins(8 * 3600)),
    InputShape("foursquare", "check-ins in the US", "checkins_foursquare", CHECK_IN_HEADER, _read_check_ins(0)),
    InputShape(
        "citeulike", "articles kept by users, with their words", "citeulike_t_", ("user", "item"), _read_library
    ),
)
JOURNAL = InputShape("journal", "what live nodes wrote", "", (), _read_live_journal)
