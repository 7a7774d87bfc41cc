"""Every workload of the five papers by name, and the shapes of real traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.errors import ConfigError
from coterie.model import Timeline, Workload
from coterie.model.parameters import configure
from coterie.workloads import articles, content, debian, dynatops, location, magnet, recorded, spidercast, tamara
from coterie.workloads.parameters import WorkloadParameters


@dataclass(frozen=True)
class WorkloadKind:
    """A named generator: the parameters it takes (their defaults are the paper's) and the workload it makes of them."""

    name: str
    title: str
    paper: str
    parameters: type[WorkloadParameters]
    generate: Callable[[Any, int], Workload]
    timelines: Mapping[str, Callable[[Any, int], Timeline]] = field(default_factory=dict)  # how it may change, by name
    is_recorded: bool = False  # needs the traces

    def make(self, parameters: WorkloadParameters, seed: int) -> Workload:
        return replace(self.generate(parameters, seed), name=self.name)

    def make_timeline(self, parameters: WorkloadParameters, seed: int, story: str = "") -> Timeline:
        """The workload and its changes; the first of its `timelines` where none is named."""
        if not self.timelines:
            raise ConfigError("workload", self.name, f"one that changes with time: {', '.join(changing())}")
        if story and story not in self.timelines:
            raise ConfigError("story", story, f"one of {', '.join(self.timelines)}")
        timeline = self.timelines[story or next(iter(self.timelines))](parameters, seed)
        return replace(timeline, start=replace(timeline.start, name=self.name))


def _synthetic() -> list[WorkloadKind]:
    magnets, spider, dynamic, trees = "Magnet", "SpiderCast", "DYNATOPS", "content trees"
    users = {"arrivals": tamara.arrivals, "shift": tamara.shift}
    poisson, moves = {"changes": dynatops.changes}, {"movement": location.movement}
    nodes = {"churn": spidercast.churn}
    return [
        WorkloadKind("uniform", "every topic alike", spider, spidercast.Uniform, spidercast.popular),
        WorkloadKind("zipf", "popularity i^-alpha", spider, spidercast.Zipf, spidercast.popular),
        WorkloadKind("rss", "popularity of feeds, zipf 0.5", spider, spidercast.Popular, spidercast.popular),
        WorkloadKind("nyse", "popularity of stocks, exponential", spider, spidercast.Nyse, spidercast.popular),
        WorkloadKind("churn", "feeds; nodes come and go", spider, spidercast.Churn, spidercast.popular, nodes),
        WorkloadKind("multimodal", "a few topic categories per peer", magnets, magnet.MultiModal, magnet.multimodal),
        WorkloadKind("uncorrelated", "one category for all", magnets, magnet.Uncorrelated, magnet.multimodal),
        WorkloadKind("spatial", "topics of users close by", magnets, magnet.Spatial, magnet.spatial),
        WorkloadKind("hierarchical", "topics close in a tree", magnets, magnet.Hierarchical, magnet.hierarchical),
        WorkloadKind("tamara", "favourite clusters of topics", "Tamara", tamara.Clustered, tamara.clustered, users),
        WorkloadKind("tamara-uniform", "uniform interests", "Tamara", tamara.Tamara, tamara.uniform, users),
        WorkloadKind("dynatops", "users at brokers", dynamic, dynatops.Dynatops, dynatops.poisson, poisson),
        WorkloadKind("dynatops-location", "cells of friends", dynamic, location.Location, location.located, moves),
        WorkloadKind("content", "keywords wanted by neighbours, x = 2 %", trees, content.Keywords, content.keywords),
        WorkloadKind("content-localized2", "the same, x = 15 %", trees, content.Localized2, content.keywords),
        WorkloadKind("content-uniform", "the same without locality", trees, content.Everywhere, content.keywords),
    ]


def _recorded() -> list[WorkloadKind]:
    """Those that read the traces."""
    tamaras, dynamic, trees = "Tamara", "DYNATOPS", "content trees"
    moves, installs = {"movement": location.movement}, {"arrivals": debian.arrivals}
    month, day = {"edits": recorded.wiki_edits}, {"edits": recorded.wiki24h_edits}
    return [
        WorkloadKind("wiki", "Wikipedia edits of a month", "Magnet", recorded.Wiki, recorded.wiki, month, True),
        WorkloadKind("wiki24h", "Wikipedia edits of a day", "Magnet", recorded.Wiki24h, recorded.wiki24h, day, True),
        WorkloadKind("debian", "installed packages", tamaras, debian.Debian, debian.debian, installs, True),
        WorkloadKind("gowalla", "check-ins worldwide", dynamic, location.Gowalla, location.located, moves, True),
        WorkloadKind("foursquare", "check-ins in the US", dynamic, location.Foursquare, location.located, moves, True),
        WorkloadKind("citeulike", "articles kept", "SpiderCast", recorded.Citeulike, recorded.citeulike, {}, True),
        WorkloadKind("citeulike-documents", "words", trees, articles.Articles, articles.articles, {}, True),
    ]


WORKLOADS: dict[str, WorkloadKind] = {kind.name: kind for kind in _synthetic() + _recorded()}


def changing() -> list[str]:
    """The names of the workloads that also make timelines."""
    return [name for name, kind in WORKLOADS.items() if kind.timelines]


def kind_of(name: str) -> WorkloadKind:
    if name not in WORKLOADS:
        raise ConfigError("workload", name, f"one of {', '.join(sorted(WORKLOADS))}")
    return WORKLOADS[name]


def make_workload(name: str, settings: Mapping[str, object], seed: int) -> Workload:
    """A workload by name, from settings as a command line has them; what is not set is as in the paper."""
    kind = kind_of(name)
    return kind.make(configure(kind.parameters, settings, f"workload {name}"), seed)


def make_timeline(name: str, settings: Mapping[str, object], seed: int, story: str = "") -> Timeline:
    """A workload that changes with time, by name."""
    kind = kind_of(name)
    return kind.make_timeline(configure(kind.parameters, settings, f"workload {name}"), seed, story)
