"""Joining a network: knock at a member, prove the key, ask for a place on the list of members, write the list down.

A token, made once in the data folder, says that it is this node that asks. So a node that was killed in the middle asks
again and gets the same answer; one that has the list on its disk asks nobody any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle

from coterie.broker.facts import Fact, PeerSaid
from coterie.broker.frames import CONTROL, NEWCOMER, decode_control, encode_control, frame
from coterie.broker.members import MemberEntry, pack_members, unpack_members
from coterie.broker.membership import MEMBERS
from coterie.broker.said import AnswerJoin, AskJoin
from coterie.broker.writes import META
from coterie.errors import ConfigError, RemoteProtocolError, RunError
from coterie.live.config import NodeConfig
from coterie.live.peers import PeerSocket, link_tls
from coterie.live.store import Store
from coterie.live.tokens import kept_token

MEMBER_TOKEN = "member.token"
ANSWER_S = 30.0
AGAIN_S = 2.0


class Newcomer:
    """The owner of one socket: asks once it is open, and ends with the answer or the reason why there is none."""

    def __init__(self, config: NodeConfig, member: MemberEntry) -> None:
        self.network, self.system, self.node = config.network.name, config.network.system, NEWCOMER
        self.keys = config.keys()
        self.choke_bytes = config.links.queue_bytes_max >> 3
        self.bytes_in = self.bytes_out = 0
        self.answer: asyncio.Future[AnswerJoin] = asyncio.get_running_loop().create_future()
        self._member = member

    def objection(self, node: int) -> str:
        return ""

    def opened(self, one: PeerSocket) -> None:
        one.write([frame(CONTROL, encode_control(AskJoin(pack_members(self._member))))])

    def take(self, fact: Fact, /) -> None:
        for kind, body in fact.frames if isinstance(fact, PeerSaid) else ():
            found = decode_control(body) if kind == CONTROL else None
            if isinstance(found, AnswerJoin) and not self.answer.done():
                self.answer.set_result(found)

    def choked(self, one: PeerSocket, is_choked: bool) -> None:
        """It says one thing only."""

    def closed(self, one: PeerSocket, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(RemoteProtocolError(reason))


def member_of(config: NodeConfig, token: str) -> MemberEntry:
    """What the others shall know of this node: as it stands among its own peers, if it does."""
    own = next((peer for peer in config.network.peers if peer.id == config.node.id), None)
    host, port = (config.links.host, config.links.port) if own is None else (own.host, own.port)
    zone = config.network.zone or ("" if own is None else own.zone)
    return MemberEntry(config.node.id, config.name, host, port, "" if own is None else own.server, zone, token)


async def joined(config: NodeConfig, store: Store, log: Callable[[str], None]) -> None:
    """Until this node is on the list and the list on its disk; RunError if it is not wanted."""
    if any(key == MEMBERS for key, _ in store.saved().rows(META)):
        return
    token, _ = kept_token(config.data / MEMBER_TOKEN)
    member = member_of(config, token)
    for place in cycle(config.network.join):
        host, port = place_in(place)
        log(f"asks {host}:{port} to let it join {config.network.name}")
        try:
            found = await _asked(config, member, host, port)
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            log(f"{host}:{port} did not answer ({error or type(error).__name__}); tried again in {AGAIN_S:g} s")
            await asyncio.sleep(AGAIN_S)
            continue
        if found.reason:
            raise RunError(f"{host}:{port} does not let this node join: {found.reason}")
        unpack_members(found.members)
        store.keep([(META, MEMBERS, found.members)])
        return


async def _asked(config: NodeConfig, member: MemberEntry, host: str, port: int) -> AnswerJoin:
    owner = Newcomer(config, member)
    _, tls = link_tls(config.link_section)
    async with asyncio.timeout(ANSWER_S):
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: PeerSocket(owner, True), host, port, ssl=tls
        )
        try:
            return await owner.answer
        finally:
            transport.abort()


def place_in(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError("network.join", text, "HOST:PORT of the links of a member")
    return host.strip("[]"), int(port)
