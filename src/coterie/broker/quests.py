"""Clients that wait here for their sessions: what is known of each so far, and what they are told if it stays so.

Nobody waits for a session that is looked `of` a node that leaves or was removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from coterie.broker.frames import FoundSession, SeekSession
from coterie.broker.links import PeerLinks
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import SessionState

ANSWER_S = 1.0  # a node that has not answered by then is silent
PATIENT_S = 2.5  # the same for one that there is a link to: its disk may be slow
REACH_S = 3.2  # by then it has been found out whether one that there is no link to can be reached

Outcome = Literal["here", "away", "other"]
REFUSALS: dict[Outcome, tuple[Reason, str]] = {
    "away": (Reason.SERVER_UNAVAILABLE, "the node that has the session is away; try again"),
    "other": (Reason.CLIENT_ID_NOT_VALID, "the client identifier is another user's"),
}


class Quest:
    """A client that waits here for its session."""

    def __init__(
        self, user: str | None, asked: list[int], now_s: float, done: Callable[[Outcome], None], of: int
    ) -> None:  # fmt: skip
        self.user, self.done, self.of = user, done, of
        self.since_s = self.entered_s = self.asked_s = self.said_s = now_s
        self.is_asked_again = False
        self.asked = dict.fromkeys(asked)
        self.answers: dict[int, FoundSession] = {}
        self.there: FoundSession | None = None
        self.peer = -1
        self.is_effective = self.is_asking = False
        self.number = 0  # of the question that an answer is due to, asked at `said_s`
        self.look_until_s = 0.0
        self.missed_us = 0  # something may be missing since then, by our clock
        self.look_batch = -1  # the question to all logs leaves with this batch
        self.new: dict[str, int | None] = {}  # filters that nobody here wanted before -> since how long they were there
        self.state: SessionState | None = None

    def is_due(self, number: int) -> bool:
        """Whether an answer is to the last question; an older version says no number."""
        return number in (0, self.number)

    def asking(self, client: str) -> SeekSession:
        """What the others are asked."""
        return SeekSession(client, self.user, self.of < 0)

    def counts(self, one: FoundSession, at_home: FoundSession) -> bool:
        """Whether it is the last word on a node that is away: that may have ended the session since, and have told so
        to another keeper. A node that answered itself speaks for itself."""
        told = [place for said in (*self.answers.values(), at_home) for place in said.without]
        is_last = all(place[0] != one.of or place[1:] <= (one.life, one.serial) for place in told)
        return one.kind == "copy" and one.of not in self.answers and is_last

    def is_slow(self, links: PeerLinks) -> bool:
        return any(links.is_connected(peer) for peer in self.asked if peer not in self.answers)

    def patience_s(self, links: PeerLinks) -> float:
        """How long answers are waited for. Before it is said that nobody has it, who is silent was dialled in vain: two
        nodes may have found each other again while a third one has not found them yet."""
        silent = [peer for peer in self.asked if peer not in self.answers]
        if self.is_asked_again and not all(links.was_out_of_reach(peer, self.asked_s) for peer in silent):
            return REACH_S
        return PATIENT_S if self.is_slow(links) else ANSWER_S
