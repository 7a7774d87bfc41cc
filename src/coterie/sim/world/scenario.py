"""A scenario: who is there, what they do when, what breaks when. Plain data: to be written down, cut and replayed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from coterie.errors import InputError


class Resident(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client: its session outlives its connections if `is_lasting`; it belongs to a node, or roams over all."""

    name: str
    home: int = 0
    user: str = ""
    version: int = 4
    is_lasting: bool = True
    roams: bool = False
    keep_alive_s: int = 0
    will: str = ""  # the topic of its will, at QoS 1


class Tenant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user and what it may do; `%u` and `%c` stand for the user and the client identifier."""

    name: str
    publish: tuple[str, ...] = ("#",)
    subscribe: tuple[str, ...] = ("#",)
    share: tuple[str, ...] = ("+",)


class Deed(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="do"):
    """Something that happens at a moment, in seconds from the start."""

    at_s: float


class Arrive(Deed, frozen=True, omit_defaults=True, tag="arrive"):
    """A client wants to be connected from now on, whatever it takes; `node` -1 is its home."""

    who: int
    node: int = -1


class Depart(Deed, frozen=True, omit_defaults=True, tag="depart"):
    """It leaves: with a DISCONNECT, by a broken connection, or silently."""

    who: int
    how: str = "said"  # said, torn, silent


class Listen(Deed, frozen=True, omit_defaults=True, tag="listen"):
    who: int
    filter: str
    qos: int = 1


class Unlisten(Deed, frozen=True, omit_defaults=True, tag="unlisten"):
    who: int
    filter: str


class Utter(Deed, frozen=True, omit_defaults=True, tag="utter"):
    """A message; its payload is `number`, which no other has."""

    who: int
    number: int
    topic: str
    qos: int = 1
    retain: bool = False
    size: int = 0
    expiry_s: int = 0  # 0: never


class Doze(Deed, frozen=True, omit_defaults=True, tag="doze"):
    """A client reads nothing for a while."""

    who: int
    for_s: float


class Tear(Deed, frozen=True, omit_defaults=True, tag="tear"):
    """A client's connection breaks after any prefix of what is under way."""

    who: int


class Fell(Deed, frozen=True, omit_defaults=True, tag="fell"):
    """A node is killed (`how` "kill"), loses power ("power"), or both and its disk for good ("gone")."""

    node: int
    how: str = "kill"


class Raise(Deed, frozen=True, omit_defaults=True, tag="raise"):
    node: int


class Spoil(Deed, frozen=True, omit_defaults=True, tag="spoil"):
    """A disk becomes slow or full for a while."""

    node: int
    how: str = "slow"
    for_s: float = 1.0


class Sever(Deed, frozen=True, omit_defaults=True, tag="sever"):
    """Nothing passes from these nodes to the others for a while; nor back, unless `is_one_way`."""

    nodes: tuple[int, ...]
    for_s: float
    is_one_way: bool = False


class Snap(Deed, frozen=True, omit_defaults=True, tag="snap"):
    """The connection between two nodes breaks after any prefix of what is under way."""

    node: int
    peer: int


class Replan(Deed, frozen=True, omit_defaults=True, tag="replan"):
    """An operator changes the network over to another plan, of this system, while it runs."""

    system: str


class Regrant(Deed, frozen=True, omit_defaults=True, tag="regrant"):
    """An operator gives users other rights while everything runs."""

    users: tuple[Tenant, ...]


class Enlist(Deed, frozen=True, omit_defaults=True, tag="enlist"):
    """A node that was not there yet joins, by asking that one first; a newcomer asks until somebody answers."""

    node: int
    via: int = 0


class Retire(Deed, frozen=True, omit_defaults=True, tag="retire"):
    """An operator has a node leave."""

    node: int


class Dismiss(Deed, frozen=True, omit_defaults=True, tag="dismiss"):
    """An operator has a node removed that is dead for good."""

    node: int


Action = (
    Arrive | Depart | Listen | Unlisten | Utter | Doze | Tear | Fell | Raise | Spoil | Sever | Snap | Replan | Regrant
    | Enlist | Retire | Dismiss
)  # fmt: skip


class Clockwork(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's clock: how far off it is, and by how much it runs fast."""

    offset_s: float = 0.0
    drift: float = 0.0


class Scenario(msgspec.Struct, frozen=True, omit_defaults=True):
    seed: int
    system: str = "flooding"
    nodes: int = 1
    clocks: tuple[Clockwork, ...] = ()
    sync: str = "normal"
    users: tuple[Tenant, ...] = ()
    residents: tuple[Resident, ...] = ()
    actions: tuple[Action, ...] = ()
    storm_s: float = 20.0
    settle_s: float = 300.0
    delay_s: float = 0.002  # between machines; drawn around it
    disk_s: float = 0.002
    linger_s: float = 0.001  # how long a turn may wait for more facts
    inflight_max: int = 20
    has_calm: bool = False  # whether the long calm after the storm is waited for
    copies: int = 1  # disks that must have what is acknowledged
    is_machine: bool = False  # the nodes are processes of one machine
    late: int = 0  # of the nodes, so many of the last are not there at first


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Scenario).decode


def write_scenario(scenario: Scenario, path: Path) -> None:
    path.write_bytes(msgspec.json.format(_encode(scenario), indent=1) + b"\n")


def read_scenario(path: Path) -> Scenario:
    try:
        return _decode(path.read_bytes())
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InputError(str(path), f"is no scenario: {error}") from None
