"""Who belongs to the network, and what follows from that here: links, keepers, whom to ask for a session (decision 20).

The list is agreed upon by `decrees`. A change that is wanted here is tried until it is in the list, or cannot be. A
node that joined takes clients once it is known widely enough: before that nobody could ask it for a session.
"""

from __future__ import annotations

from itertools import count

import msgspec

from coterie.broker.clients import Clients
from coterie.broker.commands import Setup
from coterie.broker.decrees import Decrees
from coterie.broker.facts import Knocked
from coterie.broker.frames import (
    CONTROL,
    NEWCOMER,
    TRACKED_CONTROL,
    decode_control,
    encode_control,
    frame,
    numbered,
)
from coterie.broker.members import (
    ListChange,
    MemberEntry,
    Members,
    check_removal,
    founding,
    is_beside,
    pack_members,
    unpack_member,
    unpack_members,
)
from coterie.broker.newcomers import MemberParts
from coterie.broker.orders import AnswerDoor, Fail, LeaveNetwork
from coterie.broker.planes import ControlPlanes
from coterie.broker.said import (
    AboutMembers,
    AnswerJoin,
    AskJoin,
    KnowsMembers,
    ListOfMembers,
    PrepareMembers,
    ProposeMembers,
)
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import META, Saved
from coterie.errors import RemoteProtocolError
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling

MEMBERS, SETTLED = "members", "settled"
MEMBER_TIMER = "member"
LOOK_S = 0.3
TRY_S = 0.5  # between two ballots; nodes wait differently long, so that two do not outbid each other for ever
STEP_S = 0.13
KNOWN_S = 5.0  # a member that has not said so by then does not hold up a newcomer, nor somebody who has left
LAST_WORDS_S = 60.0  # who has left tries for so long to tell anybody
OUTCOMES_MAX = 32
JOINING = Ruling(Reason.SERVER_UNAVAILABLE, detail="this node is joining its network; try again")


class Membership:
    """See the module. `members` is the list in force."""

    def __init__(
        self, setup: Setup, talk: Talk, planes: ControlPlanes, parts: MemberParts, clients: Clients, turn: Turn
    ) -> None:
        self.members = founding(setup)
        self.outcomes: dict[int, str] = {}
        self._node, self._links = setup.node, parts.links
        self._talk, self._planes, self._parts, self._clients, self._turn = talk, planes, parts, clients, turn
        self._decrees = Decrees(setup.node, talk, turn)
        self._changes: dict[int, ListChange] = {}
        self._numbers = count(1)
        self._tried_s = self._began_s = -TRY_S
        self._known: dict[int, int] = {}  # peer -> the epoch it knows
        self._is_settled = True
        self._left_s: float | None = None  # since when this node is no member, and tells others so
        self._is_looking = False

    # --- a node's start ---

    def load(self, saved: Saved) -> None:
        """Before links are made: the list may be another than the configuration's."""
        found = {key: value for key, value in saved.rows(META) if key in (MEMBERS, SETTLED)}
        self._decrees.load(saved)
        before = self.members
        if MEMBERS in found:
            self.members = unpack_members(found[MEMBERS])
            self._parts.set(before, self.members)
        own = self.members.get(self._node)
        if own is not None and own.token and SETTLED not in found:
            self._is_settled, self._began_s = False, self._turn.now_s
            self._clients.turned_away = JOINING

    def start(self) -> None:
        if self.members.was_removed(self._node):
            self._end()
        elif not self._is_settled:
            self._links.want(self._links.peers)
        self._look_later()

    @property
    def own(self) -> MemberEntry:
        found = self.members.get(self._node)
        assert found is not None
        return found

    @property
    def is_settled(self) -> bool:
        """Whether clients are taken."""
        return self._is_settled

    # --- changes ---

    def want(self, change: ListChange) -> int:
        """Have the list changed; returns a number by which `outcomes` tells what became of it."""
        number = next(self._numbers)
        self._changes[number] = change
        self.outcomes[number] = "under way"
        while len(self.outcomes) > OUTCOMES_MAX:
            del self.outcomes[next(iter(self.outcomes))]
        self._review()
        self._try()
        return number

    def remove(self, node: int, keepers: tuple[int, ...], is_forced: bool) -> int:
        """An operator's word; ConfigError if it cannot be. Who is gone and nobody speaks for would count as having
        nothing: clients would be told that their sessions are gone while a keeper that is away has them."""
        check_removal(self.members, node, keepers, self._links.connected, is_forced, self._node)
        return self.want(ListChange("remove", (node,), is_forced=is_forced))

    def _review(self) -> None:
        """What is done, and what can never be."""
        for number, change in list(self._changes.items()):
            objection = self.members.objection(change)
            if objection or self.members.has_done(change):
                self._finish(number, change, objection)

    def _finish(self, number: int, change: ListChange, objection: str) -> None:
        del self._changes[number]
        self.outcomes[number] = f"refused: {objection}" if objection else "done"
        if change.door >= 0:
            data = b"" if objection else pack_members(self.members)
            if data:  # the answer leaves behind this write: who is told that it is a member must not be forgotten
                self._turn.write(META, MEMBERS, data)
            self._answer(change.door, AnswerJoin(data, objection))

    def _try(self) -> None:
        """The next ballot, if somebody wants something."""
        self._look_later()
        now_s, members = self._turn.now_s, self.members
        rank = members.present.index(self._node) if members.has(self._node) else 0
        if now_s - self._tried_s < TRY_S + STEP_S * rank:
            return
        change = next(iter(self._changes.values()), None)
        if change is None:
            return
        self._tried_s = now_s
        removed = change.nodes if change.kind == "remove" else ()
        voters = [node for node in members.present if not (change.is_forced and node in removed)]
        there = [node for node in voters if node == self._node or self._links.is_connected(node)]
        if 2 * len(there) <= len(voters):  # a ballot that cannot be won costs a write
            self._links.want([node for node in voters if node != self._node])
            return
        dead = () if change.is_forced else tuple(node for node in removed if node != self._node)
        chosen = self._decrees.propose(members.after(change), voters, self._links.connected, dead)
        if chosen is not None:
            self._adopt(chosen)

    def on_time(self) -> None:
        self._is_looking = False
        if refusal := self._decrees.refusal:
            self._decrees.refusal = ""
            number, change = next(iter(self._changes.items()), (0, None))
            if change is not None and change.kind == "remove":
                self._finish(number, change, refusal)
        self._try()
        self._settle()
        self._leave()
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_looking and (self._changes or not self._is_settled or self._left_s is not None):
            self._is_looking = True
            self._turn.set_timer((MEMBER_TIMER,), LOOK_S)

    def _settle(self) -> None:
        """Whether this node, which joined, is known widely enough."""
        if self._is_settled:
            return
        others = [node for node in self.members.present if node != self._node]
        self._links.want(others)
        knowing = [node for node in others if self._known.get(node, 0) >= self.members.epoch]
        is_late = self._turn.now_s - self._began_s > KNOWN_S
        is_wide = len(knowing) == len(others) or (is_late and 2 * (len(knowing) + 1) > len(others) + 1)
        # Where nobody whom the plan names is left to be its host, everything goes by detours.
        if is_wide and (self._planes.in_use.is_attached or is_late):
            self._is_settled = True
            self._clients.turned_away = None
            self._turn.write(META, SETTLED, b"\x01")
            self._turn.say(f"this node is a member of its network now, one of {len(self.members.present)}")

    # --- the list ---

    def _adopt(self, members: Members, source: int = -1) -> None:
        """It was chosen."""
        before, self.members = self.members, members
        self._decrees.forget(members.epoch)
        data = pack_members(members)
        self._turn.write(META, MEMBERS, data)
        self._talk.flood(ListOfMembers(data), but=source)
        self._parts.set(before, members)
        self._say_changes(before)
        self._review()
        if members.was_removed(self._node) and not before.was_removed(self._node):
            self._end(before)

    def _say_changes(self, before: Members) -> None:
        for one in self.members.entries:
            known = before.get(one.id)
            if known is None:
                self._turn.say(f"node {one.id} ({one.name}, {one.host}:{one.port}) joins the network")
            elif known.state != one.state:
                self._turn.say(f"node {one.id} is {one.state}" + (" the network" if one.state == "leaving" else ""))

    def _end(self, before: Members | None = None) -> None:
        was_leaving = before is None or (own := before.get(self._node)) is None or own.state == "leaving"
        if was_leaving:
            self._left_s = self._turn.now_s
            self._clients.stop()  # nothing is acknowledged any more
            self._leave()
            self._look_later()
        else:
            told = f"node {self._node} was removed from the network by an operator, and no number is used twice"
            self._turn.orders.append(Fail(f"{told}: to come back, give it another node.id and an empty data folder"))

    def _leave(self) -> None:
        """Behind the list, once others know it: nobody else may know that it was chosen, and without this node there
        may be no majority that could choose another."""
        if self._left_s is None:
            return
        others, waited_s = self.members.present, self._turn.now_s - self._left_s
        knowing = [node for node in others if self._known.get(node, 0) >= self.members.epoch]
        if len(knowing) == len(others) or (knowing and waited_s > KNOWN_S) or waited_s > LAST_WORDS_S:
            self._left_s = None
            self._links.ending.append(LeaveNetwork(f"node {self._node} has left the network"))
        else:
            for node in knowing:
                self._links.part(node)
            self._links.want(node for node in others if node not in knowing)

    def greet(self, peer: int) -> None:
        """First thing on a new link."""
        if self.members.epoch:
            self._talk.tell(peer, ListOfMembers(pack_members(self.members)))

    def hear(self, peer: int, said: AboutMembers) -> None:
        match said:
            case ListOfMembers():
                members = unpack_members(said.members)
                known = KnowsMembers(max(self.members.epoch, members.epoch))
                is_told = self._links.knows(peer) and self._talk.tell(peer, known)  # by that list it may be no member
                self._learn(members, peer)
                if not is_told and self._links.knows(peer):
                    self._talk.tell(peer, known)
                self._note_known(peer, members.epoch)  # who tells a list knows it, and does not say so again
            case KnowsMembers():
                self._note_known(peer, said.epoch)
                if said.epoch < self.members.epoch:
                    self.greet(peer)
            case PrepareMembers() | ProposeMembers() if said.epoch != self.members.epoch + 1:
                self.greet(peer)  # it is behind; or this node is, and hears of it by the answer
                self._talk.tell(peer, KnowsMembers(self.members.epoch))
            case _:
                chosen = self._decrees.hear(peer, said, self._links.connected)
                if chosen is not None and chosen.epoch == self.members.epoch + 1:
                    self._adopt(chosen)

    def _note_known(self, peer: int, epoch: int) -> None:
        self._known[peer] = max(epoch, self._known.get(peer, 0))
        self._settle()
        self._leave()

    def _learn(self, members: Members, source: int = -1) -> None:
        if members.epoch > self.members.epoch:
            self._adopt(members, source)

    # --- who is no member ---

    def knocked(self, fact: Knocked) -> None:
        """Somebody who has the key wants to be one; or was one, or knows more than this node."""
        try:
            for kind, body in fact.frames:
                if kind in (CONTROL, TRACKED_CONTROL):
                    self._on_knock(fact, decode_control(body if kind == CONTROL else numbered(body)[1]))
        except RemoteProtocolError as error:
            self._answer(fact.door, AnswerJoin(b"", str(error)))
            return
        if self.members.was_removed(fact.node):
            self._answer(fact.door, ListOfMembers(pack_members(self.members)))

    def _on_knock(self, fact: Knocked, said: object) -> None:
        proved = fact.named if fact.node == NEWCOMER else fact.node
        if isinstance(said, AskJoin):
            member = msgspec.structs.replace(unpack_member(said.member), state="in")
            if proved >= 0 and not is_beside(proved, member.id):  # who has proved to be one machine is not another
                raise RemoteProtocolError(f"node {proved} asks for node {member.id} to be a member")
            self.want(ListChange("join", (member.id,), member, door=fact.door))
        elif isinstance(said, ListOfMembers) and fact.node != NEWCOMER:  # who would like to be a member has no say
            self._learn(unpack_members(said.members))
            self._answer(fact.door, KnowsMembers(self.members.epoch))  # it dials again, and is known then

    def _answer(self, door: int, said: AboutMembers) -> None:
        self._links.ending.append(AnswerDoor(door, frame(CONTROL, encode_control(said))))
