"""Every core of a machine: one configuration, several node processes behind one client port.

The kernel shares out new connections between those who listen on a port (SO_REUSEPORT). To the network each process is
a node: the first has the configured number, the next that plus `STRIDE`, and so on. A machine by itself founds a
network of its processes, without copies, for they would be on the same disk; in a larger network the further ones join,
and copies are on other machines. Among themselves they are linked by Unix sockets.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from coterie.broker.members import STRIDE
from coterie.broker.settings import PeerEntry
from coterie.errors import ConfigError
from coterie.live.config import PROCESSES_MAX, NodeConfig, ProcessPart
from coterie.live.tokens import kept_token

KEY_FILE = "processes.key"
SLICES = "slices"
SOCKET_BYTES_MAX = 100  # of a path; the system has room for about 108
replace = msgspec.structs.replace


def count_of(config: NodeConfig) -> int:
    """How many; `auto` is a process for every core that may be used."""
    wanted = config.node.processes
    if wanted == "auto":
        return min(PROCESSES_MAX, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
    return wanted


def number_of(config: NodeConfig, process: int) -> int:
    return config.node.id + STRIDE * process


def data_of(config: NodeConfig, process: int) -> Path:
    """The first has the folder that a single process would have, so that what is there is served."""
    return config.data / f"process-{process}" if process else config.data


def check_processes(config: NodeConfig) -> None:
    """What one process may do and several may not."""
    count = count_of(config)
    if config.node.id >= STRIDE:
        raise ConfigError("node.id", config.node.id, f"below {STRIDE}, because node.processes is {count}")
    if config.mqtt.port == 0 or not config.links.port or not config.admin.port:
        told = "mqtt.port, links.port and admin.port set: they are shared, or counted from"
        raise ConfigError("node.processes", count, told)
    left = [path.name for path in sorted(config.data.glob("process-*")) if int(path.name.partition("-")[2]) >= count]
    if left:
        told = f"at least {int(left[-1].partition('-')[2]) + 1}, for {config.data / left[-1]} holds sessions"
        name = f"{config.name}-{left[-1].partition('-')[2]}"
        raise ConfigError("node.processes", count, told, do=f"`coterie drain {name}` first, then delete that folder")


def is_by_itself(config: NodeConfig) -> bool:
    return not config.network.join and all(peer.id == config.node.id for peer in config.network.peers)


def process_config(config: NodeConfig, process: int) -> NodeConfig:
    """The configuration of one of them."""
    count, number, node = count_of(config), number_of(config, process), config.node
    data = data_of(config, process)
    own = _entry(config, process)
    network = config.network
    if not (network.key or network.key_file or config.links.certificate):
        network = replace(network, key=kept_token(config.data / KEY_FILE)[0])
    if is_by_itself(config):
        peers = [_entry(config, one) for one in range(count)]
        network = replace(network, peers=peers, slice=str((config.data / SLICES / f"{process}.json").resolve()))
    elif process:
        network = replace(network, peers=[own], slice="", join=[f"{own.host}:{config.links.port}"])
    token = config.admin.token or kept_token(config.token_path)[0]
    durability = replace(config.durability, copies=1) if is_by_itself(config) else config.durability
    return replace(
        config,
        node=replace(node, id=number, name=own.name, data=str(data.resolve())),
        network=network,
        links=replace(config.links, port=own.port),
        admin=replace(config.admin, port=config.admin.port + 1 + process, token=token, token_file=""),
        durability=durability,
        journal=replace(config.journal, folder=str(config.journal_folder.resolve())),
        bridges=() if process else config.bridges,  # one is enough
        process=ProcessPart(process, count, str(config.data.resolve())),
    )  # fmt: skip


def _entry(config: NodeConfig, process: int) -> PeerEntry:
    """How it is known to the others."""
    own = next((peer for peer in config.network.peers if peer.id == config.node.id), None)
    host = config.links.host if own is None else own.host
    server = "" if own is None else own.server
    if config.node.process_port:
        shown = (server or config.mqtt.host).rpartition(":")[0] or config.mqtt.host
        server = f"{shown}:{config.node.process_port + process}"
    name = f"{config.name}-{process}" if process else config.name
    zone = config.network.zone if own is None else own.zone
    number, port = number_of(config, process), config.links.port + process
    return PeerEntry(id=number, host=host, port=port, server=server, zone=zone, name=name)


def machine_of(config: NodeConfig) -> tuple[int, ...]:
    """The nodes that are processes of this machine, in their order; nothing where there is one process."""
    part = config.process
    if part is None:
        return ()
    first = config.node.id - STRIDE * part.number
    return tuple(first + STRIDE * one for one in range(part.count))


def socket_of(config: NodeConfig, node: int, kind: str = "links") -> str:
    """The Unix socket of this node for links, or for `clients`, if it is a process of the same machine.

    Empty if it is not, or has no room.
    """
    part = config.process
    if part is None or node % STRIDE != config.node.id % STRIDE:
        return ""
    path = str(Path(part.folder) / f"{kind}-{node // STRIDE}.sock")
    return path if len(os.fsencode(path)) <= SOCKET_BYTES_MAX else ""
