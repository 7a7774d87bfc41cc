"""The links of a node: connections made when they are needed, watched, counted, bounded, and made again after a loss.

Either side may dial; should both do so at once, a pair has two connections for a while, and each side sends on the
older one, so that nothing is lost or reordered by closing one of them. A peer that cannot be reached is reported once
per attempt, and attempts follow a doubling back-off. Queues are bounded: above the limit events are shed and counted.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from coterie.broker.frames import BEAT, BEAT_FRAME, BYE, CONTROL, TRACKED_CONTROL
from coterie.broker.settings import LinkSection, PeerEntry
from coterie.errors import ConfigError
from coterie.protocol.wire import FRAME_BYTES_MAX
from coterie.runtime.channel import Channel

DIAL_TIMEOUT_S = 5.0
PENDING_BYTES_MAX = 4 << 20


@dataclass
class LinkCounts:
    dials: int = 0
    failed_dials: int = 0
    lost: int = 0
    refused: int = 0  # connections dropped for breaking the protocol or not proving who they are
    shed: int = 0
    bytes_in: int = 0  # of connections that are gone
    bytes_out: int = 0


class _Target:
    """What is known of reaching one peer."""

    def __init__(self, peer: PeerEntry) -> None:
        self.peer = peer
        self.channels: list[Channel] = []
        self.pending: list[bytes] = []
        self.pending_bytes = 0
        self.dialling: asyncio.Task[None] | None = None
        self.delay_s = 0.0
        self.next_try_s = 0.0
        self.was_up = False


class Links:
    """All links of one node. `on_frames(peer, frames)`, `on_up(peer)`, `on_lost(peer)`, `on_shed(peer)` tell it."""

    def __init__(
        self,
        network: str,
        system: str,
        node: int,
        keys: tuple[bytes, ...],
        peers: Iterable[PeerEntry],
        settings: LinkSection,
    ) -> None:
        self.network, self.system, self.node, self.keys = network, system, node, keys
        self.frame_bytes_max = FRAME_BYTES_MAX + 64
        self.settings = settings
        self.counts = LinkCounts()
        self.blocked: frozenset[int] = frozenset()
        self.on_frames: Callable[[int, list[tuple[int, bytes]]], None] = lambda peer, frames: None
        self.on_up: Callable[[int], None] = lambda peer: None
        self.on_lost: Callable[[int], None] = lambda peer: None
        self.on_shed: Callable[[int], None] = lambda peer: None
        self.log: Callable[[str], None] = lambda text: None
        self._loop = asyncio.get_running_loop()
        self._targets = {peer.id: _Target(peer) for peer in peers if peer.id != node}
        self._server: asyncio.Server | None = None
        self._strangers: set[Channel] = set()
        self._dirty: dict[Channel, None] = {}
        self._tick_s = self._start_s = self.now()
        self._is_closing = False
        self._server_tls, self._client_tls = _contexts(settings)

    @property
    def contexts(self) -> list[ssl.SSLContext]:
        """Of TLS, where links use it; certificates can be loaded into them again."""
        return [one for one in (self._server_tls, self._client_tls) if one is not None]

    def now(self) -> float:
        return self._loop.time()

    async def listen(self) -> int:
        """Open the peer port; returns its number."""
        settings = self.settings
        self._server = await self._loop.create_server(
            self._new_channel, settings.host, settings.port, ssl=self._server_tls, backlog=256
        )
        self._tick_s = self.now()
        self._loop.call_later(settings.heartbeat_s, self._tick)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def _new_channel(self, dialled: int | None = None) -> Channel:
        channel = Channel(self, dialled)
        self._strangers.add(channel)
        self._loop.call_later(DIAL_TIMEOUT_S, self._check_greeted, channel)
        return channel

    def _check_greeted(self, channel: Channel) -> None:
        if channel in self._strangers:
            if channel.transport is None:
                self._strangers.discard(channel)  # the connection never came about
            channel.abort("did not greet in time")

    def set_peer(self, peer: PeerEntry) -> None:
        """Tell where a peer is (its port may only be known once it runs)."""
        self._targets.setdefault(peer.id, _Target(peer)).peer = peer

    @property
    def peers(self) -> list[int]:
        return list(self._targets)

    @property
    def connected(self) -> list[int]:
        return [peer for peer, target in self._targets.items() if target.channels]

    def is_connected(self, peer: int) -> bool:
        target = self._targets.get(peer)
        return target is not None and bool(target.channels)

    def queue_bytes(self) -> int:
        return sum(channel.backlog_bytes for target in self._targets.values() for channel in target.channels)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that whoever sends much should wait too, long before anything is shed."""
        return self.queue_bytes() > self.settings.queue_bytes_max >> 3

    def traffic_bytes(self) -> tuple[int, int]:
        """(received, sent) since the start."""
        channels = [channel for target in self._targets.values() for channel in target.channels]
        return (
            self.counts.bytes_in + sum(channel.bytes_in for channel in channels),
            self.counts.bytes_out + sum(channel.bytes_out for channel in channels),
        )

    # --- sending ---

    def send(self, peer: int, data: bytes, is_event: bool = False, is_use: bool = True) -> bool:
        """Queue a frame; False if it was given up (shed, or the peer cannot be reached at present).

        What drivers say to all neighbours is no use of a link: else none would ever be idle.
        """
        target = self._targets.get(peer)
        if target is None:
            return False
        if target.channels:
            channel = target.channels[0]
            if channel.output_bytes + len(data) > self.settings.queue_bytes_max >> 3 and is_event:
                channel.flush(self.now())
                if channel.backlog_bytes > self.settings.queue_bytes_max:
                    self.counts.shed += 1
                    self.on_shed(peer)
                    return False
            channel.put(data)
            if is_use:
                channel.used_s = channel.sent_s
            self._dirty[channel] = None
            return True
        return self._send_later(target, data)

    def _send_later(self, target: _Target, data: bytes) -> bool:
        if target.dialling is None:
            if self._is_closing:
                return False
            if self.now() >= target.next_try_s:
                self._dial(target)
            elif not self._is_awaited(target):
                return False
        if target.pending_bytes + len(data) > PENDING_BYTES_MAX:
            self.counts.shed += 1
            self.on_shed(target.peer.id)
            return False
        target.pending.append(data)
        target.pending_bytes += len(data)
        return True

    def flush(self) -> None:
        """One write per connection with something to say; the end of a loop turn."""
        if self._dirty:
            now_s = self.now()
            for channel in self._dirty:
                channel.flush(now_s)
                if channel.backlog_bytes > 2 * self.settings.queue_bytes_max:
                    channel.abort("does not read what it is sent")
            self._dirty.clear()

    # --- reaching peers ---

    def want(self, peers: Iterable[int]) -> None:
        """Make links to these peers where there are none; losses show as such."""
        if self._is_closing:
            return
        for peer in peers:
            target = self._targets.get(peer)
            if target is None or target.channels or target.dialling is not None:
                continue
            if self.now() >= target.next_try_s:
                self._dial(target)

    def _dial(self, target: _Target) -> None:
        self.counts.dials += 1
        target.dialling = self._loop.create_task(self._connect(target))

    async def _connect(self, target: _Target) -> None:
        peer = target.peer
        try:
            if peer.id in self.blocked:
                raise OSError("blocked")
            make = self._loop.create_connection(
                partial(self._new_channel, peer.id), peer.host, peer.port, ssl=self._client_tls,
                server_hostname=f"node-{peer.id}" if self._client_tls else None,
            )  # fmt: skip
            _, channel = await asyncio.wait_for(make, DIAL_TIMEOUT_S)
            await channel.settled.wait()
        except (OSError, TimeoutError) as error:
            self.log(f"node {peer.id} cannot be reached at {peer.host}:{peer.port}: {error}")
        finally:
            target.dialling = None
            if not target.channels:
                self._failed(target)

    def _failed(self, target: _Target) -> None:
        self.counts.failed_dials += 1
        settings = self.settings
        target.delay_s = min(max(settings.backoff_s, 2 * target.delay_s), settings.backoff_s_max)
        target.next_try_s = self.now() + target.delay_s
        if self._is_awaited(target):
            self._loop.call_later(target.delay_s, self.want, [target.peer.id])
            return
        if target.pending:
            self.on_shed(target.peer.id)
        target.pending.clear()
        target.pending_bytes = 0
        if not self._is_closing:
            self.on_lost(target.peer.id)

    def _is_awaited(self, target: _Target) -> bool:
        """Nodes of a network start one after the other: who was never there is given some time."""
        return not target.was_up and self.now() - self._start_s < self.settings.patience_s and not self._is_closing

    # --- what channels tell ---

    def may_link(self, peer: int) -> bool:
        return peer in self._targets and peer not in self.blocked and not self._is_closing

    def opened(self, channel: Channel) -> None:
        self._strangers.discard(channel)
        channel.settled.set()
        target = self._targets[channel.peer]
        target.channels.append(channel)
        target.was_up = True
        target.delay_s = target.next_try_s = 0.0
        pending, target.pending, target.pending_bytes = target.pending, [], 0
        for data in pending:
            channel.put(data)
        self._dirty[channel] = None
        if len(target.channels) == 1:
            self.on_up(channel.peer)
        channel.flush(self.now())

    def closed(self, channel: Channel, reason: str) -> None:
        self.counts.bytes_in += channel.bytes_in
        self.counts.bytes_out += channel.bytes_out
        channel.settled.set()
        if channel in self._strangers:
            self._strangers.discard(channel)
            self.counts.refused += 1
            self.log(f"a connection with node {channel.peer} did not come about: {reason}")
            return
        self._dirty.pop(channel, None)
        target = self._targets[channel.peer]
        target.channels.remove(channel)
        if not channel.is_leaving and not self._is_closing:
            self.counts.lost += 1
            self.log(f"link to node {channel.peer} lost: {reason}")
            if not target.channels:
                target.next_try_s = self.now() + self.settings.backoff_s
                self.on_lost(channel.peer)

    def received(self, channel: Channel, frames: list[tuple[int, bytes]]) -> None:
        if any(kind == BYE for kind, _ in frames):
            channel.is_leaving = True
        said = [one for one in frames if one[0] not in (BEAT, BYE)]
        if said:
            if any(kind not in (CONTROL, TRACKED_CONTROL) for kind, _ in said):
                channel.used_s = channel.heard_s
            self.on_frames(channel.peer, said)

    # --- time ---

    def _tick(self) -> None:
        """Beat where nothing was said, give up who is silent, let go of what is idle."""
        if self._is_closing:
            return
        now_s, settings = self.now(), self.settings
        was_late = now_s - self._tick_s > settings.heartbeat_s + settings.silence_s / 2
        self._tick_s = now_s
        for target in self._targets.values():
            for channel in list(target.channels):
                if now_s - channel.heard_s > settings.silence_s and not was_late:
                    channel.abort(f"nothing heard for {settings.silence_s:g} s")
                elif now_s - channel.sent_s >= settings.heartbeat_s * 0.9:
                    channel.put(BEAT_FRAME)
                    channel.flush(now_s)
        self._loop.call_later(settings.heartbeat_s, self._tick)

    def release_idle(self, wanted: set[int], idle_s: float | None = None) -> None:
        """Close links that nobody wants and nothing uses."""
        now_s = self.now()
        idle_s = self.settings.idle_s if idle_s is None else idle_s
        for peer, target in self._targets.items():
            for channel in list(target.channels):
                if peer not in wanted and now_s - channel.used_s > idle_s:
                    channel.close()

    def block(self, peers: Iterable[int]) -> None:
        """Fault injection: cut these peers off, as a partition would; an empty list heals."""
        self.blocked = frozenset(peers)
        for peer in sorted(self.blocked):
            target = self._targets.get(peer)
            for channel in list(target.channels) if target else ():
                channel.abort("blocked")

    async def close(self) -> None:
        self._is_closing = True
        if self._server is not None:
            self._server.close()
        for target in self._targets.values():
            if target.dialling is not None:
                target.dialling.cancel()
            for channel in list(target.channels):
                channel.flush(self.now())
                assert channel.transport is not None
                channel.transport.close()
        for channel in list(self._strangers):
            channel.abort("the node stops")
        await asyncio.sleep(0)


def _contexts(settings: LinkSection) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Mutual TLS for both directions, or nothing."""
    if not settings.certificate:
        return None, None
    try:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings.authority)
        client = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.authority)
        for context in (server, client):
            context.load_cert_chain(settings.certificate, settings.certificate_key or None)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("links.certificate", settings.certificate, f"a usable certificate: {error}") from None
    server.minimum_version = client.minimum_version = ssl.TLSVersion.TLSv1_2
    return server, client
