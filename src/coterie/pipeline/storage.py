"""Files by URI: a local folder is a plain Path, anything else (s3a, gs, abfs, hdfs) a `Remote` that reads like one.

Spark reads and writes tables at the same URIs through Hadoop's file systems; what is small, or written by tasks
themselves, goes through pyarrow's. An object appears whole when its writer closes it, so where a store cannot rename,
a small object written last says that all others are there.
"""

from __future__ import annotations

import fnmatch
import io
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import ConfigError, InputError
from coterie.writing import replacing

SCHEMES = ("s3a", "s3", "gs", "abfs", "abfss", "hdfs")
HADOOP = "spark.hadoop."
KEPT_SETTINGS = ("fs.s3a.", "fs.gs.", "fs.azure.", "fs.defaultFS")
Options = tuple[tuple[str, str], ...]
COPIED_BYTES = 1 << 22
# Names repeat: past Parquet's own limit of 1 MB a dictionary of them would be given up in the middle of a file.
PACKING: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "dictionary_pagesize_limit": 1 << 26}


class FileStat(NamedTuple):
    """Of a file, named as `os.stat` names it, with the etag where a store's listing has one (pipeline/etags)."""

    st_size: int
    st_mtime_ns: int
    etag: str = ""


@dataclass(frozen=True, order=True)
class Remote:
    """A folder or file in a store that is no disk of this machine; travels to tasks with what it takes to get there."""

    uri: str
    options: Options = ()

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.uri.rstrip('/')}/{name}", self.options)

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def suffixes(self) -> list[str]:
        return Path(self.name).suffixes

    @property
    def parent(self) -> Remote:
        return Remote(self.uri.rstrip("/").rpartition("/")[0], self.options)

    def with_name(self, name: str) -> Remote:
        return self.parent / name

    def relative_to(self, other: Remote) -> Path:
        return Path(self.uri.removeprefix(other.uri.rstrip("/") + "/"))

    def resolve(self) -> Remote:
        return self

    @property
    def known_options(self) -> dict[str, str]:
        return dict(self.options or _known["options"])

    @property
    def filesystem(self) -> Any:
        return _file_system(self.uri.partition("://")[0], self._host, self.options or _known["options"])

    def __reduce__(self) -> tuple[type[Remote], tuple[str, Options]]:
        """Who gets it knows how to get there, also if that was said after it was made."""
        return Remote, (self.uri, self.options or _known["options"])

    @property
    def key(self) -> str:
        """What pyarrow calls the path."""
        scheme, _, rest = self.uri.partition("://")
        if scheme == "hdfs":
            return "/" + rest.partition("/")[2]
        if scheme in ("abfs", "abfss"):
            host, _, path = rest.partition("/")
            return f"{host.partition('@')[0]}/{path}"
        return rest.rstrip("/")

    @property
    def _host(self) -> str:
        return self.uri.partition("://")[2].partition("/")[0]

    def _info(self) -> Any:
        with told(str(self)):
            return self.filesystem.get_file_info(self.key)

    def exists(self) -> bool:
        from pyarrow.fs import FileType

        return bool(self._info().type != FileType.NotFound)

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        from pyarrow.fs import FileType

        return bool(self._info().type == FileType.Directory)

    def stat(self) -> FileStat:
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(self.uri)
        return FileStat(int(info.size), int(info.mtime_ns or 0))

    def _listed(self, recursive: bool) -> Iterator[tuple[Remote, Any]]:
        from pyarrow.fs import FileSelector

        with told(str(self)):
            found = self.filesystem.get_file_info(FileSelector(self.key, allow_not_found=True, recursive=recursive))
        start = len(self.key.rstrip("/")) + 1
        for info in sorted(found, key=lambda one: one.path):
            yield self / info.path[start:].rstrip("/"), info

    def iterdir(self) -> Iterator[Remote]:
        return (one for one, _ in self._listed(recursive=False))

    def glob(self, pattern: str) -> Iterator[Remote]:
        depth = pattern.count("/")
        for one, _ in self._listed(recursive=depth > 0):
            inside = str(one.relative_to(self))
            if inside.count("/") == depth and fnmatch.fnmatchcase(inside, pattern):
                yield one

    def rglob(self, pattern: str) -> Iterator[Remote]:
        return (one for one, _ in self._listed(recursive=True) if fnmatch.fnmatchcase(one.name, pattern))

    def files(self, is_recursive: bool = True) -> dict[str, FileStat]:
        """Everything below (or just here), by its path from here: one listing, no look into any file."""
        return {
            str(one.relative_to(self)): FileStat(int(info.size), int(info.mtime_ns or 0))
            for one, info in self._listed(recursive=is_recursive)
            if info.is_file
        }

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: folders of object stores are names."""
        if self.uri.startswith("hdfs"):
            self.filesystem.create_dir(self.key)

    def read_bytes(self) -> bytes:
        with told(str(self)), self.filesystem.open_input_stream(self.key) as stream:
            return bytes(stream.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes | memoryview) -> None:
        with told(str(self)), self.filesystem.open_output_stream(self.key) as stream:
            stream.write(data)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def touch(self) -> None:
        self.write_bytes(b"")

    def unlink(self, missing_ok: bool = False) -> None:
        with told(str(self)):
            self.filesystem.delete_file(self.key)

    def open_file(self) -> Any:
        """For reading here and there."""
        with told(str(self)):
            return self.filesystem.open_input_file(self.key)


Folder = Path | Remote


@contextmanager
def told(where: str) -> Iterator[None]:
    """Errors of a store in one sentence; a file that is not there stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(where, f"the store does not answer as it should: {first[:300]}") from error


def is_remote(text: str) -> bool:
    return "://" in text and not text.startswith("file://")


_known: dict[str, Options] = {"options": ()}


def use_settings(settings: Mapping[str, str]) -> None:
    """How stores are reached from now on, in Spark's words (`spark.hadoop.fs.*`); the environment counts besides."""
    found = {key.removeprefix(HADOOP): value for key, value in settings.items() if key.startswith(HADOOP)}
    told = {key: value for key, value in found.items() if key.startswith(KEPT_SETTINGS)}
    _known["options"] = tuple(sorted((dict(_known["options"]) | told).items()))


def folder_of(text: str | Folder) -> Folder:
    """A path or URI; how its store is reached follows from `use_settings` and the environment."""
    if isinstance(text, Remote):
        return text
    words = str(text)
    if not is_remote(words):
        return Path(words.removeprefix("file://") if words.startswith("file://") else words)
    if words.partition("://")[0] not in SCHEMES:
        raise ConfigError("location", words, f"a path, or a URI with {', '.join(SCHEMES)} or file")
    return Remote(words.rstrip("/"), _known["options"])


@lru_cache(maxsize=32)
def _file_system(scheme: str, host: str, options: Options) -> Any:
    from pyarrow import fs

    settings = dict(options)
    if scheme in ("s3a", "s3"):
        return fs.S3FileSystem(**s3_settings(settings))
    if scheme == "gs":
        return fs.GcsFileSystem()
    if scheme in ("abfs", "abfss"):
        account = host.partition("@")[2].partition(".")[0]
        return fs.AzureFileSystem(account, settings.get(f"fs.azure.account.key.{host.partition('@')[2]}"))
    name, _, port = host.partition(":")
    try:
        return fs.HadoopFileSystem(name or "default", int(port or 0))
    except OSError as error:
        reason = "libhdfs, with HADOOP_HOME and CLASSPATH set on driver and executors (hadoop classpath --glob)"
        raise ConfigError("location", f"hdfs://{host}", "a store that answers", do=f"it needs {reason}") from error


def s3_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Hadoop's settings in pyarrow's words; without keys both look into the environment and the machine's role."""
    known: dict[str, Any] = {"allow_delayed_open": True}  # what is small is one request instead of three
    if endpoint := settings.get("fs.s3a.endpoint", ""):
        known["scheme"] = "http" if endpoint.startswith("http://") else "https"
        known["endpoint_override"] = endpoint.partition("://")[2] or endpoint
        if settings.get("fs.s3a.connection.ssl.enabled") == "false":
            known["scheme"] = "http"
    for ours, theirs in (("access_key", "access.key"), ("secret_key", "secret.key"), ("region", "endpoint.region")):
        if value := settings.get(f"fs.s3a.{theirs}"):
            known[ours] = value
    return known


# --- the few things that are done alike wherever a file is ---


def read_rows(path: str | Folder, columns: list[str] | None = None, **how: Any) -> pa.Table:
    if isinstance(path, Remote):
        with told(str(path)):
            return pq.read_table(path.key, columns=columns, filesystem=path.filesystem, **how)
    return pq.read_table(path, columns=columns, **how)


def write_rows(table: pa.Table, path: Folder) -> None:
    """A Parquet file that appears whole or not at all."""
    if isinstance(path, Remote):
        with told(str(path)):
            pq.write_table(table, path.key, filesystem=path.filesystem, **PACKING)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        pq.write_table(table, unfinished, **PACKING)


def copy_file(source: Folder, target: Folder) -> None:
    """In pieces, so that a large file needs no large memory."""
    if isinstance(target, Remote):
        with told(str(target)), target.filesystem.open_output_stream(target.key) as stream, open_bytes(source) as file:
            shutil.copyfileobj(file, stream, COPIED_BYTES)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as unfinished, open_bytes(source) as file, open(unfinished, "wb") as written:
        shutil.copyfileobj(file, written, COPIED_BYTES)


def write_whole(path: Folder, data: bytes | memoryview) -> None:
    """A small file that appears whole or not at all, and stays after a crash."""
    if isinstance(path, Remote):
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        unfinished.write_bytes(data)


def open_bytes(path: Folder) -> Any:
    """A file to read from as bytes, here and there."""
    return path.open_file() if isinstance(path, Remote) else open(path, "rb")


def whole_file(path: Folder) -> io.BytesIO:
    return io.BytesIO(path.read_bytes())


def remove_all(folder: Folder) -> None:
    """A folder and what is in it; nothing if it is not there."""
    if isinstance(folder, Remote):
        with told(str(folder)):
            if folder.exists():
                folder.filesystem.delete_dir(folder.key)
        return
    shutil.rmtree(folder, ignore_errors=True)


def files_below(folder: Folder) -> dict[str, FileStat]:
    """Every file below a folder with size and time, from listings alone."""
    if isinstance(folder, Remote):
        return folder.files()
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = FileStat(status.st_size, status.st_mtime_ns)
    return found
