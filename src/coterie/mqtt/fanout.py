"""One message to all its local receivers: the loop that a broker spends its time in.

Both ways append to the `output` of every receiver's connection and put a session that had nothing to write before
on `dirty`; the driver writes and clears each of them once at the end of its loop turn.
"""

from __future__ import annotations

from coterie.mqtt.index import Match
from coterie.mqtt.properties import NO_PROPERTIES
from coterie.mqtt.publish import Message, PublishRun, SharedPublish, message_of, split_bare
from coterie.mqtt.session import Session


def fan_out_run(
    run: PublishRun, match: Match[Session], origin: Session | None, dirty: list[Session], now_s: float
) -> int:  # fmt: skip
    """Pass on plain QoS 0 messages of one topic as `origin` (None: somebody elsewhere) sent them in a row.

    A receiver of the same version with nothing special gets the received bytes themselves, the whole run at once. The
    rest goes the general way, with messages made only if there is such a receiver. Returns the deliveries.
    """
    frames, version = run.frames, run.version
    shared: list[SharedPublish] = []
    plain = delivered = 0
    for receiver in match.receivers:
        session = receiver.receiver
        if session.plain_version == version and receiver.is_plain:
            output = session.output
            if not output:
                dirty.append(session)
            output.append(frames)
            plain += 1
            continue
        if session is origin:
            if receiver.local is None:
                continue
            receiver = receiver.local
        shared = shared or _shared(run, match, origin, now_s)
        if not session.output:
            dirty.append(session)
        for one in shared:
            delivered += session.deliver(one, 0, False, receiver.identifiers, now_s)
    if match.groups:
        for one in shared or _shared(run, match, origin, now_s):
            delivered += _to_groups(one, match, dirty, now_s)
    return plain * run.count + delivered


def _shared(run: PublishRun, match: Match[Session], origin: Session | None, now_s: float) -> list[SharedPublish]:
    name = "" if origin is None else origin.client_id
    return [SharedPublish(message_of(publish, now_s, name), match.encoded) for publish in run.publishes()]


def fan_out(
    message: Message, match: Match[Session], origin: Session | None, dirty: list[Session], now_s: float
) -> int:  # fmt: skip
    """Deliver any message, each receiver once, at the lower of its QoS and the message's; returns the deliveries."""
    if message.expires_at_s is not None and message.expires_at_s <= now_s:
        return 0
    shared: SharedPublish | None = None  # made for those who need more than the next two lines say
    is_bare = message.properties is NO_PROPERTIES
    delivered = 0
    message_qos, message_retain = message.qos, message.retain
    key = packet_id = 0
    head = tail = frame = b""
    for receiver in match.receivers:
        session = receiver.receiver
        if session is origin:
            if receiver.local is None:
                continue
            receiver = receiver.local
        qos = receiver.qos if receiver.qos < message_qos else message_qos
        if not session.output:
            dirty.append(session)
        retain = message_retain and receiver.retain_as_published
        version = session.plain_version
        if qos and version and is_bare and not receiver.identifiers:
            # Most receivers look alike, so the two halves of the packet are mostly those of the receiver before; who
            # had the same messages so far gets the same identifiers, so mostly the whole packet is.
            if key != version << 3 | qos << 1 | retain:
                key, packet_id = version << 3 | qos << 1 | retain, 0
                head, tail = split_bare(match.encoded, match.heads, message.payload, version, qos, retain)
            if packet_id != session.last_packet_id + 1:
                packet_id = session.last_packet_id + 1
                frame = head + (packet_id & 0xFFFF).to_bytes(2, "big") + tail
            if session.send_plain(message, qos, retain, frame):
                delivered += 1
                continue
        shared = shared or SharedPublish(message, match.encoded)
        delivered += session.deliver(shared, qos, retain, receiver.identifiers, now_s)
    if match.groups:
        delivered += _to_groups(shared or SharedPublish(message, match.encoded), match, dirty, now_s)
    return delivered


def _to_groups(shared: SharedPublish, match: Match[Session], dirty: list[Session], now_s: float) -> int:
    message = shared.message
    delivered = 0
    for group in match.groups:
        member = group.choose(_is_ready)
        session = member.receiver
        if not session.output:
            dirty.append(session)
        retain = message.retain and member.retain_as_published
        qos = min(member.qos, message.qos)
        delivered += session.deliver(shared, qos, retain, member.identifiers, now_s)
    return delivered


def _is_ready(session: Session) -> bool:
    connection = session.connection
    return connection is not None and not connection.is_congested
