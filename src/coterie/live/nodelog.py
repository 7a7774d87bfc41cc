"""The log of a node, for people or for machines: to standard output, or to a file that is turned over."""

from __future__ import annotations

import sys
import time
from typing import IO

import msgspec

from coterie.errors import ConfigError
from coterie.live.config import NodeConfig


class NodeLog:
    """A line a call. Processes of one machine write to files of their own."""

    def __init__(self, config: NodeConfig) -> None:
        node, process = config.node, config.process
        self._is_json, self._name = node.log_format == "json", config.name
        self._bytes_max, self._files_max = node.log_bytes_max, node.log_files_max
        self._file: IO[bytes] | None = None
        if node.log_file:
            name = node.log_file if process is None else f"{node.log_file}-{process.number}"
            self._path = config.path(name)
            self._file = self._opened()

    def _opened(self) -> IO[bytes]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return open(self._path, "ab")
        except OSError as error:
            raise ConfigError(
                "node.log_file", str(self._path), f"a file that can be written: {error.strerror}"
            ) from None

    def __call__(self, text: str) -> None:
        if self._is_json:
            line = msgspec.json.encode({"t": round(time.time(), 3), "node": self._name, "text": text}) + b"\n"
        else:
            line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n".encode()
        if self._file is None:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            return
        if self._file.tell() + len(line) > self._bytes_max:
            self._turn_over()
        self._file.write(line)
        self._file.flush()

    def _turn_over(self) -> None:
        assert self._file is not None
        self._file.close()
        for number in range(self._files_max - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        if self._files_max == 1:
            self._path.unlink()
        self._file = self._opened()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
