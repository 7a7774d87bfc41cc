"""The fleet file: which brokers there are, where their files are and how they are told, and what may be done to them.

Every mistake in it is one sentence that names the file and the key. Relative paths start where the file lies.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from coterie.errors import InputError, in_words

NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class FleetSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the file's sections: an unknown key is a mistake, not a wish."""


class FleetBroker(FleetSection, frozen=True, kw_only=True):
    """One broker. Which keys are needed depends on the target; `--check` names those that are missing."""

    name: str
    address: str  # HOST:PORT where clients (and the balancer) reach it
    zone: str = ""
    config: Path | None = None  # folder that the broker reads its included configuration from
    acl: Path | None = None  # mosquitto: the acl_file; of the hub only
    log: Path | None = None  # mosquitto: the log, if it says who published; copies are counted there
    pid_file: Path | None = None  # it gets SIGHUP after a change, unless `reload` says otherwise
    reload: str = ""  # a command that makes the broker read its files again
    restart: str = ""  # a command that restarts it, for what cannot be reloaded
    monitor: str = ""  # NATS: HOST:PORT of its monitoring; EMQX: HOST:PORT of its API
    link: str = ""  # HOST:PORT where other brokers reach it, if not `address`; NATS leaf nodes: the hub's leaf port
    bridge: str = ""  # the name its bridge to the hub has (user name and client id); bridge-NAME if absent

    @property
    def bridge_name(self) -> str:
        return self.bridge or f"bridge-{self.name}"

    @property
    def link_address(self) -> str:
        return self.link or self.address


class Balancer(FleetSection, frozen=True, kw_only=True):
    """HAProxy in front of the brokers."""

    socket: Path  # its runtime socket, level admin
    map: Path  # client -> broker, one line each; the file its configuration names
    bind: str = "*:1883"
    frontend: str = "mqtt"
    ring: str = "conns"  # the ring that its connections are logged to
    unknown: Literal["hash", "hub"] = "hash"  # where clients go that the map does not know


class FleetLimits(FleetSection, frozen=True, kw_only=True):
    """What may be done to the fleet, and how fast."""

    moves_per_s: float = 20.0
    moves_per_hour: int = 2000  # of `coterie loop`
    clients_max: float = 1.2  # connections of a broker, in times of the mean
    patience_s: float = 10.0  # how long brokers and deliveries may fail before everything is rolled back
    settle_s: float = 0.5  # after a reload, before the next step
    move_price: float = 30.0  # what a move costs, in copies
    horizon_s: float = 3600.0  # a move must have paid after so long
    prefixes: tuple[str, ...] = ()  # filters whose topics go to every broker, seen before or not


class ProbeSection(FleetSection, frozen=True, kw_only=True):
    """How to log in to see whether brokers answer and deliver."""

    user: str = ""
    password: str = ""
    topic: str = "coterie/probe"


class NatsSection(FleetSection, frozen=True, kw_only=True):
    users: Path | None = None  # CSV: user,password; clients are users
    everywhere: tuple[str, ...] = ()  # users that every server lets in
    leaf_password: str = ""  # of leaf nodes at the hub, where servers ask for names


class EmqxSection(FleetSection, frozen=True, kw_only=True):
    key: str = ""  # an API key; the secret is read from the environment variable EMQX_SECRET


class BrokerFleet(FleetSection, frozen=True, kw_only=True):
    """The whole file."""

    broker: tuple[FleetBroker, ...]
    name: str = "fleet"
    hub: str = ""  # the broker in the middle, for stars
    hub_users: tuple[str, ...] = ()  # users (besides bridges) that the hub's ACL shall let do everything
    journal: Path | None = None  # what `coterie observe` writes; for `coterie loop`
    balancer: Balancer | None = None
    limits: FleetLimits = FleetLimits()
    probe: ProbeSection = ProbeSection()
    nats: NatsSection = NatsSection()
    emqx: EmqxSection = EmqxSection()
    source: str = ""  # the file this came from, for messages

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.broker)

    def named(self, name: str) -> FleetBroker:
        return next(one for one in self.broker if one.name == name)

    def key(self, broker: str, key: str) -> str:
        return f"broker {broker!r}, key {key!r}"

    def missing(self, what: str, why: str) -> InputError:
        return InputError(self.source, f"{what} is missing: {why}")


def read_fleet(path: Path) -> BrokerFleet:
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(str(path), f"cannot be read: {reason or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), f"is not TOML: {error}") from None
    return fleet_of(table, str(path))


def fleet_of(table: dict[str, Any], source: str) -> BrokerFleet:
    """The fleet of a table as TOML gives it; InputError names the key."""
    if "source" in table:
        raise InputError(source, "source: there is no such key")
    folder = Path(source).resolve().parent

    def plain(kind: type, value: Any) -> Any:
        if kind is Path and isinstance(value, str):
            return folder / Path(value).expanduser()
        raise NotImplementedError

    try:
        fleet = msgspec.convert({**table, "source": source}, BrokerFleet, dec_hook=plain)
    except msgspec.ValidationError as error:
        raise InputError(source, _named(str(error), table)) from None
    _check(fleet)
    return fleet


def _named(problem: str, table: dict[str, Any]) -> str:
    """msgspec says `Expected ..., got ... - at `$.broker[0].address``; a person counts brokers by name."""
    reason, _, where = problem.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    if path.startswith("broker["):
        number, _, rest = path.removeprefix("broker[").partition("]")
        brokers = table.get("broker", [])
        entry = brokers[int(number)] if number.isdigit() and int(number) < len(brokers) else {}
        who = entry.get("name") if isinstance(entry, dict) else None
        path = f"broker {who!r}" if who else f"broker number {int(number) + 1}" if number.isdigit() else "broker"
        path += f", key {rest.removeprefix('.')!r}" if rest else ""
    reason = reason.replace("Object missing required field", "this key is missing:")
    reason = reason.replace("Object contains unknown field", "there is no key")
    reason = in_words(reason) if reason.startswith("Expected") else reason
    return f"{path}: {reason}" if path else reason


def _check(fleet: BrokerFleet) -> None:
    wrong = _first_mistake(fleet)
    if wrong:
        raise InputError(fleet.source, wrong)


def _first_mistake(fleet: BrokerFleet) -> str:
    if len(fleet.broker) < 2:
        return "broker: a fleet has at least two [[broker]] entries"
    for one in fleet.broker:
        if not one.name or not NAME_LETTERS.issuperset(one.name):
            return f"broker {one.name!r}, key 'name': letters, digits, '_', '-' and '.' only"
        if fleet.names.count(one.name) > 1:
            return f"broker {one.name!r}, key 'name': two brokers have it"
        for key in ("address", "monitor", "link"):
            value = getattr(one, key)
            if (value or key == "address") and not is_address(value):
                return f"broker {one.name!r}, key {key!r}: expected HOST:PORT, got {value!r}"
    if fleet.hub and fleet.hub not in fleet.names:
        return f"hub: {fleet.hub!r} is none of the brokers {', '.join(fleet.names)}"
    if fleet.balancer is not None and fleet.balancer.unknown == "hub" and not fleet.hub:
        return "balancer.unknown: 'hub' needs the key hub"
    bounds = {"moves_per_s": 0.0, "clients_max": 1.0, "patience_s": 0.0, "move_price": 0.0, "horizon_s": 0.0}
    for key, least in bounds.items():
        value = getattr(fleet.limits, key)
        if value < least or (value == 0 and key in ("moves_per_s", "horizon_s")):
            return f"limits.{key}: {value:g} is too small"
    return ""


def is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 65536


def host_port(address: str) -> tuple[str, int]:
    """HOST:PORT of a checked address; brackets around an IPv6 host are dropped."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def example_fleet() -> str:
    """A commented fleet file."""
    return files("coterie.fleets").joinpath("example_fleet.toml").read_text()
