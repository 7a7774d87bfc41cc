"""Publication rates of topics and who publishes them: per interval as the papers have them, in workloads per second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.drawing import draw_rows_of_columns
from coterie.model import Publications, Relation, Workload
from coterie.workloads.parameters import INTERVAL_S, PUBLICATIONS, WorkloadParameters, stream

# Tamara, Table 1: (lowest, highest, percent of topics) per interval of six minutes. The first bin of the average model
# is printed "0.6-0.6"; 0.4-0.6 closes the gap to the next bin.
FREQUENCY_BINS = {
    "average": ((0.4, 0.6, 15), (0.2, 0.4, 5), (0.1, 0.2, 25), (0.02, 0.1, 45), (0.002, 0.02, 10)),
    "frequent": ((1.0, 3.0, 5), (0.5, 1.0, 20), (0.1, 0.5, 50), (0.01, 0.1, 20), (0.001, 0.01, 5)),
    "infrequent": ((0.1, 0.2, 10), (0.01, 0.1, 40), (0.001, 0.01, 50)),
}
PRINTED_FIRST_BIN = (0.6, 0.6, 15)


def publish(parameters: WorkloadParameters, interests: Relation, seed: int) -> Publications:
    """Rates by the parameters' model, publishers from the subscribers of each topic. Unwanted topics stay silent."""
    draw = stream(seed, PUBLICATIONS)
    popularity = np.bincount(interests.columns, minlength=interests.column_count)
    return publishers_of(draw, interests, topic_rates(draw, parameters, popularity), parameters.publishers)


def topic_rates(
    draw: np.random.Generator, parameters: WorkloadParameters, popularity: NDArray[np.int64]
) -> NDArray[np.float64]:
    if parameters.rates == "constant":
        rates = np.full(len(popularity), parameters.rate)
    elif parameters.rates == "power-law":
        rates = by_popularity(popularity, parameters.rate_exponent) * parameters.rate
    else:
        rates = by_bins(draw, FREQUENCY_BINS[parameters.rates], len(popularity))
    if parameters.whole_rates:
        rates = np.maximum(1.0, np.rint(rates))
    return rates


def per_interval(workload: Workload) -> NDArray[np.float64]:
    """Events of each topic in the papers' interval M, as the generators drew them."""
    return settled(workload.rates * INTERVAL_S)


def by_popularity(popularity: NDArray[np.int64], exponent: float) -> NDArray[np.float64]:
    """A power law over ranks with mean 1, the highest rate to the most popular topic (Magnet, section 4.2)."""
    law = np.arange(1, len(popularity) + 1, dtype=np.float64) ** -exponent
    rates = np.empty(len(popularity))
    rates[np.argsort(-popularity, kind="stable")] = law / law.mean()
    return settled(rates)


def by_bins(
    draw: np.random.Generator, bins: tuple[tuple[float, float, int], ...], count: int, is_logarithmic: bool = True
) -> NDArray[np.float64]:
    """Rates inside the bins, each bin with its percentage of the topics, in random order."""
    shares = np.cumsum([percent for _, _, percent in bins])
    chosen = np.searchsorted(shares * count / shares[-1], np.arange(count) + 0.5)
    low, high = (np.array([entry[side] for entry in bins])[chosen] for side in (0, 1))
    point = draw.random(count)
    rates = low * (high / low) ** point if is_logarithmic else low + (high - low) * point
    return draw.permutation(settled(np.clip(rates, low, high)))


def settled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without the last bits, in which the exponential functions of two machines may differ."""
    return np.round(values, 9)


def publishers_of(
    draw: np.random.Generator, interests: Relation, rates: NDArray[np.float64], per_topic: int
) -> Publications:
    """Each topic's rate shared by `per_topic` of its subscribers (or all it has): whole rates in whole shares."""
    chosen, wanted_by = draw_rows_of_columns(
        draw, interests.indptr, interests.columns, interests.column_count, per_topic
    )
    sharing = np.minimum(wanted_by, per_topic)
    topic, slot = np.nonzero(np.arange(per_topic) < sharing[:, None])
    share = rates[topic] / sharing[topic]
    dealt = rates[topic] // sharing[topic] + (slot < rates[topic] % sharing[topic])
    share = np.where(rates[topic] == np.floor(rates[topic]), dealt, share)
    loud = share > 0
    return Publications.of(chosen[topic, slot][loud], topic[loud], share[loud] / INTERVAL_S)
