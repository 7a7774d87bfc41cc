"""A host more for a network that `coterie init` made: its folder says whom to ask, and everything else is as there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from coterie.errors import ConfigError, InputError
from coterie.founding.authority import loaded_authority, node_identity
from coterie.founding.folders import PLAIN, SECRET, as_toml, identity_files, write
from coterie.founding.hosts import Host, read_hosts
from coterie.founding.templates import UNIT, Founded, Ports, node_toml
from coterie.live.config import NodeConfig, load_config
from coterie.live.tokens import TOKEN_FILE

NETWORK_KEY = "network.key"


def added(told: Sequence[str], out: Path, number: int | None = None, now: datetime | None = None) -> list[Host]:
    """The hosts, numbered behind those in `out` (or from `number` on), each with a folder there."""
    known = {path.parent.name: load_config(path) for path in sorted(out.glob("*/node.toml"))}
    if not known:
        raise ConfigError("--out", str(out), "the folder that `coterie init` made the network in")
    first = next(iter(known.values()))
    members = {peer.id: peer for config in known.values() for peer in config.network.peers}
    taken = {*members, *(config.node.id for config in known.values())}
    start = max(taken) + 1 if number is None else number
    hosts = [Host(start + place, one.name, one.address, one.zone) for place, one in enumerate(read_hosts(told))]
    for host in hosts:
        if host.name in known or host.node in taken:
            raise ConfigError("--add", f"{host.name} (node {host.node})", f"a host that is not in {out} yet")
        if bool(host.zone) != bool(first.network.zone):
            raise ConfigError("--add", host.name, "a zone, as the others have" if not host.zone else "no zone")
    like = out / next(iter(known))
    identities = _identities(out, first, hosts, now or datetime.now(UTC))
    founders = [f"{peer.host}:{peer.port}" for _, peer in sorted(members.items())]
    for host in hosts:
        folder = out / host.name
        folder.mkdir(mode=0o700)
        for name in (NETWORK_KEY, TOKEN_FILE):
            write(folder / name, (like / name).read_bytes(), SECRET)
        for name, content, mode in identities.get(host.node, ()):
            write(folder / name, content, mode)
        write(folder / "node.toml", _toml_of(first, host, founders), SECRET)
        write(folder / "coterie.service", UNIT, PLAIN)
        load_config(folder / "node.toml")
    return hosts


def _toml_of(first: NodeConfig, host: Host, founders: Sequence[str]) -> str:
    ports = Ports(max(first.mqtt.port, 0), first.mqtt.tls_port, first.links.port, first.admin.port)
    hashes = {user.name: user.password for user in first.access.users}
    founded = Founded(
        first.network.name, first.network.system, [host], ports, bool(first.mqtt.tls_port), list(hashes),
        first.node.data, founders,
    )  # fmt: skip
    settings = "".join(f"{key} = {as_toml(value)}\n" for key, value in first.network.settings.items())
    return node_toml(founded, host, hashes, settings)


Files = list[tuple[str, bytes, int]]


def _identities(out: Path, first: NodeConfig, hosts: Sequence[Host], now: datetime) -> dict[int, Files]:
    """Certificates by the network's own authority, where it has one."""
    if not first.links.certificate:
        return {}
    paths = [out / "authority" / name for name in ("authority.pem", "authority.key")]
    for path in paths:
        if not path.is_file():
            told = "there is no such file: it signs the certificates of new nodes"
            raise InputError(str(path), f"{told}; put your authority there for a moment")
    authority = loaded_authority(*(path.read_bytes() for path in paths))
    return {host.node: identity_files(authority, node_identity(authority, host, now)) for host in hosts}
