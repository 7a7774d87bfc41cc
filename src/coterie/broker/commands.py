"""What an operator can order a running broker to do, and what a broker has to be told once, before its first fact."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coterie.broker.settings import (
    AccessSection,
    AdmissionSection,
    DurabilitySection,
    JournalSection,
    LimitsSection,
    LinkSection,
    MqttSection,
    NetworkSection,
    RecoverySection,
    StoreSection,
)
from coterie.model.plan import Slice
from coterie.mqtt.options import ServerOptions
from coterie.plans.orders import PlanPart
from coterie.protocol.system import System


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of the configuration that the machine needs; files are read and checked by whoever makes one."""

    node: int
    name: str
    system_named: Callable[[str], System]
    slice: Slice
    network: NetworkSection = NetworkSection()
    mqtt: MqttSection = MqttSection()
    links: LinkSection = LinkSection()
    access: AccessSection = AccessSection()
    limits: LimitsSection = LimitsSection()
    store: StoreSection = StoreSection()
    durability: DurabilitySection = DurabilitySection()
    journal: JournalSection = JournalSection()
    recovery: RecoverySection = RecoverySection()
    admission: AdmissionSection = AdmissionSection()
    options: ServerOptions = ServerOptions()
    passwords: dict[str, str] = {}  # of the password file
    token_key: str = ""  # that checks tokens
    machine: tuple[int, ...] = ()  # the nodes that are processes of this machine, itself among them
    may_grow: bool = False  # whether other nodes may join one that has no peers


class LoadPlan(msgspec.Struct, frozen=True):
    """Take in the node's part of the next plan; what was loaded before is dropped."""

    part: PlanPart


class StartPlan(msgspec.Struct, frozen=True):
    """Build the structures of the plan that was loaded beside those in use."""

    generation: int


class SwitchPlan(msgspec.Struct, frozen=True):
    """Publish by the plan that was started, here and everywhere it is ready."""

    generation: int


class DropPlan(msgspec.Struct, frozen=True):
    """Forget the plan that was loaded."""


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where clients should be: client -> node. Those who follow are moved, a few at a time."""

    version: int
    clients: dict[str, int]


class Reload(msgspec.Struct, frozen=True):
    """Other users, rights and limits from now on."""

    access: AccessSection
    limits: LimitsSection
    options: ServerOptions
    connections_max: int
    passwords: dict[str, str] = {}
    token_key: str = ""


class Block(msgspec.Struct, frozen=True):
    """Fault injection: have nothing to do with these peers, until told otherwise."""

    peers: tuple[int, ...] = ()


class Show(msgspec.Struct, frozen=True):
    """The node's own figures: topic under `$SYS` -> text, retained, for local subscribers."""

    figures: dict[str, str]


class Drain(msgspec.Struct, frozen=True):
    """Leave the network: send clients away, hand over what is here, then end."""


class Remove(msgspec.Struct, frozen=True):
    """That node is dead and comes back no more. `is_forced`: whatever others hear of it."""

    node: int
    is_forced: bool = False


Command = LoadPlan | StartPlan | SwitchPlan | DropPlan | Place | Reload | Block | Show | Drain | Remove
