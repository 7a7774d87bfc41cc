"""Large crowds to brokers in some dozen passes: smoothed counts in bytes, and prices of room instead of exchanges.

`shown[t, b]` is 255 p^c for the c wishes for topic t at broker b, times the share of the topic's rate that does not
enter there: what one more wish would cost, in a byte, so that a client's costs at all brokers are sums of few cache
lines. Brokers above their soft limit grow dear (`price`) and those below cheap again, which does what exchanges of two
clients would do; the hard limit is kept besides. p falls from pass to pass; at 0 the count is exact.

All scores are in 255ths of an event and without the factor 1 - p that every wish has in common.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import fits, is_over
from coterie.kernels.rings.chord import Index, Offset

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bytes = NDArray[np.uint8]
POWERS = 64  # wishes from here on weigh nothing
BLOCK = 16  # clients visited one after the other: their rows lie together
REPRICED = 200  # times a pass


class ClientRows(NamedTuple):
    """Who is placed, in the order of visits; topics are numbered by popularity so that hot rows lie together."""

    indptr: Offset
    topics: Index
    said_indptr: Offset  # what each publishes
    said_topics: Index
    said_rate: Singles
    is_wanted: Bytes  # by the publisher itself
    weight: Floats  # [client, dimension], scaled to the same mean as the number of wishes
    home: Index  # where it is now, -1: nowhere; nobody listed: moves cost nothing
    away: Singles  # what leaving its home's zone costs; nobody listed: nothing


class Room(NamedTuple):
    """What brokers may hold, in the unit of the weights, and where they are."""

    limit: Floats  # [broker, dimension], never passed
    soft: Floats  # above it a broker grows dearer
    zone_of: Index


class Layer(NamedTuple):
    """Brokers, or zones, by topic."""

    counts: Index  # wishes
    shown: Bytes
    entering: Singles  # events that enter there; no rows: where is not counted


class Whereabouts(NamedTuple):
    """Where everybody is and what follows from it; passes change all of it in place."""

    part: Index  # -1: not yet anywhere
    near: Layer  # brokers
    far: Layer  # zones; no columns: they do not count
    load: Floats  # [broker, dimension]
    price: Singles  # [broker, dimension]


class Costs(NamedTuple):
    """What copies cost by topic, across zones besides, a moved client, and how fast prices learn."""

    rate: Singles
    crossing: float
    move: float
    step: float  # a price changes by this times the relative distance from the soft limit


class Tables(NamedTuple):
    """p^c; its byte; and, for a byte, that of one wish fewer."""

    powers: Singles
    shown: Bytes
    fewer: Bytes


@kernel
def tables_of(smoothing: float) -> Tables:
    powers = np.zeros(POWERS + 1, np.float32)
    powers[0] = 1.0
    for exponent in range(1, POWERS):
        powers[exponent] = powers[exponent - 1] * smoothing
    shown = np.empty(POWERS + 1, np.uint8)
    for count in range(POWERS + 1):
        shown[count] = np.uint8(255.0 * powers[count] + 0.5)
    shown[1] = max(shown[1], np.uint8(1))  # one wish is told apart from many, whatever p
    fewer = np.zeros(256, np.uint8)
    for count in range(POWERS, 0, -1):
        fewer[shown[count]] = shown[count - 1]
    fewer[0] = 0  # of many wishes, one fewer is still many
    return Tables(powers, shown, fewer)


@kernel
def byte_of(layer: Layer, rate: Singles, tables: Tables, topic: int, column: int) -> int:
    """What one more wish costs, of 255."""
    count = min(layer.counts[topic, column], POWERS)
    if layer.entering.shape[0] == 0:
        return tables.shown[count]
    left = max(1.0 - layer.entering[topic, column] / rate[topic], 0.0) if rate[topic] > 0.0 else 1.0
    return np.uint8(255.0 * tables.powers[count] * left + 0.5)  # type: ignore[return-value]


@kernel
def show(layer: Layer, rate: Singles, tables: Tables) -> None:
    """All bytes anew, for another p."""
    for topic in range(layer.counts.shape[0]):
        for column in range(layer.counts.shape[1]):
            layer.shown[topic, column] = byte_of(layer, rate, tables, topic, column)


@kernel
def put(clients: ClientRows, layer: Layer, rate: Singles, tables: Tables, client: int, column: int, sign: int) -> None:
    """Write the client into a broker's or zone's columns (sign 1), or out of them (sign -1)."""
    for i in range(clients.indptr[client], clients.indptr[client + 1]):
        topic = clients.topics[i]
        layer.counts[topic, column] += sign
        layer.shown[topic, column] = byte_of(layer, rate, tables, topic, column)
    if layer.entering.shape[0] == 0:
        return
    for i in range(clients.said_indptr[client], clients.said_indptr[client + 1]):
        topic = clients.said_topics[i]
        layer.entering[topic, column] += sign * clients.said_rate[i]
        layer.shown[topic, column] = byte_of(layer, rate, tables, topic, column)


@kernel
def seat(
    clients: ClientRows, room: Room, field: Whereabouts, costs: Costs, tables: Tables, client: int, at: int, sign: int
) -> None:
    put(clients, field.near, costs.rate, tables, client, at, sign)
    if field.far.counts.shape[1] > 0:
        put(clients, field.far, costs.rate, tables, client, room.zone_of[at], sign)
    for dimension in range(field.load.shape[1]):
        field.load[at, dimension] += sign * clients.weight[client, dimension]


@kernel
def wish_scores(indptr: Offset, topics: Index, shown: Bytes, rate: Singles, client: int, score: Singles) -> None:
    """Fill in what the client's wishes cost at every broker or zone, itself not being there.

    The innermost loop takes plain arrays: records of arrays cost more to hand over than a row takes.
    """
    score[:] = 0.0
    for i in range(indptr[client], indptr[client + 1]):
        each, row = rate[topics[i]], shown[topics[i]]
        for column in range(len(score)):
            score[column] += each * row[column]


@kernel
def wish_staying(
    indptr: Offset, topics: Index, shown: Bytes, rate: Singles, fewer: Bytes, client: int, here: int
) -> float:
    """What the client's wishes cost where it is, from bytes alone."""
    own = np.float32(0.0)
    for i in range(indptr[client], indptr[client + 1]):
        own += rate[topics[i]] * fewer[shown[topics[i], here]]
    return own  # type: ignore[return-value]


@kernel
def add_said(clients: ClientRows, layer: Layer, tables: Tables, client: int, score: Singles) -> None:
    """Add what the client's publications cost: copies that leave from where nobody wants them."""
    scale = 255.0 / (1.0 - tables.powers[1])
    for i in range(clients.said_indptr[client], clients.said_indptr[client + 1]):
        each, wishes = np.float32(scale * clients.said_rate[i]), layer.counts[clients.said_topics[i]]
        for column in range(len(score)):
            score[column] += each * tables.powers[min(wishes[column] + clients.is_wanted[i], POWERS)]


@kernel
def scores(
    clients: ClientRows,
    room: Room,
    field: Whereabouts,
    costs: Costs,
    tables: Tables,
    client: int,
    zones: Singles,
    score: Singles,
) -> None:
    """What the client costs at every broker, itself not being anywhere: copies, and crossings of zones."""
    wish_scores(clients.indptr, clients.topics, field.near.shown, costs.rate, client, score)
    is_counted = field.near.entering.shape[0] > 0
    if is_counted:
        add_said(clients, field.near, tables, client, score)
    if len(zones) > 0:
        wish_scores(clients.indptr, clients.topics, field.far.shown, costs.rate, client, zones)
        if is_counted:
            add_said(clients, field.far, tables, client, zones)
        for broker in range(len(score)):
            score[broker] += np.float32(costs.crossing) * zones[room.zone_of[broker]]


@kernel
def add_room(weight: Floats, price: Singles, client: int, score: Singles) -> None:
    for dimension in range(price.shape[1]):
        each = np.float32(weight[client, dimension])
        for broker in range(len(score)):
            score[broker] += each * price[broker, dimension]


@kernel
def add_leaving(clients: ClientRows, room: Room, costs: Costs, tables: Tables, client: int, score: Singles) -> None:
    """What it costs to be elsewhere than at home."""
    home = clients.home[client]
    if home < 0:
        return
    scale, back = 255.0 / (1.0 - tables.powers[1]), score[home]
    for broker in range(len(score)):
        score[broker] += np.float32(scale * costs.move)
        if len(clients.away) > 0 and room.zone_of[broker] != room.zone_of[home]:
            score[broker] += np.float32(scale * clients.away[client])
    score[home] = back


@kernel
def pressure(load: Floats, limit: Floats, weight: Floats, client: int, broker: int, is_there: bool) -> float:
    """How much the client adds to what a broker holds beyond its limits, in parts of them; `load` may have it."""
    added = 0.0
    for dimension in range(load.shape[1]):
        own, most = weight[client, dimension], limit[broker, dimension]
        without = load[broker, dimension] - own if is_there else load[broker, dimension]
        added += (max(without + own - most, 0.0) - max(without - most, 0.0)) / most
    return added


@kernel
def least_overfull(clients: ClientRows, field: Whereabouts, room: Room, client: int) -> int:
    best, best_part = 0, np.inf
    for broker in range(field.load.shape[0]):
        part = 0.0
        for dimension in range(field.load.shape[1]):
            whole = field.load[broker, dimension] + clients.weight[client, dimension]
            part = max(part, whole / room.limit[broker, dimension])
        if part < best_part:
            best, best_part = broker, part
    return best


@kernel
def reprice(field: Whereabouts, room: Room, step: float, filled: float) -> None:
    """Dearer above the soft limit (of the share that has been placed), cheaper below; only differences count."""
    for dimension in range(field.price.shape[1]):
        least = np.float32(np.inf)
        for broker in range(field.price.shape[0]):
            soft = room.soft[broker, dimension] * filled
            off = (field.load[broker, dimension] - soft) / soft
            field.price[broker, dimension] = max(field.price[broker, dimension] + step * off, 0.0)
            least = min(least, field.price[broker, dimension])
        for broker in range(field.price.shape[0]):
            field.price[broker, dimension] -= least


@kernel
def sweep(clients: ClientRows, room: Room, field: Whereabouts, costs: Costs, tables: Tables, blocks: Index) -> int:
    """Everybody in turn, block by block, goes where it costs least and there is room; returns how many moved."""
    count, brokers, rate, fewer = len(field.part), field.load.shape[0], costs.rate, tables.fewer
    indptr, topics, weight, shown = clients.indptr, clients.topics, clients.weight, field.near.shown
    load, limit, price = field.load, room.limit, field.price
    score, zones = np.empty(brokers, np.float32), np.empty(field.far.counts.shape[1], np.float32)
    every = max(count // REPRICED, 1)
    visited, moved = 0, 0
    # Bytes alone tell what staying costs, unless publishers or zones count: then the client is taken out for its turn.
    is_plain = field.near.entering.shape[0] == 0 and len(zones) == 0
    has_homes = len(clients.home) > 0
    for block in blocks:
        for client in range(block * BLOCK, min((block + 1) * BLOCK, count)):
            visited += 1
            if visited % every == 0:
                reprice(field, room, costs.step, 1.0)
            here = field.part[client]
            must_go = is_over(load, limit, here)
            if is_plain:
                wish_scores(indptr, topics, shown, rate, client, score)
                score[here] = wish_staying(indptr, topics, shown, rate, fewer, client, here)
            else:
                seat(clients, room, field, costs, tables, client, here, -1)
                scores(clients, room, field, costs, tables, client, zones, score)
            add_room(weight, price, client, score)
            if has_homes:
                add_leaving(clients, room, costs, tables, client, score)
            best, best_score = here, np.float32(np.inf) if must_go else score[here]
            # Brokers full in different ways lock each other: whoever must go may press another one less than its own.
            allowed = pressure(load, limit, weight, client, here, is_plain) if must_go else 0.0
            for broker in range(brokers):
                if broker == here or score[broker] >= best_score:
                    continue
                if fits(load, limit, weight, client, broker) or (
                    must_go and pressure(load, limit, weight, client, broker, False) < allowed
                ):
                    best, best_score = broker, score[broker]
            if is_plain and best != here:
                seat(clients, room, field, costs, tables, client, here, -1)
            if not is_plain or best != here:
                seat(clients, room, field, costs, tables, client, best, 1)
            field.part[client] = best
            moved += best != here
    return moved


@kernel
def grow(clients: ClientRows, room: Room, field: Whereabouts, costs: Costs, tables: Tables, placed: int) -> None:
    """Whoever is nowhere yet joins, in order, where it costs least and there is room; `placed` already are."""
    count, brokers, load = len(field.part), field.load.shape[0], field.load
    score, zones = np.empty(brokers, np.float32), np.empty(field.far.counts.shape[1], np.float32)
    every = max(count // REPRICED, 1)
    for client in range(count):
        if field.part[client] >= 0:
            continue
        placed += 1
        if placed % every == 0:
            reprice(field, room, costs.step, placed / count)
        scores(clients, room, field, costs, tables, client, zones, score)
        add_room(clients.weight, field.price, client, score)
        if len(clients.home) > 0:
            add_leaving(clients, room, costs, tables, client, score)
        best, best_score = -1, np.float32(np.inf)
        for broker in range(brokers):
            is_emptier = best >= 0 and score[broker] == best_score and load[broker, 0] < load[best, 0]
            if (score[broker] < best_score or is_emptier) and fits(load, room.limit, clients.weight, client, broker):
                best, best_score = broker, score[broker]
        if best < 0:
            best = least_overfull(clients, field, room, client)
        seat(clients, room, field, costs, tables, client, best, 1)
        field.part[client] = best
