"""The tables of a node's configuration that its broker works by; the file itself is `live.config`'s."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coterie.model.ledger import HEARTBEAT_S


class ConfigTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class PeerEntry(ConfigTable, frozen=True, kw_only=True):
    """Another node of the network: where its peer port is, and what to tell clients that should go there."""

    id: int
    host: str
    port: int
    server: str = ""
    zone: str = ""
    name: str = ""


class NetworkSection(ConfigTable, frozen=True, kw_only=True):
    name: str = "coterie"
    system: str = "flooding"
    seed: int = 0
    zone: str = ""
    slice: str = ""
    settings: dict[str, Any] = {}
    peers: list[PeerEntry] = []
    key: str = ""
    key_file: str = ""
    accepted_keys: list[str] = []
    join: list[str] = []
    may_grow: bool = False
    renew_s: float = 30.0


class MqttSection(ConfigTable, frozen=True, kw_only=True):
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
    latency_budget_ms: float = 0.0


class LinkSection(ConfigTable, frozen=True, kw_only=True):
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


class User(ConfigTable, frozen=True, kw_only=True):
    """`password` is what `coterie node --hash-password` prints; filters with %u and %c for the user and client."""

    name: str
    password: str = ""
    publish: tuple[str, ...] = ("#",)
    subscribe: tuple[str, ...] = ("#", "$SYS/#")
    share: tuple[str, ...] = ("+",)


class OthersSection(ConfigTable, frozen=True, kw_only=True):
    """The rights of users that prove who they are and are not among `access.users`."""

    publish: tuple[str, ...] = ("#",)
    subscribe: tuple[str, ...] = ("#", "$SYS/#")
    share: tuple[str, ...] = ("+",)


class LoginSection(ConfigTable, frozen=True, kw_only=True):
    workers: int = 0
    queue_max: int = 10_000
    queue_address_max: int = 5_000
    right_s: float = 300.0
    wrong_s: float = 10.0


class JwtSection(ConfigTable, frozen=True, kw_only=True):
    algorithms: tuple[str, ...] = ()
    key: str = ""
    key_file: str = ""
    user_claim: str = "sub"
    audience: str = ""
    issuer: str = ""


class LimitsSection(ConfigTable, frozen=True, kw_only=True):
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


class AccessSection(ConfigTable, frozen=True, kw_only=True):
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


class StoreSection(ConfigTable, frozen=True, kw_only=True):
    sync: Literal["normal", "full"] = "normal"
    log_hours: float = 24.0
    log_bytes_max: int = 1 << 30


class DurabilitySection(ConfigTable, frozen=True, kw_only=True):
    """On how many nodes' disks something must be before it is acknowledged, as far as there are so many.

    With too few nodes in reach for `short_s`, a node goes on with what there is, or waits for as long as it takes.
    """

    copies: int = 2
    short: Literal["go on", "wait"] = "go on"
    short_s: float = 5.0


class JournalSection(ConfigTable, frozen=True, kw_only=True):
    enabled: bool = True
    folder: str = ""
    segment_bytes_max: int = 16 << 20
    counters_s: float = 60.0


class AdmissionSection(ConfigTable, frozen=True, kw_only=True):
    """New clients go where what they first ask for is wanted already; limits are times the mean of all nodes."""

    enabled: bool = False
    connections: float = 1.2
    messages: float = 1.5
    spread_s: float = 1.0
    load_s: float = 10.0


class RecoverySection(ConfigTable, frozen=True, kw_only=True):
    rounds_s: tuple[float, ...] = (0.3, 1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 26.0, 33.0, 41.0, 50.0, 60.0, 75.0)
    audit_s: float = 60.0
    margin_s: float = 3.0
