"""Admission by interest: a client that comes goes where what it first asks for is wanted already, if that pays.

Wishes are read in the order of their times. The first ones of a client without a broker decide where it goes; all later
ones, and those of clients that were there before, count where their client sits. So a newcomer sees what its fleet
looked like the moment it came, and nothing of what came after.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index

Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """Wishes in the order of their times; those of one client and one moment stand together."""

    client: Index
    topic: Index
    moment: Index  # rank of the time


class AdmissionRules(NamedTuple):
    """What a copy of each topic's events comes to within the horizon, what a redirect costs, how even brokers stay."""

    worth: Floats  # by topic, in copies
    price: float
    connections: float  # a broker may have so many times the mean
    messages: float
    zone_of: Index
    is_strict: bool  # whoever comes to a broker that is full goes elsewhere, whether that pays or not


class Seating(NamedTuple):
    """Who sits where and what brokers want; admission changes all of it in place."""

    seat: Index  # of each client, -1: nowhere
    wanting: Index  # int32[topic, broker]
    connections: Index
    messages: Floats  # deliveries within the horizon


@kernel
def limits(seating: Seating, rules: AdmissionRules, weight: float) -> tuple[float, float]:
    """What a broker may hold once one more client is there; whole clients: the mean rounded up always fits."""
    people = (seating.connections.sum() + 1) / len(seating.connections)
    load = (seating.messages.sum() + weight) / len(seating.connections)
    return max(rules.connections * people, np.ceil(people)), rules.messages * load


@kernel
def best_broker(
    asked: Asked, seating: Seating, rules: AdmissionRules, home: int, begin: int, end: int, score: Floats
) -> int:
    """Where the wishes begin:end cost fewest copies and there is room, the emptiest of equals.

    The client's own broker wins unless going elsewhere saves more than the price.
    """
    score[:] = 0.0
    weight = 0.0
    for i in range(begin, end):
        worth, wanting = rules.worth[asked.topic[i]], seating.wanting[asked.topic[i]]
        weight += worth
        for broker in range(len(score)):
            if wanting[broker] == 0:
                score[broker] += worth
    people, load = limits(seating, rules, weight)
    most = score[home] - rules.price
    is_full = seating.connections[home] + 1 > people or (weight > 0.0 and seating.messages[home] + weight > load)
    if rules.is_strict and is_full:
        most = np.inf
    best = -1
    for broker in range(len(score)):
        if broker == home or rules.zone_of[broker] != rules.zone_of[home] or score[broker] >= most:
            continue
        if seating.connections[broker] + 1 > people or (weight > 0.0 and seating.messages[broker] + weight > load):
            continue
        fewer = best >= 0 and seating.connections[broker] < seating.connections[best]
        if best < 0 or score[broker] < score[best] or (score[broker] == score[best] and fewer):
            best = broker
    return home if best < 0 else best


@kernel
def admit(asked: Asked, seating: Seating, rules: AdmissionRules, home: Index, to: Index, promised: Floats) -> int:
    """Read all wishes in order and seat who has no seat; returns how many were sent elsewhere than `home`.

    `to` says where each newcomer went, `promised` how many copies that saves.
    """
    score = np.empty(len(seating.connections))
    redirects = 0
    for i in range(len(asked.client)):
        client = asked.client[i]
        if seating.seat[client] < 0:
            end = i + 1
            while end < len(asked.client) and asked.client[end] == client and asked.moment[end] == asked.moment[i]:
                end += 1
            broker = best_broker(asked, seating, rules, home[client], i, end, score)
            to[client], promised[client] = broker, score[home[client]] - score[broker]
            redirects += broker != home[client]
            seating.seat[client] = broker
            seating.connections[broker] += 1
        seat = seating.seat[client]
        seating.wanting[asked.topic[i], seat] += 1
        seating.messages[seat] += rules.worth[asked.topic[i]]
    return redirects
