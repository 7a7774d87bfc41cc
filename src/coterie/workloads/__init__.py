"""Every workload of the five papers by name, and the shapes of real traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coterie.errors import ConfigError
from coterie.model import Workload
from coterie.workloads import magnet, spidercast
from coterie.workloads.parameters import Parameters, read_parameters


@dataclass(frozen=True)
class WorkloadKind:
    """A named generator: the parameters it takes (their defaults are the paper's) and the workload it makes of them."""

    name: str
    title: str
    paper: str
    parameters: type[Parameters]
    generate: Callable[[Any, int], Workload]

    def make(self, parameters: Parameters, seed: int) -> Workload:
        return replace(self.generate(parameters, seed), name=self.name)


def _kinds() -> list[WorkloadKind]:
    magnets, spider = "Magnet", "SpiderCast"
    return [
        WorkloadKind("uniform", "every topic alike", spider, spidercast.Uniform, spidercast.popular),
        WorkloadKind("zipf", "popularity i^-alpha", spider, spidercast.Zipf, spidercast.popular),
        WorkloadKind("rss", "popularity of feeds, zipf 0.5", spider, spidercast.Popular, spidercast.popular),
        WorkloadKind("nyse", "popularity of stocks, exponential", spider, spidercast.Nyse, spidercast.popular),
        WorkloadKind("multimodal", "a few topic categories per peer", magnets, magnet.MultiModal, magnet.multimodal),
        WorkloadKind("uncorrelated", "one category for all", magnets, magnet.Uncorrelated, magnet.multimodal),
        WorkloadKind("spatial", "topics of users close by", magnets, magnet.Spatial, magnet.spatial),
        WorkloadKind("hierarchical", "topics close in a tree", magnets, magnet.Hierarchical, magnet.hierarchical),
    ]


WORKLOADS: dict[str, WorkloadKind] = {kind.name: kind for kind in _kinds()}


def kind_of(name: str) -> WorkloadKind:
    if name not in WORKLOADS:
        raise ConfigError("workload", name, f"one of {', '.join(sorted(WORKLOADS))}")
    return WORKLOADS[name]


def make_workload(name: str, settings: Mapping[str, object], seed: int) -> Workload:
    """A workload by name, from settings as a command line has them; what is not set is as in the paper."""
    kind = kind_of(name)
    return kind.make(read_parameters(kind.parameters, settings), seed)
