"""The hosts of a new network, as an operator writes them: NAME, NAME=ADDRESS, NAME=ADDRESS@ZONE."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.errors import ConfigError

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
FORM = "NAME, NAME=ADDRESS or NAME=ADDRESS@ZONE"
HOSTS_MAX = 4096


@dataclass(frozen=True)
class Host:
    """One machine of the network. The address is how the others, and clients, reach it."""

    node: int
    name: str
    address: str
    zone: str = ""

    @property
    def listens_on(self) -> str:
        """Its own address where that is a number; a name is looked up by others, so all addresses are listened on."""
        return self.address if is_number(self.address) else "0.0.0.0"


def is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def read_hosts(told: Sequence[str]) -> list[Host]:
    """From `a,b=10.0.0.2,c=10.0.0.3@east`; they are numbered in this order."""
    words = [word.strip() for text in told for word in text.split(",") if word.strip()]
    if not 1 <= len(words) <= HOSTS_MAX:
        raise ConfigError("--hosts", ",".join(words), f"1 to {HOSTS_MAX} hosts, each {FORM}")
    hosts = [_host(node, word) for node, word in enumerate(words)]
    for key in ("name", "address"):
        found = [getattr(host, key) for host in hosts]
        if twice := next((one for one in found if found.count(one) > 1), ""):
            raise ConfigError("--hosts", twice, f"every {key} once")
    if any(host.zone for host in hosts) and not all(host.zone for host in hosts):
        without = next(host.name for host in hosts if not host.zone)
        raise ConfigError("--hosts", without, "a zone for every host, or for none", do=f"write {without}=ADDRESS@ZONE")
    return hosts


def _host(node: int, word: str) -> Host:
    front, _, zone = word.partition("@")
    name, _, address = front.partition("=")
    address = address or name
    if not NAME.fullmatch(name) or not (is_number(address) or NAME.fullmatch(address)):
        raise ConfigError("--hosts", word, FORM)
    return Host(node, name, address, zone)
