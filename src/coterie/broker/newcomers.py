"""What a change of the list of members means to the parts of a broker that count nodes."""

from __future__ import annotations

from coterie.broker.admitting import Admitting
from coterie.broker.cascades import Cascades
from coterie.broker.detours import Detours
from coterie.broker.hosting import Hosting
from coterie.broker.interest import InterestBook
from coterie.broker.keeperlists import KeeperLists, rendezvous
from coterie.broker.keeping import Keeping
from coterie.broker.links import PeerLinks
from coterie.broker.members import Members
from coterie.broker.planes import ControlPlanes
from coterie.broker.recovery import Recovery
from coterie.broker.takeover import Takeover
from coterie.broker.wards import Wards

LOST_US = 5_000_000


class MemberParts:
    """See the module. `servers` is what clients are told, shared by those who tell them."""

    def __init__(
        self, node: int, servers: dict[int, str], links: PeerLinks, hosting: Hosting, planes: ControlPlanes,
        cascades: Cascades, keeping: Keeping | None, lists: KeeperLists, wards: Wards, recovery: Recovery,
        takeover: Takeover, detours: Detours, book: InterestBook, admitting: Admitting | None,
    ) -> None:  # fmt: skip
        self.links, self.servers = links, servers
        self._node, self._keeping, self._lists, self._wards = node, keeping, lists, wards
        self._hosting, self._planes, self._cascades = hosting, planes, cascades
        self._recovery, self._takeover, self._detours, self._book = recovery, takeover, detours, book
        self._admitting = admitting

    def set(self, before: Members, after: Members) -> None:
        for one in after.entries:
            known = before.get(one.id)
            is_new = known is None or (known.host, known.port, known.server) != (one.host, one.port, one.server)
            if one.id == self._node:
                continue
            if one.state != "removed" and (is_new or not self.links.knows(one.id)):
                self.links.meet(one.id, one.host, one.port)
                if one.server:
                    self.servers[one.id] = one.server
            if one.state == "removed" and (known is None or known.state != "removed" or self.links.knows(one.id)):
                self._forget(one.id)
        for node in self.links.peers:
            if not after.has(node):  # the configuration named it, the list does not
                self._forget(node)
        leaving = [one.id for one in after.entries if one.state == "leaving"]
        for node in leaving:
            self.servers.pop(node, None)
        self._set_keepers(after)
        self._recovery.set_others(self.links.peers, lambda node: bool(self._lists.keepers(node)))
        self._takeover.set_members(leaving)

    def _forget(self, node: int) -> None:
        self.servers.pop(node, None)
        is_connected = self.links.is_connected(node)
        self.links.part(node)
        self._hosting.lost(node)
        self._cascades.lost(node)
        if self._planes.in_use.is_started:
            self._planes.lose(node)
        if is_connected:  # what was on its way through it
            self._recovery.disturb(max(1, self._recovery.now_us - LOST_US))
        self._detours.forget(node)
        self._book.remote.forget(node)
        if self._admitting is not None:
            self._admitting.reception.others.pop(node, None)

    def _set_keepers(self, members: Members) -> None:
        """Who is leaving keeps for nobody; and has somebody who keeps for it, whatever the settings say."""
        if self._keeping is None:
            return
        zones = {one.id: one.zone for one in members.entries if one.state == "in" or one.id == self._node}
        own = members.get(self._node)
        is_leaving = own is not None and own.state == "leaving"
        self._keeping.set_order(rendezvous(self._node, zones), 1 if is_leaving else 0)
        self._wards.set_members(zones, is_leaving)
