"""The configuration of a node: one TOML file, every key with a default, checked before anything starts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from coterie.errors import ConfigError, InputError
from coterie.model.ledger import HEARTBEAT_S
from coterie.mqtt.options import ServerOptions
from coterie.runtime.tokens import TOKEN_FILE

NODE_MAX = 4095  # identifiers of events hold the node in 12 bits


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class NodeSection(Section, frozen=True, kw_only=True):
    id: int = 0
    name: str = ""
    data: str = "data"
    log_level: Literal["info", "error"] = "info"


class Peer(Section, frozen=True, kw_only=True):
    """Another node of the network: where its peer port is, and what to tell clients that should go there."""

    id: int
    host: str
    port: int
    server: str = ""


class NetworkSection(Section, frozen=True, kw_only=True):
    name: str = "coterie"
    system: str = "flooding"
    seed: int = 0
    slice: str = ""
    settings: dict[str, Any] = {}
    peers: list[Peer] = []
    key: str = ""
    key_file: str = ""
    accepted_keys: list[str] = []


class MqttSection(Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 1883
    tls_port: int = 0
    websocket_port: int = 0
    websocket_origins: list[str] = []
    certificate: str = ""
    certificate_key: str = ""
    client_authority: str = ""
    profile: Literal["service", "conformance"] = "service"
    limits: dict[str, Any] = {}
    connections_max: int = 20_000
    write_buffer_bytes_max: int = 1 << 20
    subscribe_wait_s: float = 5.0


class LinkSection(Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 0
    heartbeat_s: float = HEARTBEAT_S
    silence_s: float = 2.5 * HEARTBEAT_S
    backoff_s: float = 0.1
    backoff_s_max: float = 5.0
    idle_s: float = 60.0
    patience_s: float = 5.0
    queue_bytes_max: int = 32 << 20
    certificate: str = ""
    certificate_key: str = ""
    authority: str = ""


class AdminSection(Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    token_file: str = ""
    hosts: list[str] = []


class User(Section, frozen=True, kw_only=True):
    """`password` is what `coterie node --hash-password` prints; filters with %u and %c for the user and client."""

    name: str
    password: str = ""
    publish: tuple[str, ...] = ("#",)
    subscribe: tuple[str, ...] = ("#", "$SYS/#")
    share: tuple[str, ...] = ("+",)


class OthersSection(Section, frozen=True, kw_only=True):
    """The rights of users that prove who they are and are not among `access.users`."""

    publish: tuple[str, ...] = ("#",)
    subscribe: tuple[str, ...] = ("#", "$SYS/#")
    share: tuple[str, ...] = ("+",)


class LoginSection(Section, frozen=True, kw_only=True):
    workers: int = 0
    queue_max: int = 10_000
    queue_address_max: int = 5_000
    right_s: float = 300.0
    wrong_s: float = 10.0


class JwtSection(Section, frozen=True, kw_only=True):
    algorithms: tuple[str, ...] = ()
    key: str = ""
    key_file: str = ""
    user_claim: str = "sub"
    audience: str = ""
    issuer: str = ""


class LimitsSection(Section, frozen=True, kw_only=True):
    """A rate of 0 means no limit; a burst is what may come at once."""

    connections_address_max: int = 0
    connects_per_s: float = 0.0
    connects_burst: float = 20_000.0
    connects_per_s_address: float = 0.0
    connects_burst_address: float = 10_000.0
    failures_per_s: float = 0.0
    failures_burst: float = 1_000.0
    failures_per_s_address: float = 5.0
    failures_burst_address: float = 100.0
    publishes_per_s: float = 0.0
    publishes_burst: float = 100_000.0
    publishes_per_s_client: float = 0.0
    publishes_burst_client: float = 10_000.0


class AccessSection(Section, frozen=True, kw_only=True):
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    anonymous_publish: tuple[str, ...] = ("#",)
    anonymous_subscribe: tuple[str, ...] = ("#", "$SYS/#")
    anonymous_share: tuple[str, ...] = ("+",)
    denied_subscriptions: list[str] = []
    users: list[User] = []
    others: OthersSection = OthersSection()
    password_file: str = ""
    certificate_users: bool = False
    jwt: JwtSection = JwtSection()
    logins: LoginSection = LoginSection()


class StoreSection(Section, frozen=True, kw_only=True):
    sync: Literal["normal", "full"] = "normal"
    log_hours: float = 24.0
    log_bytes_max: int = 1 << 30


class JournalSection(Section, frozen=True, kw_only=True):
    enabled: bool = True
    folder: str = ""
    segment_bytes_max: int = 16 << 20
    counters_s: float = 60.0


class RecoverySection(Section, frozen=True, kw_only=True):
    rounds_s: tuple[float, ...] = (0.3, 1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 26.0, 33.0, 41.0, 50.0, 60.0, 75.0)
    audit_s: float = 60.0
    margin_s: float = 3.0


class NodeConfig(Section, frozen=True, kw_only=True):
    """The whole file. `folder` is where it lies: relative paths in it start there."""

    node: NodeSection = NodeSection()
    network: NetworkSection = NetworkSection()
    mqtt: MqttSection = MqttSection()
    links: LinkSection = LinkSection()
    admin: AdminSection = AdminSection()
    access: AccessSection = AccessSection()
    limits: LimitsSection = LimitsSection()
    store: StoreSection = StoreSection()
    journal: JournalSection = JournalSection()
    recovery: RecoverySection = RecoverySection()
    folder: str = "."

    @property
    def name(self) -> str:
        return self.node.name or f"node-{self.node.id}"

    def path(self, name: str) -> Path:
        return Path(self.folder) / name

    @property
    def data(self) -> Path:
        return self.path(self.node.data)

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
        raise ConfigError(f"{path}: {error.key}", error.value, error.allowed) from None


def config_of(table: dict[str, Any], folder: str = ".") -> NodeConfig:
    if "folder" in table:
        raise ConfigError("folder", table["folder"], "not a key of the file: paths start where the file lies")
    try:
        config = msgspec.convert({**table, "folder": folder}, NodeConfig)
    except msgspec.ValidationError as error:
        raise _pointed(str(error), table) from None
    _check(config)
    config.options()
    return config


def _pointed(said: str, table: dict[str, Any]) -> ConfigError:
    """What msgspec says of `$.node.id`, in the words of the file: the key, what stands there, what may."""
    reason, _, place = said.partition(" - at `$")
    keys = [key for key in place.rstrip("`").replace("[", ".[").split(".") if key]
    if reason.startswith("Object contains unknown field"):
        keys.append(reason.split("`")[1])
        reason = "not a key of a node's configuration"
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
    return ConfigError(name, value, f"{reason}; see `coterie node --example-config`")


def _check(config: NodeConfig) -> None:
    ids = [peer.id for peer in config.network.peers]
    _within("node.id", config.node.id, 0, NODE_MAX)
    for peer in ids:
        _within("network.peers.id", peer, 0, NODE_MAX)
    if len(set(ids)) != len(ids):
        raise ConfigError("network.peers", sorted(ids), "every node once")
    for key, port in (
        ("mqtt.port", config.mqtt.port),
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
    links = config.links
    if bool(links.certificate) != bool(links.authority):
        raise ConfigError("links.authority", links.authority, "set together with links.certificate (mutual TLS)")
    others = [peer for peer in config.network.peers if peer.id != config.node.id]
    if others and not (config.network.key or config.network.key_file or links.certificate):
        raise ConfigError("network.key", "", "a shared key (or links.certificate), because the network has peers")
    if not 0 < links.heartbeat_s < links.silence_s:
        raise ConfigError("links.silence_s", links.silence_s, f"more than links.heartbeat_s, {links.heartbeat_s:g}")
    if config.admin.token and config.admin.token_file:
        raise ConfigError("admin.token_file", config.admin.token_file, "empty, because admin.token is set")


def _within(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(key, value, f"{low} to {high}")
