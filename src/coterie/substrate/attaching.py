"""Where clients are attached as time goes on: what is known when a window begins, and policies that act on it.

A policy sees what happened before (`Sight`), may move clients as a window begins, and says where newcomers go while it
lasts. It never sees the window itself; the oracle, which does, is there to say what was possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.placement import books
from coterie.kernels.placement.admission import AdmissionRules, Asked, Seating, admit
from coterie.kernels.placement.limits import limits_of
from coterie.kernels.placement.moves import paying_moves, renamed
from coterie.kernels.placement.passes import FROM_PRESENT, QUICK, Manner, Present, auctioned
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.search import MOVES, Search
from coterie.model import Publications, Relation, Workload
from coterie.model.relation import Index
from coterie.substrate.experience import plain_problem
from coterie.substrate.placing import client_weights, problem_of

F64 = NDArray[np.float64]
FROM_AFAR = Manner(((0.8, 3), (0.6, 3), (0.4, 3), (0.2, 2), (0.05, 1), (0.0, 2)), 0.85, 0.01)  # groups find together
HOT = 0.97  # of the limit: a broker that was hotter so far gets less room
HEAT_COUNTS = 12.0  # times what it was hotter
NOTHING = np.zeros((0, 3))
SETTLING = 3  # passes in which every move must pay


@dataclass(frozen=True)
class Terms:
    """How even brokers stay (times the mean), what changes cost (copies), and how what was seen is remembered."""

    connections: float = 1.2
    messages: float = 1.65
    bytes: float = 1.65
    move: float = 30.0
    redirect: float = 10.0
    announcement: float = 0.0  # of what one broker wants, to all others
    move_lasts: float = 5.0  # windows for which what a move promises is counted, until experience knows better
    redirect_lasts: float = 12.0  # the same of a redirect
    memory: float = 0.2  # weight of the latest window in rates and habits
    habit: float = 0.6  # what a client wanted in so large a part of the windows it will want again
    seed: int = 1
    is_strict: bool = False  # newcomers leave a broker that is full, whether that pays or not

    def within(self, windows: int) -> Terms:
        """With so many windows left: nothing pays later than that."""
        return replace(
            self, move_lasts=min(self.move_lasts, windows / 2), redirect_lasts=min(self.redirect_lasts, windows / 2)
        )

    @property
    def move_cost(self) -> float:
        """With what is announced for it where the client was and where it goes."""
        return self.move + 2 * self.announcement


@dataclass(frozen=True, eq=False)
class Sight:
    """What is known as a window begins: wishes that hold, rates as smoothed, and how long windows are."""

    demand: Workload
    span_s: float
    pair: NDArray[np.int64]  # of client and topic, ascending
    habit: F64  # how regularly it was wanted, of 1
    load: F64 = field(default_factory=lambda: NOTHING)  # [client, dimension]: seen to be handled for it, smoothed
    heat: F64 = field(default_factory=lambda: np.zeros(0))  # of brokers so far, of the mean; empty: not known


@dataclass(frozen=True, eq=False)
class Wish:
    """Every wish of a window with its times; -inf and inf where it began before or goes on."""

    client: Index
    topic: Index
    begin_s: F64
    end_s: F64

    @classmethod
    def of(cls, demand: Workload) -> Wish:
        asked = demand.interests if demand.wishes is None else demand.wishes.of
        begin, end = np.full(asked.pair_count, -np.inf), np.full(asked.pair_count, np.inf)
        if demand.stays is not None and len(demand.stays.client):
            stays, width = demand.stays, asked.column_count
            key = asked.rows.astype(np.int64) * width + asked.columns
            at = np.searchsorted(key, stays.client.astype(np.int64) * width + stays.filter)
            first, last = np.full(len(key), np.inf), np.full(len(key), -np.inf)
            np.minimum.at(first, at, stays.begin_s)
            np.maximum.at(last, at, stays.end_s)
            begin[at], end[at] = first[at], last[at]
        if demand.wishes is None:
            return cls(asked.rows, asked.columns, begin, end)
        matches = demand.wishes.matches
        lengths = matches.lengths[asked.columns]
        starts = np.cumsum(lengths) - lengths
        at = np.arange(lengths.sum()) + np.repeat(matches.indptr[asked.columns] - starts, lengths)
        return cls(
            np.repeat(asked.rows, lengths), matches.columns[at], np.repeat(begin, lengths), np.repeat(end, lengths)
        )


def first_sight(demand: Workload, span_s: float) -> Sight:
    """Before anybody came: nobody wants anything, and of the rates only their mean is known."""
    topics = demand.topic_count
    nobody = Relation.from_pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), demand.subscriber_count, topics)
    rate = demand.rates.sum() / max(np.count_nonzero(demand.rates), 1)
    usual = Publications.of(np.zeros(topics), np.arange(topics), np.full(topics, rate))
    known = replace(demand, interests=nobody, publications=usual, weights=None, wishes=None, stays=None)
    return Sight(known, span_s, np.zeros(0, np.int64), np.zeros(0), np.zeros((demand.subscriber_count, 3)))


def look(before: Sight | None, demand: Workload, span_s: float, terms: Terms) -> Sight:
    """What is known after this window, given what was known before it."""
    wish, memory, topics = Wish.of(demand), terms.memory, demand.topic_count
    key, goes_on = wish.client.astype(np.int64) * topics + wish.topic, wish.end_s == np.inf
    seen, held = _distinct(key), _distinct(key[goes_on])
    said, pair, habit = demand.publications, seen, np.full(len(seen), terms.memory)
    load = client_weights(demand)
    if before is not None:
        load = _smoothed_load(before.load, load, memory)
        said = _smoothed(before.demand.publications, said, memory, topics)
        span_s = before.span_s + (span_s - before.span_s) * memory
        pair = _distinct(np.concatenate([before.pair, seen]))
        known = np.zeros(len(pair))
        known[np.searchsorted(pair, before.pair)] = before.habit * (1 - memory)
        known[np.searchsorted(pair, seen)] += habit
        habit = known
        kept = habit > 0.01
        pair, habit = pair[kept], habit[kept]
    wanted = _distinct(np.concatenate([held, pair[habit >= terms.habit]]))
    interests = Relation.from_pairs(wanted // topics, wanted % topics, demand.subscriber_count, topics)
    seen_so = replace(demand, interests=interests, publications=said, weights=None, wishes=None, stays=None)
    return Sight(seen_so, span_s, pair, habit, load)


def _distinct(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending; a sort is several times faster here than np.unique."""
    ordered = np.sort(key)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _smoothed(old: Publications, new: Publications, memory: float, topics: int) -> Publications:
    key = np.concatenate([old.publisher, new.publisher]).astype(np.int64) * topics
    key += np.concatenate([old.topic, new.topic])
    rate = np.concatenate([old.rate * (1 - memory), new.rate * memory])
    size = np.concatenate([old.size, new.size])
    found, inverse = np.unique(key, return_inverse=True)
    rates = np.bincount(inverse, rate, len(found))
    sizes = np.bincount(inverse, rate * size, len(found)) / np.maximum(rates, 1e-300)
    kept = rates > 1e-4 * new.rate.min(initial=np.inf)
    return Publications.of(found[kept] // topics, found[kept] % topics, rates[kept], sizes[kept])


def _smoothed_load(old: F64, new: F64, memory: float) -> F64:
    """Of who was there; a first sight counts as it is."""
    share = np.where(old[:, 1:2] > 0, memory, 1.0)
    return np.asarray(np.where(new[:, 1:2] > 0, old + (new - old) * share, old))


# --- as a window begins ---

Move = Callable[[Sight, Index, Terms], Index]


def stay(sight: Sight, seats: Index, terms: Terms) -> Index:
    return seats


def rebuild(sight: Sight, seats: Index, terms: Terms) -> Index:
    """From scratch, at brokers named so that most clients stay; whoever has to move for it."""
    return _by_region(sight, seats, terms, _scratch)


def pay(sight: Sight, seats: Index, terms: Terms) -> Index:
    """The moves that save more within the horizon than they cost."""
    return _by_region(sight, seats, terms, _paying)


def foresee(sight: Sight, seats: Index, terms: Terms) -> Index:
    """Moves for nothing, from scratch or from where clients are: whichever leaves fewer copies."""
    free, demand = replace(terms, move=0.0, announcement=0.0), sight.demand
    found = (rebuild(sight, seats, terms), pay(sight, seats, free))
    return min(found, key=lambda part: plain_problem(demand).copies(np.maximum(part, 0)))


Place = Callable[[Problem, Index, Terms, float, NDArray[np.bool_]], Index]  # with brokers that may stay too full


def _by_region(sight: Sight, seats: Index, terms: Terms, place: Place) -> Index:
    """Zone by zone: nobody leaves its own."""
    demand = sight.demand
    found = seats.copy()
    burden = burden_of(demand, seats, sight.load)
    whole = problem_of(demand, burden.weight, np.ones(burden.besides.shape))
    zone_of = np.zeros(demand.node_count, np.int32) if demand.zone_of is None else demand.zone_of
    for zone in range(int(zone_of.max()) + 1):
        nodes = np.flatnonzero(zone_of == zone)
        clients = np.flatnonzero((seats >= 0) & (zone_of[seats] == zone))
        if len(nodes) < 2 or not len(clients):
            continue
        part = whole.among(clients, nodes)
        number = np.zeros(demand.node_count, np.int32)
        number[nodes] = np.arange(len(nodes))
        here = number[seats[clients]]
        heat = sight.heat[nodes] if len(sight.heat) else np.zeros(len(nodes))
        part, may_stay = _within(part, burden.besides[nodes], terms, heat)
        price = terms.move_cost / max(terms.move_lasts * sight.span_s, 1e-30)
        found[clients] = nodes[place(part, here, terms, price, may_stay)]
    return found


def _within(problem: Problem, besides: F64, terms: Terms, heat: F64) -> tuple[Problem, NDArray[np.bool_]]:
    """Room for clients: so many times the mean of all that brokers handle, less what they handle besides.

    What was planned and what came differ: a broker that has been hot so far gets less room. Others may stay too full
    (second result), and so may all where one client alone is as much.
    """
    above = np.array([terms.connections, terms.messages, terms.bytes])
    limits = limits_of(problem.weight, problem.capacity, above - 1)
    mean = (problem.weight.sum(axis=0) + besides.sum(axis=0)) / len(besides)
    multiple = np.tile(above, (len(besides), 1))
    multiple[:, 1:] -= HEAT_COUNTS * np.maximum(heat - HOT * terms.messages, 0.0)[:, None]
    room = np.maximum(multiple, 1.0) * mean - besides
    room[:, 0] = limits.capacity[:, 0]
    room = np.maximum(room, 1e-12)
    heaviest = problem.weight[:, 1].max(initial=0.0) / max(mean[1], 1e-30)
    may_stay = (heat <= HOT * max(terms.messages, heaviest)) | (not terms.is_strict)
    apart = np.minimum(problem.weight, room.max(axis=0))  # heavy ones share no broker
    return replace(problem, weight=apart, capacity=room), may_stay


@dataclass(frozen=True, eq=False)
class Burden:
    """What brokers handle (connections, messages, bytes per second), as an accountant counts it: by client, and
    besides: copies that come in, one for all clients of a broker that want them."""

    weight: F64  # [client, dimension]
    besides: F64  # [broker, dimension]


def burden_of(demand: Workload, seats: Index, seen: F64 = NOTHING) -> Burden:
    """With everybody at `seats`; a publisher's broker also sends the copies of what it says.

    Who was seen to hear more than what it is known to want will do so again, and most of that comes as copies.
    """
    weight, said, brokers = client_weights(demand), demand.publications, demand.node_count
    if len(seen):
        weight[:, 1:] += 2 * np.maximum(seen[:, 1:] - weight[:, 1:], 0.0)  # in and out
    seat, interests = np.maximum(seats, 0).astype(np.int64), demand.interests
    audience = _distinct(interests.columns.astype(np.int64) * brokers + seat[interests.rows])
    wanting = np.bincount(audience // brokers, minlength=demand.topic_count)
    entering = said.topic.astype(np.int64) * brokers + seat[said.publisher]
    is_home = np.isin(entering, audience)
    besides = np.zeros((brokers, weight.shape[1]))
    for dimension, each in ((1, said.rate), (2, said.rate * said.size)):
        copies = each * (wanting[said.topic] - is_home)
        weight[:, dimension] += np.bincount(said.publisher, copies, len(weight))
        by_topic = np.bincount(said.topic, each, demand.topic_count)
        besides[:, dimension] = np.bincount(audience % brokers, by_topic[audience // brokers], brokers)
        besides[:, dimension] -= np.bincount(seat[said.publisher], each * is_home, brokers)
    return Burden(weight, besides)


def _scratch(problem: Problem, here: Index, terms: Terms, price: float, may_stay: NDArray[np.bool_]) -> Index:
    search = _search(problem, terms)
    seats = search.refined(auctioned(problem, terms.seed, QUICK), MOVES[-3:])
    named = renamed(seats.part, here, seats.load, problem.capacity)
    return _settled(search, named, here, 1e-9)


def _paying(problem: Problem, here: Index, terms: Terms, price: float, may_stay: NDArray[np.bool_]) -> Index:
    """Nobody else comes to a broker that is too full and may stay so; others get rid of what is too much."""
    tolerated = np.where(may_stay[:, None], problem.loads(here), 0.0)
    problem = replace(problem, capacity=np.maximum(problem.capacity, tolerated))
    search, present = _search(problem, terms), Present(here, price)
    starts = [here, *(auctioned(problem, terms.seed, manner, here, present) for manner in (FROM_PRESENT, FROM_AFAR))]
    found = [
        paying_moves(search.crowd, search.rate, search.seats(here), problem.capacity, target, price, len(here))
        for target in (_settled(search, start, here, price) for start in starts)
    ]
    return min(found, key=lambda one: one.cost + price * len(one.order)).part


def _search(problem: Problem, terms: Terms) -> Search:
    draw = np.random.default_rng(terms.seed)
    return Search(problem.crowd, problem.rate, problem.broker_count, problem.capacity, draw)


def _settled(search: Search, start: Index, home: Index, price: float) -> Index:
    seats, exact = search.seats(start), books.powers(0.0)
    for _ in range(SETTLING):
        order = search.order(len(start))
        if not books.sweep(search.crowd, search.rate, seats, search.capacity, exact, order, home, price):
            break
    return seats.part


# --- while it lasts ---


@dataclass(frozen=True, eq=False)
class Arrived:
    """Where everybody sits, who was sent elsewhere than home and what that promised (copies within the horizon)."""

    seats: Index
    sent: Index  # clients
    to: Index
    promised: F64


Arrive = Callable[[Sight, Workload, Index, Terms], Arrived]
NOBODY = np.zeros(0, np.int32)


def at_home(sight: Sight, demand: Workload, seats: Index, terms: Terms) -> Arrived:
    """Newcomers stay where the balancer put them."""
    return Arrived(np.where(seats >= 0, seats, demand.attachment).astype(np.int32), NOBODY, NOBODY, np.zeros(0))


def by_interest(sight: Sight, demand: Workload, seats: Index, terms: Terms) -> Arrived:
    """Every newcomer goes to the emptiest broker that wants already what it first asks for."""
    return _admitted(demand, seats, replace(terms, is_strict=True), np.ones(demand.topic_count), 0.0)


def if_it_pays(sight: Sight, demand: Workload, seats: Index, terms: Terms) -> Arrived:
    """The same where the rates known so far say that being sent elsewhere saves more than it costs."""
    known = sight.demand.rates
    usual = known.sum() / max(np.count_nonzero(known), 1)
    worth = np.where(known > 0, known, usual) * sight.span_s * terms.redirect_lasts + terms.announcement
    return _admitted(demand, seats, terms, worth, terms.redirect)


def _admitted(demand: Workload, seats: Index, terms: Terms, worth: F64, price: float) -> Arrived:
    wish, brokers = Wish.of(demand), demand.node_count
    is_old = (seats[wish.client] >= 0) & (wish.begin_s == -np.inf)
    wanting = np.zeros((demand.topic_count, brokers), np.int32)
    np.add.at(wanting, (wish.topic[is_old], seats[wish.client[is_old]]), 1)
    messages = np.bincount(seats[wish.client[is_old]], worth[wish.topic[is_old]], brokers).astype(np.float64)
    connections = np.bincount(seats[seats >= 0], minlength=brokers).astype(np.int32)
    new = np.flatnonzero(~is_old)
    new = new[np.lexsort((wish.topic[new], wish.client[new], wish.begin_s[new]))]
    moment = np.unique(wish.begin_s[new], return_inverse=True)[1].astype(np.int32)
    zone_of = np.zeros(brokers, np.int32) if demand.zone_of is None else demand.zone_of.astype(np.int32)
    fleet = Seating(seats.copy(), wanting, connections, messages)
    rules = AdmissionRules(worth, price, terms.connections, terms.messages, zone_of, terms.is_strict)
    to, promised = np.full(len(seats), -1, np.int32), np.zeros(len(seats))
    admit(Asked(wish.client[new], wish.topic[new], moment), fleet, rules, demand.attachment, to, promised)
    sent = np.flatnonzero((to >= 0) & (to != demand.attachment)).astype(np.int32)
    now = np.where(fleet.seat >= 0, fleet.seat, demand.attachment).astype(np.int32)
    return Arrived(now, sent, to[sent], promised[sent])


# --- policies ---


@dataclass(frozen=True)
class Regime:
    """One policy: what it does as a window begins, and with whom comes while it lasts."""

    name: str
    says: str
    move: Move = stay
    arrive: Arrive = at_home
    is_once: bool = False  # it moves clients when the second window begins, and never again
    is_careful: bool = False  # it changes nothing while its changes have not paid so far
    is_told: bool = False  # it sees the window it is about to be judged by, and moves for nothing

    @property
    def has_memory(self) -> bool:
        return not self.is_told and (self.move is not stay or self.arrive is if_it_pays)


HASH, COTERIE = "hash", "coterie"
REGIMES = (
    Regime(HASH, "what people have: a client goes where a hash of its id says"),
    Regime(
        "admission", "a new client goes to the emptiest broker that wants what it first asks for", arrive=by_interest
    ),
    Regime("plan once", "planned after the first window; newcomers by hash", rebuild, is_once=True),
    Regime("replan", "planned from scratch for every window, brokers named so that most clients stay", rebuild),
    Regime("priced moves", "single moves that pay within the horizon; newcomers by hash", pay),
    Regime(COTERIE, "admission where it pays, and moves that pay", pay, if_it_pays, is_careful=True),
    Regime("oracle", "planned on the very window it is priced on, moves for nothing", foresee, is_told=True),
)
