"""What follows when subscriptions come and go: the network is told of firsts and lasts, the journal of each."""

from __future__ import annotations

from coterie.broker.admitting import Admitting
from coterie.broker.interest import LocalInterest
from coterie.broker.journal import Journal
from coterie.broker.moving import Moving
from coterie.broker.turn import Turn
from coterie.mqtt.sessions import Sessions


class Following:
    """Call `follow` after whatever may have changed a subscription; inside the cascade that it is to be part of."""

    def __init__(
        self, sessions: Sessions, interest: LocalInterest, moving: Moving, admitting: Admitting | None,
        journal: Journal | None, turn: Turn,
    ) -> None:  # fmt: skip
        self._sessions, self._interest, self._moving, self._admitting = sessions, interest, moving, admitting
        self._journal, self._turn = journal, turn

    def follow(self) -> None:
        index = self._sessions.index
        if not index.changes:
            return
        changes = index.take_changes()
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
        for topic_filter in wanted:
            self._interest.want(topic_filter)
        self._interest.forget_saved()
        if self._admitting is not None:
            self._admitting.changed(added=wanted)
        self._interest.share(tuple(sorted(index.groups.values())))
