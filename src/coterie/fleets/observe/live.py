"""Sources that are asked or listened to, rather than read: one loop for all that are polled."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence

from coterie.errors import ConfigError, InputError
from coterie.fleets.observe import haproxy, nats
from coterie.fleets.observe.emqx import EmqxFiles
from coterie.fleets.observe.following import Totals, commit
from coterie.fleets.observe.gathering import Gathering
from coterie.fleets.observe.journalstore import JournalStore, ObserveState
from coterie.fleets.observe.listening import LogTap, MqttTap, listen
from coterie.fleets.observe.places import BrokerPlace, named_places

Poll = Callable[[ObserveState, Gathering], None]


def observe_live(
    store: JournalStore,
    kind: str,
    places: Sequence[BrokerPlace],
    every_s: float,
    length_s: float | None,
    totals: Totals,
) -> None:
    """Commit what is seen to the journal, for `length_s` or until interrupted."""
    if kind in ("mosquitto", "tap"):
        if not all(place.location.startswith("mqtt://") for place in places):
            raise ConfigError("SOURCE", [place.location for place in places], "only mqtt:// addresses, or only files")
        tap = LogTap if kind == "mosquitto" else MqttTap
        asyncio.run(listen(store, tap, named_places(places), every_s, length_s, totals))
        return
    poll = {"nats": _poll_nats, "haproxy": _poll_haproxy, "emqx": _poll_emqx}[kind](places)
    is_live = any(place.is_address for place in places)
    end_s = time.monotonic() + (length_s or 0.0)
    is_first = True
    while True:
        gathering = Gathering()
        try:
            poll(store.state, gathering)
        except InputError as error:
            if is_first:
                raise
            gathering.account(f"({kind})").note(f"did not answer for a while: {error.source}")
        commit(store, gathering, totals)
        is_first = False
        if length_s is not None and (not is_live or time.monotonic() + every_s > end_s):
            return
        time.sleep(every_s)


def _poll_nats(places: Sequence[BrokerPlace]) -> Poll:
    def poll(state: ObserveState, into: Gathering) -> None:
        polls = [
            nats.ask_server(place.location.rstrip("/"), place.node)
            if place.is_address
            else nats.read_saved(place.location, place.node)
            for place in places
        ]
        nats.take_in(polls, state, into)

    return poll


def _poll_haproxy(places: Sequence[BrokerPlace]) -> Poll:
    def poll(state: ObserveState, into: Gathering) -> None:
        for place in places:
            if place.is_address:
                lines, now_s = haproxy.ask_ring(place.location), time.time()
            else:
                lines, now_s = haproxy.read_ring_file(place.location)
            haproxy.take_in(lines, now_s, os.path.basename(place.location), state, into)

    return poll


def _poll_emqx(places: Sequence[BrokerPlace]) -> Poll:
    addressed = [place.location for place in places if place.is_address]
    if addressed:
        raise ConfigError("SOURCE", addressed[0], "files: saved pages of /api/v5/..., or lines of the rule engine")

    def poll(state: ObserveState, into: Gathering) -> None:
        EmqxFiles([place.location for place in places], state, into).read()

    return poll
