"""What brokers say to each other about members, and the base of all that they say beside the systems' messages."""

from __future__ import annotations

from typing import Literal

import msgspec


class Said(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of the control messages."""


class Unheard(Said, frozen=True):
    """What a newer version says, and this one does not know."""


# --- the list of members ---


class ListOfMembers(Said, frozen=True):
    """This list was chosen (`members.Members`). Flooded, and told first thing on a new link."""

    members: bytes


class KnowsMembers(Said, frozen=True):
    """I know the list of this epoch."""

    epoch: int


class PrepareMembers(Said, frozen=True):
    """I want to propose the list of this epoch, because these are dead; a ballot is a round and a node."""

    epoch: int
    ballot: tuple[int, int]
    dead: tuple[int, ...] = ()


class PromiseMembers(Said, frozen=True):
    """I take nothing below this ballot any more; `value` I had accepted with ballot `accepted`."""

    epoch: int
    ballot: tuple[int, int]
    accepted: tuple[int, int]
    value: bytes


class ProposeMembers(Said, frozen=True):
    epoch: int
    ballot: tuple[int, int]
    value: bytes


class AcceptMembers(Said, frozen=True):
    epoch: int
    ballot: tuple[int, int]


class RefuseMembers(Said, frozen=True):
    """Not with this ballot: I promised a greater one; or not at all, for this reason."""

    epoch: int
    ballot: tuple[int, int]
    promised: tuple[int, int]
    reason: str = ""


class AskJoin(Said, frozen=True):
    """Make me a member (`members.MemberEntry`)."""

    member: bytes


class AnswerJoin(Said, frozen=True):
    """You are one of these; or not, and why."""

    members: bytes
    reason: str = ""


class TakeSessions(Said, frozen=True):
    """I am leaving: take these sessions (client and user) from me."""

    sessions: tuple[tuple[str, str | None], ...]


# --- leaves and hosts ---


class HangOn(Said, frozen=True):
    """I am in no plan: be my host, and forget what I wanted before."""


class Hosted(Said, frozen=True):
    """I am. Or not: I hang on somebody myself, or am leaving."""

    is_host: bool


class LeafWants(Said, frozen=True):
    topics: tuple[str, ...]


class LeafServed(Said, frozen=True):
    """From now on whatever anybody publishes on these reaches me, and so you."""

    topics: tuple[str, ...]


class LeafDrops(Said, frozen=True):
    topics: tuple[str, ...]


class LeafPlanned(Said, frozen=True):
    """The plan of this generation names me: pass on nothing that comes by it."""

    generation: int


class LeafEvent(Said, frozen=True):
    """An event of a leaf, for everybody; or one for it."""

    id: int
    topic: str
    payload: bytes
    hops: int


# --- the network's own plan ---


class OfferPlan(Said, frozen=True):
    """Load this part (`plans.orders.PlanPart`), start it, or drop it; and say how it stands."""

    generation: int
    phase: Literal["load", "start", "drop"]
    part: bytes


class PlanStands(Said, frozen=True):
    """That is done here; or not yet; or not at all, for this reason."""

    generation: int
    phase: Literal["load", "start", "drop"]
    is_done: bool
    reason: str = ""


# --- processes of one machine ---


class SiblingWants(Said, frozen=True):
    """What is wanted in my process (`siblings`): what changed, or all of it; a kind of -1 is given up.

    With it you know everything up to this number of mine on the board (0: more comes). `is_by_itself`: I know of no
    node that is not a process of this machine. `has_lasting`: sessions that outlive their connections are here.
    """

    number: int
    wants: tuple[tuple[str, int], ...]
    is_whole: bool
    is_by_itself: bool
    has_lasting: bool


class BareRun(msgspec.Struct, array_like=True, tag=0):
    """Messages at QoS 0 as a client sent them (`mqtt.publish.PublishRun`); the first has this identifier."""

    topic: str
    frames: bytes
    count: int
    payload_bytes: int
    version: int
    first: int


class OwedRun(msgspec.Struct, array_like=True, tag=1):
    """Messages at QoS 1 of one client on one topic, and the publication on that topic before them."""

    topic: str
    publisher: str
    before: int
    ids: list[int]
    payloads: list[bytes]


class SiblingRuns(Said, frozen=True):
    """What you want of what my clients said in this turn, with a serial where somebody is owed something of it.

    Without any it is a question: what do you have?
    """

    serial: int
    runs: list[BareRun | OwedRun]


class SiblingTook(Said, frozen=True):
    """I have everything up to that serial: if you fall now, nobody here misses it."""

    serial: int


class AskRoom(Said, frozen=True):
    """Would you take a client of mine (`transfers`)? This is my number for it; I have so many connections."""

    number: int
    connections: int


class HasRoom(Said, frozen=True):
    """I would; or not."""

    number: int
    is_so: bool


class ClientComes(Said, frozen=True):
    """You get its socket: it connected with this as that user, until its proof ends, and has sent this since."""

    number: int
    connect: bytes
    user: str | None
    until_s: float | None
    sent: bytes


AboutMembers = (
    ListOfMembers | KnowsMembers | PrepareMembers | PromiseMembers | ProposeMembers | AcceptMembers | RefuseMembers
    | AskJoin | AnswerJoin | TakeSessions
)  # fmt: skip
AboutRenewal = OfferPlan | PlanStands
AboutLeaves = HangOn | Hosted | LeafWants | LeafServed | LeafDrops | LeafPlanned | LeafEvent
AboutSockets = AskRoom | HasRoom | ClientComes
AboutSiblings = SiblingWants | SiblingRuns | SiblingTook | AboutSockets
