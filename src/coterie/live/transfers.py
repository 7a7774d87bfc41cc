"""Clients' sockets on their way from one process of the machine to another (`broker.transfers`).

Each process has a Unix socket in the data folder for them. What comes there is a number and a file, by SCM_RIGHTS: the
same connection, with whatever was not read from it yet. The sender closes its own file then, which ends nothing.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from coterie.live.clients import ClientSocket
from coterie.live.config import NodeConfig
from coterie.live.driver import Driver, Line
from coterie.live.processes import socket_of

AGAIN_S, AGAIN_MAX = 0.005, 200  # until the other process has room, or what was written has left
AT_ONCE = 16
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # not every system has it
FILE_BYTES = 4  # a number of a file, as the system writes it


class SocketTransfers:
    """See the module. `path_of` names a process's socket by its node; empty: it has none."""

    def __init__(
        self, node: int, path_of: Callable[[int], str], driver: Driver,
        new_line: Callable[[tuple[int, int]], asyncio.Protocol],
    ) -> None:  # fmt: skip
        self.path = path_of(node)
        self._node, self._path_of, self._driver, self._new_line = node, path_of, driver, new_line
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def listen(self) -> None:
        if not self.path:
            return
        path = Path(self.path)
        path.unlink(missing_ok=True)  # of a life before
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._loop.add_reader(self._socket, self._on_readable)

    # --- out ---

    def send(self, line: Line, peer: int, number: int, tries: int = 0) -> None:
        """Give it away, or end it."""
        if not isinstance(line, ClientSocket) or (file := line.give()) is None:
            return
        if file >= 0:
            told = self._node.to_bytes(8, "little") + number.to_bytes(8, "little")
            try:
                given = socket.SOL_SOCKET, socket.SCM_RIGHTS, file.to_bytes(FILE_BYTES, sys.byteorder)
                self._socket.sendmsg([told], [given], 0, self._path_of(peer))
            except BlockingIOError:
                file = -1
            except OSError as error:
                self._driver.say(f"a client's socket could not be given to node {peer}: {error.strerror}")
        if file < 0 and tries < AGAIN_MAX:
            self._loop.call_later(AGAIN_S, self.send, line, peer, number, tries + 1)
        else:
            line.let_go()

    # --- in ---

    def _on_readable(self) -> None:
        for _ in range(AT_ONCE):
            try:
                told, given, _, _ = self._socket.recvmsg(16, socket.CMSG_SPACE(FILE_BYTES), CLOSE_ON_EXEC)
            except (BlockingIOError, InterruptedError):
                return
            for _, _, file in given:
                peer, number = int.from_bytes(told[:8], "little"), int.from_bytes(told[8:], "little")
                self._take(peer, number, int.from_bytes(file[:FILE_BYTES], sys.byteorder))

    def _take(self, peer: int, number: int, file: int) -> None:
        connection = socket.socket(fileno=file)
        connection.setblocking(False)
        landing = self._loop.connect_accepted_socket(lambda: self._new_line((peer, number)), connection)
        task: asyncio.Task[object] = self._loop.create_task(landing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        if self.path:
            self._loop.remove_reader(self._socket)
            Path(self.path).unlink(missing_ok=True)
        self._socket.close()


def transfers_of(
    config: NodeConfig, driver: Driver, new_line: Callable[[tuple[int, int]], asyncio.Protocol]
) -> SocketTransfers:  # fmt: skip
    """For this process; it gives nothing away where it has none beside it, or the sockets' names are too long."""
    made = SocketTransfers(config.node.id, partial(socket_of, config, kind="clients"), driver, new_line)
    driver.giver = made if driver.broker.siblings is not None and made.path else None
    return made
