"""What travels on a link between two nodes: the frame, and what the drivers themselves have to say to each other.

A frame is a length (4 bytes), a kind (1 byte) and a body; all but the greeting (HELLO) travel in sealed records. The
body of a MESSAGE is the tag of the plan it belongs to (1 byte, see `planes`) and the system's own codec, which begins
with its version. TRACKED frames carry a number in front of the body: the receiver answers DONE with that number when
everything the frame caused has been dealt with (see `cascades`).
"""

from __future__ import annotations

import struct
from typing import Any, get_args

import msgspec

from coterie.broker.said import AboutLeaves, AboutMembers, AboutRenewal, AboutSiblings, Said, Unheard
from coterie.broker.writes import Since
from coterie.errors import RemoteProtocolError
from coterie.mqtt.packets import Subscription
from coterie.protocol.wire import FRAME_BYTES_MAX, MALFORMED, read_as

LINK_VERSION = 9
# Nodes of two versions in a row work together, so that they can be upgraded one after the other. The newer says nothing
# that the older must understand: fields are added at the end, with defaults; what is new altogether is not heard.
SPOKEN = (LINK_VERSION - 1, LINK_VERSION, LINK_VERSION + 1)
HELLO, PROOF, MESSAGE, TRACKED_MESSAGE, CONTROL, TRACKED_CONTROL, DONE, BEAT, BYE = range(9)
_HEAD = struct.Struct(">IB")
_CONTROL_HEAD = struct.Struct(">IBB")
_NUMBER = struct.Struct(">Q")


def frame(kind: int, body: bytes, number: int | None = None) -> bytes:
    if number is None:
        return _HEAD.pack(len(body), kind) + body
    return _HEAD.pack(len(body) + 8, kind) + _NUMBER.pack(number) + body


BEAT_FRAME = frame(BEAT, b"")
BYE_FRAME = frame(BYE, b"")


def numbered(body: bytes) -> tuple[int, bytes]:
    """The number and the rest of a TRACKED or DONE body."""
    if len(body) < 8:
        raise RemoteProtocolError("a frame is too short for its number")
    return _NUMBER.unpack_from(body)[0], body[8:]


def greeting_in(data: bytes, bytes_max: int) -> tuple[bytes, bytes] | None:
    """(the body of a HELLO, what comes behind it); None while it is not whole."""
    if len(data) < 5:
        return None
    length, kind = _HEAD.unpack_from(data)
    if kind != HELLO or length > bytes_max:
        raise RemoteProtocolError("the first frame is no greeting")
    return (data[5 : 5 + length], data[5 + length :]) if len(data) >= 5 + length else None


class FrameReader:
    """Chunks to frames; nothing beyond one frame of the largest size is kept."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX + 64) -> None:
        self.bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._missing = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        if self._missing > len(data):
            self._missing -= len(data)
            self._pieces.append(data)
            return []
        if self._pieces:
            data = b"".join([*self._pieces, data])
            self._pieces = []
        found = []
        pos, size = 0, len(data)
        self._missing = 0
        while size - pos >= 5:
            length, kind = _HEAD.unpack_from(data, pos)
            if length > self.bytes_max:
                raise RemoteProtocolError(f"a frame of {length} bytes, at most {self.bytes_max} are taken")
            if kind > BYE:
                raise RemoteProtocolError(f"a frame of unknown kind {kind}")
            end = pos + 5 + length
            if end > size:
                self._missing = end - size
                break
            found.append((kind, data[pos + 5 : end]))
            pos = end
        if pos < size:
            self._pieces = [data[pos:]]
            self._missing = self._missing or 5 - (size - pos)
        return found


# --- what drivers say to each other ---


class WantedFilters(Said, frozen=True):
    """All wildcard filters and shared groups wanted at a node; the greatest version is the last word. Flooded."""

    node: int
    version: int
    filters: tuple[str, ...]
    shares: tuple[str, ...] = ()


class Disturbed(Said, frozen=True):
    """Something may have been lost anywhere that long ago or later: everyone says what it published since. Flooded."""

    number: int
    ago_us: int


class Digest(Said, frozen=True):
    """What one node published at QoS 1 and 2 between two moments: topic and events, part by part. Flooded."""

    origin: int
    number: int
    since_us: int
    until_us: int
    is_last: bool
    is_answer: bool  # to one node that asked: not passed on
    lag_us: int  # how long ago `until_us` is, by the origin's clock as all of it
    events: tuple[tuple[str, tuple[int, ...]], ...]


class AskDigest(Said, frozen=True):
    """Tell me what you published in so long a time; or what that other node did, whose keeper you are."""

    ago_us: int
    origin: int = -1


class Want(Said, frozen=True):
    """Send me these of your events."""

    events: tuple[int, ...]


class LogCopies(Said, frozen=True):
    """Events that were asked for: identifier and the carried message."""

    events: tuple[tuple[int, bytes], ...]


class LogGone(Said, frozen=True):
    """Of these events that were asked for there is nothing left."""

    events: tuple[int, ...]


class LogHeads(Said, frozen=True):
    """The last publication of each of these nodes that I have heard of; and the time by which I stamp what is retained
    (0: not told)."""

    heads: tuple[int, ...]
    words_us: int = 0


class AskRetained(Said, frozen=True):
    """Send me all retained messages."""


class Retained(Said, frozen=True):
    """Some of them: when each was published, and the carried message; `is_spread`: whoever did not know tells on."""

    messages: tuple[tuple[int, bytes], ...]
    is_spread: bool = False


class SentOff(Said, frozen=True):
    """This client left me then and is on its way to you; I keep what comes for it."""

    client: str
    left_us: int


class ClaimSession(Said, frozen=True):
    """The client has subscribed here as this user: send me what you kept for it."""

    client: str
    owner: str | None = None


class Handed(Said, frozen=True):
    """What was kept: the QoS of each delivery and the carried message."""

    client: str
    messages: tuple[tuple[int, bytes], ...]
    is_last: bool


class Taken(Said, frozen=True):
    """I have it all: its session at your node can end."""

    client: str


class PlanInForce(Said, frozen=True):
    """I publish by the plan of this generation; so shall whoever has it ready. Flooded."""

    generation: int


class Wanting(Said, frozen=True):
    """How a node is and what is wanted there, for `reception`: what changed since the version before, or all of it.

    Flooded, unless its node reached everybody itself. `is_part`: the whole goes on from the message before.
    """

    node: int
    version: int
    connections: int
    wishes: int
    messages_per_s: float
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    is_whole: bool = False
    is_part: bool = False
    reached_all: bool = False


class AskWanting(Said, frozen=True):
    """I missed something of that node: tell me all that you know of it."""

    node: int


class Sent(Said, frozen=True):
    """This client is new and belongs to you: say that you expect it, and it will come."""

    client: str


class Expected(Said, frozen=True):
    """Let it come; I shall not send it on."""

    client: str


class OpenDetours(Said, frozen=True):
    """Who publishes on one of these channels sends that node a copy; the greatest version is the last word. Flooded."""

    node: int
    version: int
    channels: tuple[str, ...]


class Detoured(Said, frozen=True):
    """Such a copy: a carried message."""

    body: bytes


class AskKept(Said, frozen=True):
    """I am in this life and want you to keep what I keep: what do you have of me?"""

    life: int


class Keep(Said, frozen=True):
    """What I wrote since the serial before, at that moment of my clock: `copies.pack_rows`."""

    life: int
    serial: int
    now_us: int
    rows: bytes


class HoldFor(Said, frozen=True):
    """That node is away, and this is what I keep for it, as of so long ago: `AskKept`, `KeepAll` or `KeepLog`."""

    node: int
    ago_us: int
    said: bytes


class HeldFor(Said, frozen=True):
    """What I have of that node, as in `Kept`."""

    node: int
    life: int
    serial: int
    log_first: int
    log_last: int


class KeepAll(Said, frozen=True):
    """All that I keep but the log, part by part, as of this serial; my log ends with `log_last` then."""

    life: int
    serial: int
    now_us: int
    rows: bytes
    log_last: int
    is_first: bool
    is_last: bool


class KeepLog(Said, frozen=True):
    """All of my log from `first` to `last`: publication, topic, body."""

    first: int
    last: int
    rows: tuple[tuple[int, bytes, bytes], ...]


class Kept(Said, frozen=True):
    """This is on my disk: all up to that serial of that life, and the log without a hole from there to there."""

    life: int
    serial: int
    log_first: int
    log_last: int


class KeptBy(Said, frozen=True):
    """These keep copies for that node; the greatest version is the last word. Flooded."""

    node: int
    version: int
    keepers: tuple[int, ...]


class SeekSession(Said, frozen=True):
    """A client of this user came to me and may have a session: do you have it, or a copy of it?

    Without `has_client` nobody came: it is looked for because its node leaves, or was removed.
    """

    client: str
    user: str | None = None
    has_client: bool = True


class FoundSession(Said, frozen=True):
    """`kind`: none, seeking (its client is here too, and I have none, or you have no client), owner, other (mine, and
    another user's), or copy: of that node, as of that life and serial. `without`: nodes that I have a copy of without
    it, with life and serial of each."""

    client: str
    kind: str
    epoch: int
    of: int
    is_others: bool = False
    life: int = 0
    serial: int = 0
    without: tuple[tuple[int, int, int], ...] = ()


class HandOver(Said, frozen=True):
    """The client is here now: close what it has there, and tell me what it wants; it is that node's session. The answer
    says the number again."""

    client: str
    of: int
    number: int = 0


Wished = tuple[tuple[str, int, Since], ...]


class HandsOver(Said, frozen=True):
    """This it wants; I collect for it until somebody has it.

    `wished`: filter, how long ago (us) it was first wanted here, and how far each origin was then.
    """

    client: str
    subscriptions: tuple[Subscription, ...]
    wished: Wished = ()
    is_gone: bool = False
    number: int = 0


class AskSession(Said, frozen=True):
    """What it wants reaches me now: send me all of the session. The answer says the number again."""

    client: str
    of: int
    number: int = 0


class GivenSession(Said, frozen=True):
    """A session, part by part: a `SessionState`; and how far each origin and topic was dealt with, as of so long ago.

    Of the origin `floor` names everything was, up to there.
    """

    client: str
    state: bytes
    marks: tuple[tuple[int, str, int], ...]
    floor: tuple[int, int]
    ago_us: int
    is_last: bool
    is_gone: bool = False
    floors: tuple[tuple[int, int], ...] = ()  # the same of nodes where it was shortly before
    ahead: tuple[int, ...] = ()  # these were dealt with too, beyond something that is missing
    number: int = 0


class MovedSessions(Said, frozen=True):
    """These are mine, in these epochs, of these users: whoever has an older one of the same user forgets it.

    `came`: how long ago (us) the client of each came to me; -1: not since I was started.
    """

    sessions: tuple[tuple[str, int, str | None], ...]
    came: tuple[int, ...] = ()


class EndSession(Said, frozen=True):
    """This client of this user began afresh at my node."""

    client: str
    user: str | None = None


Follows = (
    SeekSession | FoundSession | HandOver | HandsOver | AskSession | GivenSession | MovedSessions | EndSession
)  # fmt: skip
AboutCopies = AskKept | Keep | KeepAll | KeepLog | Kept | KeptBy | HoldFor | HeldFor
Entering = Wanting | AskWanting | Sent | Expected
Moves = SentOff | ClaimSession | Handed | Taken
ControlMessage = (
    Moves | Entering | PlanInForce | WantedFilters | Disturbed | Digest | AskDigest | Want | LogCopies | AskRetained
    | Retained | OpenDetours | Detoured | LogGone | LogHeads | AboutCopies | Follows
    | AboutMembers | AboutLeaves | AboutRenewal | AboutSiblings | Unheard
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ControlMessage).decode
_decode_head = msgspec.msgpack.Decoder(list[Any]).decode
KINDS = frozenset(one.__struct_config__.tag for one in get_args(ControlMessage))


def encode_control(message: ControlMessage) -> bytes:
    return bytes((LINK_VERSION,)) + _encode(message)


def control_frame(message: ControlMessage) -> bytes:
    """The same as a whole frame: what is long in it is put together once."""
    body = _encode(message)
    return _CONTROL_HEAD.pack(len(body) + 1, CONTROL, LINK_VERSION) + body


def decode_control(body: bytes) -> ControlMessage:
    if not body or body[0] not in SPOKEN:
        raise RemoteProtocolError("a control frame of another version")
    try:
        said: ControlMessage = _decode(memoryview(body)[1:])
        return said
    except MALFORMED as error:
        if body[0] > LINK_VERSION and _is_new(body):
            return Unheard()
        raise RemoteProtocolError(f"malformed control message: {error}") from None


def _is_new(body: bytes) -> bool:
    """Whether it is well-formed, and of a kind that this version does not have."""
    try:
        return _decode_head(memoryview(body)[1:])[0] not in KINDS
    except (*MALFORMED, IndexError):
        return False


NEWCOMER = 4096  # in a greeting: somebody who would like to have a number


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first frame in each direction."""

    version: int
    network: str
    system: str
    node: int
    public: bytes


_decode_hello = msgspec.msgpack.Decoder(Hello).decode


def decode_hello(body: bytes) -> Hello:
    return read_as(_decode_hello, body, "greeting")


def encode_hello(hello: Hello) -> bytes:
    return _encode(hello)
