"""What follows when subscriptions come and go: the network is told of firsts and lasts, the journal of each."""

from __future__ import annotations

from coterie.broker.admitting import Admitting
from coterie.broker.interest import LocalInterest
from coterie.broker.journal import Journal
from coterie.broker.moving import Moving
from coterie.broker.siblings import LASTING, SHARED, Siblings, kind_of
from coterie.broker.turn import Turn
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import split_shared


class Following:
    """Call `follow` after whatever may have changed a subscription; inside the cascade that it is to be part of."""

    def __init__(
        self, sessions: Sessions, interest: LocalInterest, moving: Moving, admitting: Admitting | None,
        journal: Journal | None, siblings: Siblings | None, turn: Turn,
    ) -> None:  # fmt: skip
        self._sessions, self._interest, self._moving, self._admitting = sessions, interest, moving, admitting
        self._journal, self._siblings, self._turn = journal, siblings, turn

    def follow(self) -> None:
        index = self._sessions.index
        if not index.changes:
            return
        changes = index.take_changes()
        if self._siblings is not None:  # before anything of it is granted
            for kind, session, topic_filter in changes:
                if kind == "added":
                    self._siblings.enter(split_shared(topic_filter)[1], kind_of(session, topic_filter))
                elif kind == "last":
                    self._siblings.leave(topic_filter)
            self._siblings.tell()
        for kind, session, topic_filter in changes:
            match kind:
                case "first":
                    self._interest.want(topic_filter)
                case "last":
                    self._interest.unwant(topic_filter)
                case "groups":
                    self._interest.share(tuple(sorted(index.groups.values())))
                case "added" if self._journal is not None:
                    self._journal.subscribed(self._turn.now_s, session.client_id, topic_filter)
                case "removed" if self._journal is not None and session.client_id not in self._moving.leaving:
                    self._journal.unsubscribed(self._turn.now_s, session.client_id, topic_filter)

        if self._admitting is not None:
            firsts = [one.filter for one in changes if one.kind == "first"]
            lasts = [one.filter for one in changes if one.kind == "last"]
            self._admitting.changed(firsts, lasts)

    def restore(self) -> None:
        """After a restart: what was wanted before it is wanted still, and is no news to the journal."""
        index = self._sessions.index
        index.changes.clear()
        wanted = list(index.filters())
        shared = {one.partition("/")[2] for one in index.groups.values()}
        for topic_filter in wanted:
            self._interest.want(topic_filter)
            if self._siblings is not None:
                self._siblings.enter(topic_filter, SHARED if topic_filter in shared else LASTING)
        self._interest.forget_saved()
        if self._admitting is not None:
            self._admitting.changed(added=wanted)
        self._interest.share(tuple(sorted(index.groups.values())))
