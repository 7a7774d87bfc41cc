"""How the next list of members is agreed upon: one single-decree Paxos for each epoch, among the members before it.

A ballot is (round, node). What was promised and accepted is written down; whatever is said because of it leaves behind
the turn's writes, as everything does that is told to peers. A node that wants a change proposes the next list; if an
older proposal may have been chosen, it brings that one to its end first and then tries its own again.
"""

from __future__ import annotations

import msgspec

from coterie.broker.members import Members, pack_members, unpack_members
from coterie.broker.said import (
    AboutMembers,
    AcceptMembers,
    PrepareMembers,
    PromiseMembers,
    ProposeMembers,
    RefuseMembers,
)
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import META, Saved

VOTE = "vote"
Ballot = tuple[int, int]
NO_BALLOT: Ballot = (0, -1)


class Vote(msgspec.Struct, frozen=True, array_like=True):
    """What this node owes to the vote on the list of this epoch."""

    epoch: int = 0
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    value: bytes = b""


class _Proposal:
    """A ballot of this node. `value` is its own wish until promises say that another may have been chosen."""

    def __init__(self, epoch: int, ballot: Ballot, value: bytes, voters: list[int], dead: tuple[int, ...]) -> None:
        self.epoch, self.ballot, self.value, self.voters, self.dead = epoch, ballot, value, voters, dead
        self.promises: dict[int, PromiseMembers] = {}
        self.accepts: dict[int, None] = {}
        self.is_proposed = False

    def has_majority(self, answers: dict[int, PromiseMembers] | dict[int, None]) -> bool:
        return 2 * sum(node in self.voters for node in answers) > len(self.voters)


class Decrees:
    """See the module. `hear` and `propose` return a list once it is chosen; `refusal` says why one never will be."""

    def __init__(self, node: int, talk: Talk, turn: Turn) -> None:
        self.refusal = ""
        self._node, self._talk, self._turn = node, talk, turn
        self._vote = Vote()
        self._proposal: _Proposal | None = None
        self._round = 0

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(META):
            if key == VOTE:
                self._vote = msgspec.msgpack.decode(value, type=Vote)
                self._round = self._vote.promised[0]

    def is_open(self, epoch: int) -> bool:
        """Whether something was accepted here that may have been chosen without this node's knowing."""
        return self._vote.epoch == epoch and bool(self._vote.value)

    def propose(
        self, members: Members, voters: list[int], connected: list[int], dead: tuple[int, ...] = ()
    ) -> Members | None:
        """Try to make this the next list, with a ballot above all that were heard of.

        It is for nodes that are `dead` as far as this node knows: whoever hears one of them says so before anything is
        accepted.
        """
        self._round += 1
        self.refusal = ""
        ballot = (self._round, self._node)
        self._proposal = _Proposal(members.epoch, ballot, pack_members(members), voters, dead)
        question = PrepareMembers(members.epoch, ballot, dead)
        for voter in voters:
            if voter != self._node:
                self._talk.tell(voter, question)
        return self.hear(self._node, question, connected) if self._node in voters else None

    def accepted(self) -> Members | None:
        """What this node accepted last, to be brought to its end."""
        return unpack_members(self._vote.value) if self._vote.value else None

    def forget(self, epoch: int) -> None:
        """The list of this epoch is known."""
        if self._proposal is not None and self._proposal.epoch <= epoch:
            self._proposal = None

    def hear(self, peer: int, said: AboutMembers, connected: list[int]) -> Members | None:
        """`connected` are nodes that are certainly alive."""
        match said:
            case PrepareMembers():
                return self._answer(peer, self._on_prepare(said, connected), connected)
            case ProposeMembers():
                return self._answer(peer, self._on_propose(said), connected)
            case PromiseMembers():
                return self._on_promise(peer, said, connected)
            case AcceptMembers():
                return self._on_accept(peer, said)
            case RefuseMembers():
                self._on_refuse(said)
        return None

    def _answer(self, peer: int, answer: AboutMembers, connected: list[int]) -> Members | None:
        if peer == self._node:
            return self.hear(peer, answer, connected)
        self._talk.tell(peer, answer)
        return None

    # --- voting ---

    def _vote_on(self, epoch: int) -> Vote:
        return self._vote if self._vote.epoch == epoch else Vote(epoch)

    def _keep(self, vote: Vote) -> None:
        self._vote = vote
        self._turn.write(META, VOTE, msgspec.msgpack.encode(vote))

    def _on_prepare(self, said: PrepareMembers, connected: list[int]) -> AboutMembers:
        vote = self._vote_on(said.epoch)
        self._round = max(self._round, said.ballot[0])
        if alive := [node for node in said.dead if node in connected or node == self._node]:
            told = f"node {alive[0]} is alive: it is connected with node {self._node}"
            return RefuseMembers(said.epoch, said.ballot, vote.promised, told)
        if said.ballot < vote.promised:
            return RefuseMembers(said.epoch, said.ballot, vote.promised)
        self._keep(msgspec.structs.replace(vote, promised=said.ballot))
        return PromiseMembers(said.epoch, said.ballot, vote.accepted, vote.value)

    def _on_propose(self, said: ProposeMembers) -> AboutMembers:
        vote = self._vote_on(said.epoch)
        if said.ballot < vote.promised:
            return RefuseMembers(said.epoch, said.ballot, vote.promised)
        self._keep(Vote(said.epoch, said.ballot, said.ballot, said.value))
        return AcceptMembers(said.epoch, said.ballot)

    # --- proposing ---

    def _on_promise(self, peer: int, said: PromiseMembers, connected: list[int]) -> Members | None:
        one = self._proposal
        if one is None or (one.epoch, one.ballot) != (said.epoch, said.ballot) or one.is_proposed:
            return None
        one.promises[peer] = said
        is_asked = one.dead and any(node in connected and node not in one.promises for node in one.voters)
        if is_asked or not one.has_majority(one.promises):
            return None
        before = max(one.promises.values(), key=lambda promise: promise.accepted)
        if before.value:
            one.value = before.value
        one.is_proposed = True
        proposal = ProposeMembers(one.epoch, one.ballot, one.value)
        for voter in one.voters:
            if voter != self._node:
                self._talk.tell(voter, proposal)
        return self.hear(self._node, proposal, connected) if self._node in one.voters else None

    def _on_accept(self, peer: int, said: AcceptMembers) -> Members | None:
        one = self._proposal
        if one is None or (one.epoch, one.ballot) != (said.epoch, said.ballot):
            return None
        one.accepts[peer] = None
        if not one.has_majority(one.accepts):
            return None
        self._proposal = None
        return unpack_members(one.value)

    def _on_refuse(self, said: RefuseMembers) -> None:
        one = self._proposal
        if one is not None and (one.epoch, one.ballot) == (said.epoch, said.ballot):
            self._round = max(self._round, said.promised[0])
            self._proposal = None
            self.refusal = said.reason
