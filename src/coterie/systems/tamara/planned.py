"""Topic-clusters chosen by the central planner, run by nodes that follow their plan: beyond the paper."""

from __future__ import annotations

from coterie.protocol.system import System, beats_on_trees_and_links
from coterie.systems import scribe
from coterie.systems.scribe import ScribeParameters, pastry_overlay
from coterie.systems.tamara.messages import CLUSTER_MESSAGES
from coterie.systems.tamara.node import ClusterNode
from coterie.systems.tamara.stages import ClusterStages, cluster_trees, planned_channels


class ClusterParameters(ScribeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing beyond Scribe's: the planner has no knobs."""


SYSTEM = System(
    name="topic-clusters",
    title="Planned topic-clusters over Scribe",
    paper="(beyond Milo, Zur, Verbin, 2007)",
    parameters=ClusterParameters,
    stages=ClusterStages(
        channels=planned_channels,
        overlay=pastry_overlay,
        trees=cluster_trees,
        upkeep=beats_on_trees_and_links,
    ),
    node=ClusterNode,
    messages=(*scribe.SYSTEM.messages, *CLUSTER_MESSAGES),
)
