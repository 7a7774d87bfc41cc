"""What a target is: one module that says what it can express, which files it wants, and how old and new go together.

Files are applied by `fleets.applying`, the same for every target and in the order that loses least: everybody who may
receive by the old or the new plan (`merge`), the map of homes, clients paced, and then the new plan alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout
from coterie.fleets.probing import Way

BALANCER = "balancer"  # who is told of a changed map; a broker's name otherwise


class LinkShape(Enum):
    """What a target can say about links."""

    PLACEMENT = "placement only"  # links stay as they are
    STAR = "star"  # through a hub, which passes on what is wanted
    ONE_TREE = "one tree"
    TREE_PER_TOPIC = "a tree per topic"
    MESH = "mesh"  # one copy to every broker that wants it, as the broker does by itself


class Mover(Enum):
    """How clients are made to go where they should be."""

    NOBODY = "nobody is moved"
    BALANCER = "the balancer ends their connection"
    LISTS = "their old server no longer lets them in"
    API = "the broker's API disconnects them"


@dataclass(frozen=True)
class Piece:
    """One file of an export. Without a place it is for people to read."""

    name: str  # below the folder of the export
    text: str
    place: Path | None = None  # where it is used
    tells: str = ""  # the broker that must read it again, or BALANCER
    needs_restart: bool = False


@dataclass(frozen=True)
class Remark:
    """Something `--check` has to say; an error stops `--apply`."""

    text: str
    is_error: bool = False


def _new_alone(piece: Piece, old: str) -> str:
    return piece.text


def _no_remarks(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    return ()


@dataclass(frozen=True)
class Target:
    """One way to write a plan down."""

    name: str
    says: str  # one sentence for people
    shape: LinkShape
    pieces: Callable[[BrokerFleet, FleetLayout], list[Piece]]
    moves: Mover = Mover.NOBODY
    merge: Callable[[Piece, str], str] = _new_alone  # the new piece and the text that is there now -> both together
    check: Callable[[BrokerFleet, FleetLayout], Sequence[Remark]] = _no_remarks
    ways: Callable[[BrokerFleet], Sequence[Way]] = lambda fleet: ()  # what passes between brokers as their files are
    speaks: str = "mqtt"  # or nats: how brokers are asked whether they are well
    is_tested: bool = True  # against the real program
