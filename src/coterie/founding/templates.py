"""The texts that `coterie init` writes: a node's configuration, its unit file, a compose file, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from coterie.founding.hosts import Host


@dataclass(frozen=True)
class Ports:
    """The same on every host."""

    mqtt: int = 1883
    tls: int = 8883
    links: int = 3883
    admin: int = 2883


@dataclass(frozen=True)
class Founded:
    """What the texts are about."""

    network: str
    system: str
    hosts: Sequence[Host]
    ports: Ports
    is_tls: bool
    users: Sequence[str]
    data: str = "data"
    join: Sequence[str] = ()  # whom to ask, for hosts that come later

    @property
    def client_port(self) -> int:
        return self.ports.tls if self.is_tls else self.ports.mqtt


def quoted(text: str) -> str:
    """A string of TOML (or YAML, or JSON)."""
    return msgspec.json.encode(text).decode()


def node_toml(founded: Founded, host: Host, hashes: dict[str, str], settings: str) -> str:
    ports, where = founded.ports, quoted(host.listens_on)
    mqtt = f"port = {ports.mqtt}"
    if founded.is_tls:
        mqtt = (
            f"port = -1                     # off: passwords go over TLS alone\ntls_port = {ports.tls}\n"
            'certificate = "node.pem"\ncertificate_key = "node.key"'
        )
    links = (
        'certificate = "node.pem"\ncertificate_key = "node.key"\nauthority = "authority.pem"\n'
        if founded.is_tls
        else ""
    )
    zone = f"zone = {quoted(host.zone)}\n" if host.zone else ""
    place = f"join = [{', '.join(map(quoted, founded.join))}]" if founded.join else 'slice = "slice.json"'
    grows = "may_grow = true\n" if len(founded.hosts) == 1 and not founded.join else ""
    return f"""# Node {host.node} of {founded.network}, on {host.name}. Written by `coterie init`; yours to change.
# `coterie node --example-config` explains every key there is.

[node]
id = {host.node}
name = {quoted(host.name)}
data = {quoted(founded.data)}

[mqtt]
host = {where}
{mqtt}

[links]
host = {where}
port = {ports.links}
{links}
[admin]
host = {where}
port = {ports.admin}
token_file = "admin.token"
hosts = [{quoted(host.name)}, {quoted(host.address)}]

[access]
anonymous = "{"never" if founded.users else "loopback"}"
{"".join(_user(name, hashes[name]) for name in founded.users)}
[network]
name = {quoted(founded.network)}
system = {quoted(founded.system)}
{zone}{place}
{grows}key_file = "network.key"

[network.settings]
{settings}
{"".join(_peer(founded, one) for one in founded.hosts)}"""


def _user(name: str, hashed: str) -> str:
    return f"\n[[access.users]]\nname = {quoted(name)}\npassword = {quoted(hashed)}\n"


def _peer(founded: Founded, host: Host) -> str:
    server = quoted(f"{host.address}:{founded.client_port}")
    zone = f"zone = {quoted(host.zone)}\n" if host.zone else ""
    return (
        f"[[network.peers]]\nid = {host.node}\nname = {quoted(host.name)}\n"
        f"host = {quoted(host.address)}\nport = {founded.ports.links}\n"
        f"server = {server}\n{zone}\n"
    )


UNIT = """# systemd: /etc/systemd/system/coterie.service
[Unit]
Description=Coterie node
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/opt/coterie/bin/coterie node --config /etc/coterie/node.toml
ExecReload=/bin/kill -HUP $MAINPID
# A node that has left its network ends well, and is not wanted back.
Restart=on-failure
RestartSec=2
TimeoutStopSec=60
User=coterie
Group=coterie
LimitNOFILE=65536
# It needs its own folder, its ports, and nothing else.
ReadWritePaths=/etc/coterie
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def compose(founded: Founded) -> str:
    """All hosts as containers of one machine: to try it, or where every host runs containers (one service each)."""
    services = "".join(
        f"""  {host.name}:
    image: coterie:latest
    hostname: {host.name}
    command: ["node", "--config", "/etc/coterie/node.toml"]
    volumes: ["./{host.name}:/etc/coterie"]
    network_mode: host
    restart: on-failure
    stop_grace_period: 60s
"""
        for host in founded.hosts
    )
    return (
        f"# docker compose up; the image is built by `docker build -t coterie .` in the project\nservices:\n{services}"
    )


def page(founded: Founded) -> str:
    first = founded.hosts[0]
    admins = " ".join(f"--admin {host.address}:{founded.ports.admin}" for host in founded.hosts)
    user = f" --user {founded.users[0]} --password PASSWORD" if founded.users else ""
    tls = f" --tls --authority {first.name}/authority.pem" if founded.is_tls else ""
    here, there = (f"--host {host.address} --port {founded.client_port}" for host in (first, founded.hosts[-1]))
    names = ", ".join(f"`{host.name}`" for host in founded.hosts)
    secrets = "- `passwords.txt`: what your users need. Hand it out, then delete it; the nodes keep hashes.\n"
    signs = "- `authority/`: signs certificates for nodes that join later. Keep its key where no node is.\n"
    return f"""# {founded.network}: {len(founded.hosts)} nodes

A folder for each host: {names}. It holds that node's configuration, its part of the first plan and its secrets;
nobody else needs it.

{secrets if founded.users else ""}{signs if founded.is_tls else ""}
## On every host

1. Install: `python3 -m venv /opt/coterie && /opt/coterie/bin/pip install coterie`
2. Copy the host's folder to `/etc/coterie`, owned by a user `coterie` and by nobody else to read.
3. Start: `/opt/coterie/bin/coterie node --config /etc/coterie/node.toml`, or with systemd:
   `cp /etc/coterie/coterie.service /etc/systemd/system/ && systemctl enable --now coterie`

Ports: {founded.client_port} for clients; {founded.ports.links} between the nodes; {founded.ports.admin} for you: let it
be reached from inside your network only.

## Is it well?

```sh
coterie top {admins} --token $(cat {first.name}/admin.token) --once
```

Every node is ready and has its peers. A message from one host to another:

```sh
coterie sub {here}{user}{tls} 'hello/#'
coterie pub {there}{user}{tls} hello/world 'it works'
```

## Later

- Another host: `coterie init --add NAME=ADDRESS --out FOLDER` here, then as above on that host; it joins by itself.
- A host less: `coterie drain NAME`; a dead one: `coterie remove NAME`; both with the same `--admin` list and token.
- Another user: add `[[access.users]]` on every host (`coterie node --hash-password`), then `coterie reload`.
- A plan for your traffic: `coterie plan`, then `coterie apply` with the same `--admin` list.
"""
