"""DYNATOPS' location model (section 6.1.1): people follow the cells of their friends; brokers sit in cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.interests.following import follow_people
from coterie.model import Change, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, in_time_order
from coterie.workloads.parameters import (
    ATTACHMENT,
    CHANGES,
    INT32_MAX,
    MODES,
    WorkloadParameters,
    above,
    at_least,
    one_of,
    stream,
    within,
)
from coterie.workloads.popularity import draw_interests, fixed_sizes, zipf
from coterie.workloads.rates import publish, settled
from coterie.workloads.traces import trace_table

DAY_S = 86_400.0
CHECKINS = {"gowalla": "checkins_gowalla_1000u.csv.gz", "foursquare": "checkins_foursquare_us_5000u.csv.gz"}
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Moves:
    """Where people start and every later change of cell, in time order."""

    start: Ints  # person -> cell
    time_s: Floats
    who: Ints
    cell: Ints
    centres: Floats  # cell -> (longitude, latitude)


class Location(WorkloadParameters, frozen=True, kw_only=True):
    """Cells are the topics; who moves, and how, comes from check-ins or from a synthetic model."""

    source: str = "synthetic"  # movements by a model; or those of gowalla or foursquare (check-ins, needs the traces)
    nodes: int = 0  # brokers, in the cells visited most; 0: one in every cell (1200 in the paper)
    subscribers: int = 0  # people: 0 takes all of a trace, or 5000 synthetic ones (40,000 in the paper)
    friends: int = 4  # other people whose cells one follows
    placement: str = "cell"  # at the broker of one's cell, with handovers; or static: at a broker drawn evenly
    cell_degrees: float = 1.0  # side of a cell
    duration_s: float = 92 * DAY_S  # of a trace counted from its first check-in; 0: all of it
    # Synthetic movement: a grid of cells, homes drawn by Zipf, stays log-normal, returns or jumps.
    rows: int = 20  # of the grid of cells
    columns: int = 60  # of the grid of cells
    city_exponent: float = 1.0  # Zipf of how many people live in a cell
    stay_median_s: float = DAY_S  # half of the stays are shorter than a day (Figure 5b)
    stay_spread: float = 1.52  # sigma of log(stay): a tenth is longer than a week (Figure 5b)
    returning: float = 0.7  # probability that a move leads to a cell visited before (Figure 5a)
    jump_exponent: float = 1.0  # of the lengths of jumps: higher ones make far jumps rarer

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("source", self.source, ("synthetic", *CHECKINS))
        one_of("placement", self.placement, ("cell", "static"))
        within("nodes", self.nodes, 0, INT32_MAX)
        within("subscribers", self.subscribers, 0, INT32_MAX)
        for key in ("friends", "duration_s", "city_exponent", "stay_spread"):
            at_least(key, getattr(self, key), 0)
        for key in ("cell_degrees", "stay_median_s", "jump_exponent"):
            above(key, getattr(self, key), 0)
        at_least("rows", self.rows, 1)
        at_least("columns", self.columns, 1)
        within("returning", self.returning, 0, 1)


class Gowalla(Location, frozen=True, kw_only=True):
    """Check-ins of 1,000 people all over the world."""

    source: str = "gowalla"
    duration_s: float = 0.0


class Foursquare(Location, frozen=True, kw_only=True):
    """Check-ins of 5,000 people in the United States."""

    source: str = "foursquare"
    duration_s: float = 0.0


def located(parameters: Location, seed: int) -> Workload:
    """The workload at the start: everybody in their first cell."""
    return _start(parameters, _moves(parameters, seed), seed)[0]


def movement(parameters: Location, seed: int) -> Timeline:
    """Every move: first the handover to another broker (where placement is by cell), then the changed subscriptions."""
    moves = _moves(parameters, seed)
    start, followed = _start(parameters, moves, seed)
    people = len(moves.start)
    follower = np.repeat(np.arange(people, dtype=np.int32), followed.shape[1])
    followers = Relation.from_pairs(followed.ravel(), follower, people, people)
    event, change, who, cell = follow_people(
        moves.start.copy(), moves.who, moves.cell, followed, followers.indptr, followers.columns
    )
    parts = [Changes.of(moves.time_s[event], change, who, cell)]
    if parameters.placement == "cell":
        broker = _brokers(parameters, moves)[1]
        parts.insert(0, _handovers(moves, broker))
    return in_time_order(start, parts)


def _moves(parameters: Location, seed: int) -> Moves:
    draw = stream(seed, CHANGES)
    if parameters.source == "synthetic":
        return _synthetic_moves(draw, parameters)
    return _traced_moves(draw, parameters)


def _start(parameters: Location, moves: Moves, seed: int) -> tuple[Workload, Ints]:
    people = len(moves.start)
    within("friends", parameters.friends, 0, people - 1)
    followed = _friends(stream(seed, MODES), people, parameters.friends)
    row = np.repeat(np.arange(people), 1 + parameters.friends)
    cells = np.concatenate([moves.start[:, None], moves.start[followed]], axis=1)
    interests = Relation.from_pairs(row, cells.ravel(), people, len(moves.centres))
    # Those who ever come to a cell publish there, so that cells entered later have events too.
    visitor = np.concatenate([np.arange(people), moves.who])
    visits = Relation.from_pairs(visitor, np.concatenate([moves.start, moves.cell]), people, len(moves.centres))
    site, broker = _brokers(parameters, moves)
    if parameters.placement == "cell":
        attachment = broker[moves.start]
    else:
        attachment = stream(seed, ATTACHMENT).integers(len(site), size=people, dtype=np.int32)
    workload = Workload(
        name="dynatops-location",
        interests=interests,
        publications=publish(parameters, visits, seed),
        attachment=attachment,
        node_count=len(site),
        coordinates=moves.centres[site],
    )
    return workload, followed


def _friends(draw: np.random.Generator, people: int, count: int) -> Ints:
    """(people, count): distinct others for everybody."""
    if count == 0:
        return np.zeros((people, 0), np.int32)
    others = draw_interests(draw, np.ones(people - 1), fixed_sizes(people, count)).columns.reshape(people, count)
    return (others + (others >= np.arange(people)[:, None])).astype(np.int32)


def _brokers(parameters: Location, moves: Moves) -> tuple[NDArray[np.int64], Ints]:
    """(cell of each broker, broker of each cell): the nearest in the plane of degrees."""
    cells = len(moves.centres)
    if not parameters.nodes:
        return np.arange(cells), np.arange(cells, dtype=np.int32)
    if parameters.nodes > cells:
        raise ConfigError("nodes", parameters.nodes, f"at most one for each of {cells} cells, or 0 for all")
    visits = np.bincount(np.concatenate([moves.start, moves.cell]), minlength=cells)
    site = np.sort(np.argsort(-visits, kind="stable")[: parameters.nodes])
    apart = ((moves.centres[:, None] - moves.centres[site]) ** 2).sum(axis=2)
    return site, np.argmin(apart, axis=1).astype(np.int32)


def _handovers(moves: Moves, broker: Ints) -> Changes:
    """MOVE changes of those moves that lead to another broker."""
    before = _cells_before(moves)
    is_handover = broker[before] != broker[moves.cell]
    return Changes.of(moves.time_s[is_handover], Change.MOVE, moves.who[is_handover], broker[moves.cell[is_handover]])


def _cells_before(moves: Moves) -> Ints:
    order = np.argsort(moves.who, kind="stable")
    is_first = np.concatenate([[True], np.diff(moves.who[order]) != 0]) if len(order) else np.zeros(0, bool)
    before = np.empty(len(order), np.int32)
    before[order] = np.where(is_first, moves.start[moves.who[order]], np.roll(moves.cell[order], 1))
    return before


def _traced_moves(draw: np.random.Generator, parameters: Location) -> Moves:
    table = trace_table(CHECKINS[parameters.source], ("user", "unix_time", "lat", "lon"))
    time_s = table["unix_time"].astype(np.float64)
    time_s -= time_s.min()
    kept = time_s <= (parameters.duration_s or np.inf)
    user = np.unique(table["user"][kept], return_inverse=True)[1]
    people = int(user.max()) + 1
    if parameters.subscribers:
        within("subscribers", parameters.subscribers, 1, people)
        number = np.full(people, -1)
        number[np.sort(draw.permutation(people)[: parameters.subscribers])] = np.arange(parameters.subscribers)
        user, people = number[user], parameters.subscribers
    side = parameters.cell_degrees
    grid = np.floor(np.stack([table["lon"][kept], table["lat"][kept]], axis=1).astype(np.float64) / side)
    grid, time_s = grid[user >= 0], time_s[kept][user >= 0]
    corners, cell = np.unique(grid, axis=0, return_inverse=True)
    return _collapsed(people, user[user >= 0], cell.ravel(), time_s, (corners + 0.5) * side)


def _collapsed(people: int, user: NDArray[np.int64], cell: NDArray[np.int64], time_s: Floats, centres: Floats) -> Moves:
    """Successive visits to the same cell are one."""
    order = np.lexsort([time_s, user])
    user, cell, time_s = user[order], cell[order], time_s[order]
    is_first = np.concatenate([[True], user[1:] != user[:-1]])
    is_move = ~is_first & np.concatenate([[False], cell[1:] != cell[:-1]])
    start = np.zeros(people, np.int32)
    start[user[is_first]] = cell[is_first]
    by_time = np.argsort(time_s[is_move], kind="stable")
    who, target = user[is_move][by_time].astype(np.int32), cell[is_move][by_time].astype(np.int32)
    return Moves(start, time_s[is_move][by_time], who, target, centres)


def _synthetic_moves(draw: np.random.Generator, parameters: Location) -> Moves:
    people = parameters.subscribers or 5000
    rows, columns, side = parameters.rows, parameters.columns, parameters.cell_degrees
    living = zipf(rows * columns, parameters.city_exponent)[draw.permutation(rows * columns)]
    upto = np.cumsum(living)
    home = np.minimum(np.searchsorted(upto, draw.random(people) * upto[-1], side="right"), rows * columns - 1)
    users, cells, times = [np.arange(people)], [home], [np.zeros(people)]
    someone, now_s, visited = users[0], times[0], home[:, None]
    duration_s = parameters.duration_s or 92 * DAY_S
    while len(someone):
        stay_s = parameters.stay_median_s * np.exp(parameters.stay_spread * draw.standard_normal(len(someone)))
        now_s = settled(now_s + stay_s)
        on = now_s < duration_s
        someone, now_s, visited = someone[on], now_s[on], visited[on]
        where = _next_cells(draw, parameters, visited)
        visited = np.concatenate([visited, where[:, None]], axis=1)
        users.append(someone)
        cells.append(where)
        times.append(now_s)
    y, x = np.divmod(np.arange(rows * columns), columns)
    centres = np.stack([x + 0.5, y + 0.5], axis=1) * side
    return _collapsed(people, np.concatenate(users), np.concatenate(cells), np.concatenate(times), centres)


def _next_cells(draw: np.random.Generator, parameters: Location, visited: NDArray[np.int64]) -> NDArray[np.int64]:
    """For everybody, from the cells visited so far (the last is the current one): one of them again, or a jump."""
    count = len(visited)
    again = visited[np.arange(count), draw.integers(visited.shape[1], size=count)]
    y, x = np.divmod(visited[:, -1], parameters.columns)
    length = (1 - draw.random(count)) ** (-1 / parameters.jump_exponent)
    angle = draw.random(count) * 2 * np.pi
    x = np.clip(np.rint(x + length * np.cos(angle)), 0, parameters.columns - 1).astype(np.int64)
    y = np.clip(np.rint(y + length * np.sin(angle)), 0, parameters.rows - 1).astype(np.int64)
    return np.where(draw.random(count) < parameters.returning, again, y * parameters.columns + x)
