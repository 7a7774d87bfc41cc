"""One message to all its local receivers: the loop that a broker spends its time in.

Both functions append to the `output` of every receiver's connection and put a session that had nothing to write before
on `dirty`; the driver writes and clears each of them once at the end of its loop turn.
"""

from __future__ import annotations

from coterie.mqtt.index import Match
from coterie.mqtt.packets import Publish
from coterie.mqtt.publish import SharedPublish, message_of
from coterie.mqtt.session import Session


def fan_out_frame(
    publish: Publish, version: int, match: Match[Session], origin: Session, dirty: list[Session], now_s: float
) -> int:
    """Pass on a PUBLISH that has a `frame` (plain QoS 0), received in `version` from `origin`; returns the deliveries.

    A receiver of the same version with nothing special gets the received bytes themselves. The rest goes the general
    way, with a message made only if there is such a receiver.
    """
    frame = publish.frame
    shared: SharedPublish | None = None
    delivered = 0
    for receiver in match.receivers:
        session = receiver.receiver
        if session.plain_version == version and not receiver.identifiers and receiver.local is receiver:
            output = session.output
            if not output:
                dirty.append(session)
            output.append(frame)
            delivered += 1
            continue
        if session is origin:
            if receiver.local is None:
                continue
            receiver = receiver.local
        if shared is None:
            shared = SharedPublish(message_of(publish, now_s, origin.client_id), frame, version)
        if not session.output:
            dirty.append(session)
        delivered += session.deliver(shared, 0, False, receiver.identifiers, now_s)
    if match.groups:
        shared = shared or SharedPublish(message_of(publish, now_s, origin.client_id), frame, version)
        delivered += _to_groups(shared, match, dirty, now_s)
    return delivered


def fan_out(
    shared: SharedPublish, match: Match[Session], origin: Session | None, dirty: list[Session], now_s: float
) -> int:
    """Deliver any message, each receiver once, at the lower of its QoS and the message's; returns the deliveries."""
    message = shared.message
    if message.expires_at_s is not None and message.expires_at_s <= now_s:
        return 0
    delivered = 0
    message_qos, message_retain = message.qos, message.retain
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
        delivered += session.deliver(shared, qos, retain, receiver.identifiers, now_s)
    if match.groups:
        delivered += _to_groups(shared, match, dirty, now_s)
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
