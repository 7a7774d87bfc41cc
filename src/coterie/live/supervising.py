"""The parent of several node processes: starts them, starts them again, and answers for all on one admin port."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from coterie.errors import RunError
from coterie.live.admin import AdminInterface, NotNow
from coterie.live.config import NodeConfig
from coterie.live.guard import Guard
from coterie.live.metrics import exposition
from coterie.live.processes import count_of, process_config
from coterie.plans.admin import ask

AGAIN_S = 1.0
SOON_S = 5.0  # a process that ends so soon after its start would do so again
ADDED = ("uptime_seconds", "memory_bytes_max")


class Family:
    """See the module. `over` is set when all have ended, with the reason if it is none to be glad of."""

    def __init__(self, config: NodeConfig, command: Sequence[str], log: Callable[[str], None]) -> None:
        self._configs = [process_config(config, one) for one in range(count_of(config))]
        self._command, self._log = list(command), log
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._is_ending = False
        self.failure = ""
        self.token = self._configs[0].admin.token
        self.interface = AdminInterface(Guard(self.token, config.admin.hosts))
        for path in ("/topology", "/channels", "/overview", "/find", "/ledger", "/inspect", "/plan", "/placement"):
            self.interface.add("GET", path, partial(self._first, path))
        self.interface.add("GET", "/members", partial(self._first, "/members"))
        self.interface.add("GET", "/health", lambda query, body: self._health(), lambda query, body: self._in_short())
        self.interface.add("GET", "/ready", lambda query, body: self._ready(), lambda query, body: self._ready())
        self.interface.add("GET", "/totals", lambda query, body: self._totals())
        self.interface.add("GET", "/metrics", lambda query, body: self._metrics())
        self.interface.add("POST", "/reload", lambda query, body: self._each("/reload", "POST"))
        self.interface.add("POST", "/drain", lambda query, body: self._each("/drain", "POST")[self._configs[0].name])

    # --- one answer for all ---

    def _ask(self, config: NodeConfig, path: str, method: str = "GET") -> Any:
        return ask(config.admin.host, config.admin.port, path, self.token, method)

    def _each(self, path: str, method: str = "GET") -> dict[str, Any]:
        """By name, those that answer; the first one last, for it is the one that is looked at."""
        found = {config.name: self._ask(config, path, method) for config in reversed(self._configs)}
        return {name: said for name, said in reversed(found.items()) if said is not None}

    def _first(self, path: str, query: dict[str, str], body: bytes) -> Any:
        words = urlencode(query)
        found = self._ask(self._configs[0], f"{path}?{words}" if words else path)
        return NotNow({"error": "the first process does not answer"}) if found is None else found

    def _health(self) -> dict[str, Any]:
        each = self._each("/health")
        first = each.get(self._configs[0].name, {})
        ports = [one.admin.port for one in self._configs]
        return {**first, **self._in_short(each), "processes": each, "admin_ports": ports}

    def _in_short(self, each: dict[str, Any] | None = None) -> dict[str, Any]:
        each = self._each("/health") if each is None else each
        is_ready = len(each) == len(self._configs) and all(one["ready"] for one in each.values())
        return {"status": "ok", "ready": is_ready}

    def _ready(self) -> dict[str, Any] | NotNow:
        found = self._in_short()
        return found if found["ready"] else NotNow(found)

    def _metrics(self) -> str:
        return exposition(self._each("/totals"), self._each("/histograms"))

    def _totals(self) -> dict[str, float]:
        each = list(self._each("/totals").values())
        names = each[0] if each else {}
        return {name: (max if name in ADDED else sum)(one.get(name, 0.0) for one in each) for name in names}

    # --- the processes ---

    async def _live(self, process: int) -> None:
        """One of them, again and again, until it has left its network, or all are to end."""
        while not self._is_ending:
            began_s = time.monotonic()
            child = await asyncio.create_subprocess_exec(*self._command, "--process", str(process))
            self._children[process] = child
            code = await child.wait()
            del self._children[process]
            if self._is_ending or code == 0:
                return
            if code > 0 and time.monotonic() - began_s < SOON_S:
                self.failure = self.failure or f"process {process} ended with code {code} soon after its start"
                self.end()
                return
            self._log(f"process {process} ended ({code}); it is started again")
            await asyncio.sleep(AGAIN_S)

    def end(self) -> None:
        self._is_ending = True
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)

    def pass_on(self, number: int) -> None:
        for child in self._children.values():
            child.send_signal(number)

    async def run(self) -> None:
        await asyncio.gather(*(self._live(process) for process in range(len(self._configs))))


def run_processes(config: NodeConfig, command: Sequence[str], log: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM, or until all have left; SIGHUP goes on to them."""

    async def main() -> None:
        loop, family = asyncio.get_running_loop(), Family(config, command, log)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, family.end)
        loop.add_signal_handler(signal.SIGHUP, family.pass_on, signal.SIGHUP)
        admin = await loop.create_server(family.interface.connection, config.admin.host, config.admin.port)
        log(f"{config.name}: {count_of(config)} processes behind port {config.mqtt.port}")
        await family.run()
        admin.close()
        if family.failure:
            raise RunError(f"{config.name} has stopped: {family.failure}")

    asyncio.run(main())
