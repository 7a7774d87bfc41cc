"""The configuration of a node: one TOML file, every key with a default, checked before anything starts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from coterie.broker.passwords import read_password_file
from coterie.broker.settings import (
    AccessSection,
    AdmissionSection,
    ConfigTable,
    DurabilitySection,
    JournalSection,
    LimitsSection,
    LinkSection,
    MqttSection,
    NetworkSection,
    RecoverySection,
    StoreSection,
)
from coterie.errors import ConfigError, InputError, in_words
from coterie.live.bridgesettings import BridgeSection, check_bridges
from coterie.live.tokens import TOKEN_FILE
from coterie.mqtt.options import ServerOptions

LATENCY_BUDGET_MS_MAX = 1000.0
OFF = -1  # mqtt.port: no plain TCP
NODE_MAX = 4095  # identifiers of events hold the node in 12 bits
PROCESSES_MAX = 8
LOG_BYTES_MIN = 4096


class NodeSection(ConfigTable, frozen=True, kw_only=True):
    id: int = 0
    name: str = ""
    data: str = "data"
    log_level: Literal["info", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    log_file: str = ""
    log_bytes_max: int = 10 << 20
    log_files_max: int = 5
    processes: int | Literal["auto"] = 1
    process_port: int = 0


class AdminSection(ConfigTable, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    token_file: str = ""
    hosts: tuple[str, ...] = ()


class ProcessPart(msgspec.Struct, frozen=True):
    """Which of the processes of one machine; where they have their Unix sockets. No part of the file."""

    number: int
    count: int
    folder: str


class NodeConfig(ConfigTable, frozen=True, kw_only=True):
    """The whole file. `folder` is where it lies: relative paths in it start there."""

    node: NodeSection = NodeSection()
    network: NetworkSection = NetworkSection()
    mqtt: MqttSection = MqttSection()
    links: LinkSection = LinkSection()
    admin: AdminSection = AdminSection()
    access: AccessSection = AccessSection()
    limits: LimitsSection = LimitsSection()
    store: StoreSection = StoreSection()
    durability: DurabilitySection = DurabilitySection()
    journal: JournalSection = JournalSection()
    recovery: RecoverySection = RecoverySection()
    admission: AdmissionSection = AdmissionSection()
    bridges: tuple[BridgeSection, ...] = ()
    folder: str = "."
    process: ProcessPart | None = None

    @property
    def name(self) -> str:
        return self.node.name or f"node-{self.node.id}"

    def path(self, name: str) -> Path:
        return Path(self.folder) / name

    @property
    def data(self) -> Path:
        return self.path(self.node.data)

    @property
    def link_section(self) -> LinkSection:
        """`links` with its paths as they are from here."""
        named = {key: getattr(self.links, key) for key in ("certificate", "certificate_key", "authority")}
        placed = {key: str(self.path(name)) for key, name in named.items() if name}
        return msgspec.structs.replace(self.links, **placed)

    @property
    def token_path(self) -> Path:
        """Where the admin token is kept if the configuration does not give one."""
        return self.path(self.admin.token_file) if self.admin.token_file else self.data / TOKEN_FILE

    @property
    def journal_folder(self) -> Path:
        return self.path(self.journal.folder) if self.journal.folder else self.data / "journal"

    def keys(self) -> tuple[bytes, ...]:
        """The shared keys of the network: the one to show, and those that are taken too; none with certificates alone.

        A file holds one a line.
        """
        named = self.read(self.network.key_file).split() if self.network.key_file else [self.network.key.encode()]
        return tuple(key for key in (*named, *(one.encode() for one in self.network.accepted_keys)) if key)

    def read(self, name: str) -> bytes:
        """A file that the configuration names."""
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            raise InputError(str(self.path(name)), f"cannot be read: {error.strerror}") from None

    def options(self) -> ServerOptions:
        base = ServerOptions.conformance() if self.mqtt.profile == "conformance" else ServerOptions()
        known = {name: getattr(base, name) for name in ServerOptions.__dataclass_fields__}
        for name, value in self.mqtt.limits.items():
            if name not in known:
                raise ConfigError(f"mqtt.limits.{name}", value, f"one of {', '.join(known)}")
            if type(value) is not type(known[name]) and not (isinstance(known[name], float) and type(value) is int):
                raise ConfigError(f"mqtt.limits.{name}", value, f"a {type(known[name]).__name__}")
        return ServerOptions(**(known | self.mqtt.limits))


def secrets_of(config: NodeConfig) -> tuple[dict[str, str], str]:
    """What `access` names and other files hold: the stored passwords, and the key of tokens."""
    name, jwt = config.access.password_file, config.access.jwt
    passwords: dict[str, str] = {}
    if name:
        try:
            passwords = read_password_file(config.read(name).decode())
        except ValueError as error:
            raise InputError(str(config.path(name)), str(error)) from None
    return passwords, config.read(jwt.key_file).decode("latin-1") if jwt.key_file else jwt.key


def load_config(path: Path) -> NodeConfig:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not TOML: byte {error.start} is not UTF-8") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), f"is not TOML: {error}") from None
    try:
        return config_of(table, str(path.parent))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.key}", error.value, error.allowed, error.do) from None


def config_of(table: dict[str, Any], folder: str = ".") -> NodeConfig:
    for key in ("folder", "process"):
        if key in table:
            raise ConfigError(key, table[key], "no such key: paths start where the file lies")
    try:
        config = msgspec.convert({**table, "folder": folder}, NodeConfig)
    except msgspec.ValidationError as error:
        raise _pointed(str(error), table) from None
    return checked(config)


def checked(config: NodeConfig) -> NodeConfig:
    """The same; ConfigError if it cannot work."""
    _check(config)
    config.options()
    return config


def _pointed(said: str, table: dict[str, Any]) -> ConfigError:
    """What msgspec says of `$.node.id`, in the words of the file: the key, what stands there, what may."""
    reason, _, place = said.partition(" - at `$")
    keys = [key for key in place.rstrip("`").replace("[", ".[").split(".") if key]
    if reason.startswith("Object contains unknown field"):
        keys.append(reason.split("`")[1])
        reason = "a key of a node's configuration"
    value: Any = table
    for key in keys:
        try:
            value = value[int(key.strip("[]"))] if key.startswith("[") else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            value = None
            break
    name = ".".join(keys).replace(".[", "[") or "the configuration"
    if any(word in name.lower() for word in ("key", "token", "password", "users")):
        value = "(not shown)"  # a secret in the wrong place is still one
    wanted = in_words(reason).removeprefix("expected ").partition(", got")[0]
    return ConfigError(name, value, wanted, do="see `coterie node --example-config`")


def _check(config: NodeConfig) -> None:
    check_bridges(config.bridges, config.access)
    ids = [peer.id for peer in config.network.peers]
    _within("node.id", config.node.id, 0, NODE_MAX)
    if config.node.processes != "auto":
        _within("node.processes", config.node.processes, 1, PROCESSES_MAX)
    _within("node.log_files_max", config.node.log_files_max, 1, 1000)
    if config.node.log_bytes_max < LOG_BYTES_MIN:
        raise ConfigError("node.log_bytes_max", config.node.log_bytes_max, f"{LOG_BYTES_MIN} or more")
    _within("node.process_port", config.node.process_port, 0, 65_535 - PROCESSES_MAX)
    for peer in ids:
        _within("network.peers.id", peer, 0, NODE_MAX)
    if len(set(ids)) != len(ids):
        raise ConfigError("network.peers", sorted(ids), "every node once")
    if config.mqtt.port == OFF and not (config.mqtt.tls_port or config.mqtt.websocket_port):
        raise ConfigError("mqtt.port", OFF, "a port, or tls_port or websocket_port set: nobody could connect")
    for key, port in (
        ("mqtt.port", 0 if config.mqtt.port == OFF else config.mqtt.port),
        ("mqtt.tls_port", config.mqtt.tls_port),
        ("mqtt.websocket_port", config.mqtt.websocket_port),
        ("links.port", config.links.port),
        ("admin.port", config.admin.port),
    ):
        _within(key, port, 0, 65_535)
    if config.access.certificate_users and not config.mqtt.client_authority:
        raise ConfigError("mqtt.client_authority", "", "a PEM file, because access.certificate_users is set")
    jwt = config.access.jwt
    if jwt.algorithms and bool(jwt.key) == bool(jwt.key_file):
        raise ConfigError("access.jwt.key", "", "either key or key_file, because access.jwt.algorithms is set")
    if "none" in (name.lower() for name in jwt.algorithms):
        raise ConfigError("access.jwt.algorithms", "none", "algorithms that sign")
    if config.mqtt.tls_port and not config.mqtt.certificate:
        raise ConfigError("mqtt.certificate", "", "a PEM file, because mqtt.tls_port is set")
    _check_network(config)
    links = config.links
    if bool(links.certificate) != bool(links.authority):
        raise ConfigError(
            "links.authority", links.authority, "a PEM file, together with links.certificate (mutual TLS)"
        )
    if not 0 < links.heartbeat_s < links.silence_s:
        raise ConfigError("links.silence_s", links.silence_s, f"more than links.heartbeat_s, {links.heartbeat_s:g}")
    budget_ms = config.mqtt.latency_budget_ms
    if budget_ms and not 1.0 <= budget_ms <= LATENCY_BUDGET_MS_MAX:
        raise ConfigError("mqtt.latency_budget_ms", budget_ms, f"0 (at once), or 1 to {LATENCY_BUDGET_MS_MAX:g} ms")
    for key in ("connections", "messages"):
        if getattr(config.admission, key) < 1.0:
            raise ConfigError(f"admission.{key}", getattr(config.admission, key), "1 or more times the mean")
    for key in ("spread_s", "load_s"):
        if getattr(config.admission, key) < 0.0:
            raise ConfigError(f"admission.{key}", getattr(config.admission, key), "0 or more seconds")
    _within("durability.copies", config.durability.copies, 1, 3)
    if config.durability.short_s <= 0.0:
        raise ConfigError("durability.short_s", config.durability.short_s, "more than 0 seconds")
    if config.admin.token and config.admin.token_file:
        raise ConfigError("admin.token_file", config.admin.token_file, "empty, because admin.token is set")


def _check_network(config: NodeConfig) -> None:
    """Whether it can be reached by the others, and they by it."""
    links = config.links
    others = [peer for peer in config.network.peers if peer.id != config.node.id]
    network = config.network
    has_key = bool(network.key or network.key_file or links.certificate)
    if network.join and (others or network.slice):
        raise ConfigError("network.join", network.join, "no other peers and no slice: who joins is told by the others")
    if (network.join or network.may_grow) and not (has_key and links.port):
        raise ConfigError("links.port", links.port, "a port of its own, and network.key set, in a network that grows")
    if others and not has_key:
        raise ConfigError("network.key", "", "a shared key (or links.certificate), because the network has peers")
    if others and not network.slice:
        told = "the JSON file with this node's slice of a plan, because the network has peers"
        raise ConfigError("network.slice", "", told, do="`coterie init --hosts ...` makes folders that fit together")


def _within(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(key, value, f"{low} to {high}")
