"""DYNATOPS' generic model (section 6.1.2): users at brokers whose subscriptions change as a Poisson process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.interests.drawing import fill_guide
from coterie.kernels.interests.following import replace_topics
from coterie.model import Change, Relation, Timeline, Workload
from coterie.workloads.changes import Changes, drawn_anew, in_time_order
from coterie.workloads.parameters import CHANGES, INTERESTS, MODES, Sized, at_least, one_of, stream, within
from coterie.workloads.popularity import draw_modal_interests, even_bounds, fixed_sizes, zipf
from coterie.workloads.rates import settled
from coterie.workloads.spidercast import workload_of

HOUR_S = 3600.0
PATTERNS = ("multimodal", "zipf", "uniform")
CHANGE_READINGS = ("topic", "mode")


class Dynatops(Sized, frozen=True, kw_only=True):
    """Users, brokers, topics and how subscriptions change."""

    nodes: int = 100  # how many brokers (|B|)
    subscribers: int = 50_000  # how many users
    topics: int = 1000  # how many topics (|P|)
    subscriptions: int = 5  # topics per user
    pattern: str = "multimodal"  # how interests go together: multimodal, zipf or uniform (section 6.1.2)
    exponent: float = 1.0  # sigma of zipf: p_i proportional to (i + 1)^-sigma
    modes: int = 100  # groups of topics of the same size (m)
    duration_s: float = 100 * HOUR_S  # how long interests change (T)
    step_s: float = HOUR_S  # Delta t: changes take effect at the end of their step; 0: at once
    change_rate: float = 0.1  # Poisson rate of changes per user and hour (0.025 and 0.1 in section 6.3)
    change: str = "topic"  # a change replaces one topic inside the mode, or redraws the mode and all topics

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("pattern", self.pattern, PATTERNS)
        one_of("change", self.change, CHANGE_READINGS)
        within("modes", self.modes, 1, self.topics)
        for key in ("exponent", "duration_s", "step_s", "change_rate"):
            at_least(key, getattr(self, key), 0)
        smallest = self.topics // self.mode_count
        if not 1 <= self.subscriptions < max(smallest, 2):
            allowed = f"from 1 to {smallest - 1}: a change needs a topic to go to, and a mode has {smallest}"
            raise ConfigError("subscriptions", self.subscriptions, allowed)

    @property
    def mode_count(self) -> int:
        return self.modes if self.pattern == "multimodal" else 1


def poisson(parameters: Dynatops, seed: int) -> Workload:
    """The workload at time 0."""
    modes = _draw_modes(stream(seed, MODES), parameters, parameters.subscriber_count)
    interests = _interests(stream(seed, INTERESTS), parameters, modes)
    return workload_of("dynatops", parameters, interests, seed, modes if parameters.pattern == "multimodal" else None)


def changes(parameters: Dynatops, seed: int) -> Timeline:
    """The workload and its changes; at one moment of one user, what goes comes before what comes."""
    start = poisson(parameters, seed)
    draw = stream(seed, CHANGES)
    mean = parameters.subscriber_count * parameters.change_rate * parameters.duration_s / HOUR_S
    time_s = np.sort(draw.random(draw.poisson(mean))) * parameters.duration_s
    who = draw.integers(parameters.subscriber_count, size=len(time_s), dtype=np.int32)
    if parameters.step_s:
        time_s = np.ceil(time_s / parameters.step_s) * parameters.step_s
    part = _replaced if parameters.change == "topic" else _redrawn
    return in_time_order(start, [part(draw, parameters, start, settled(time_s), who)])


def _replaced(
    draw: np.random.Generator,
    parameters: Dynatops,
    start: Workload,
    time_s: NDArray[np.float64],
    who: NDArray[np.int32],
) -> Changes:
    held = start.interests.columns.reshape(-1, parameters.subscriptions).copy()
    modes = start.modes if start.modes is not None else np.zeros(len(held), np.int32)
    upto = np.cumsum(_weights(parameters))
    upto /= upto[-1]
    dropped, taken = replace_topics(draw, upto, fill_guide(upto), held, modes, _bounds(parameters), who)
    change = np.tile(np.array([Change.UNSUBSCRIBE, Change.SUBSCRIBE], np.uint8), len(who))
    return Changes.of(np.repeat(time_s, 2), change, np.repeat(who, 2), np.stack([dropped, taken], axis=1).ravel())


def _redrawn(
    draw: np.random.Generator,
    parameters: Dynatops,
    start: Workload,
    time_s: NDArray[np.float64],
    who: NDArray[np.int32],
) -> Changes:
    """Every change draws a mode and all topics anew; topics that stay are no change."""
    fresh = _interests(draw, parameters, _draw_modes(draw, parameters, len(who)))
    return drawn_anew(start.interests, fresh, time_s, who)


def _draw_modes(draw: np.random.Generator, parameters: Dynatops, count: int) -> NDArray[np.int32]:
    return draw.integers(parameters.mode_count, size=count, dtype=np.int32)


def _bounds(parameters: Dynatops) -> NDArray[np.int64]:
    return even_bounds(parameters.topics, parameters.mode_count)


def _weights(parameters: Dynatops) -> NDArray[np.float64]:
    count = int(np.diff(_bounds(parameters)).max())
    return zipf(count, parameters.exponent, shift=1) if parameters.pattern == "zipf" else np.ones(count)


def _interests(draw: np.random.Generator, parameters: Dynatops, modes: NDArray[np.int32]) -> Relation:
    sizes = fixed_sizes(len(modes), parameters.subscriptions)
    return draw_modal_interests(draw, _weights(parameters), sizes, modes[:, None], _bounds(parameters))
