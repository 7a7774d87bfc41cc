"""The nouns: what a workload, a design, a ledger and a slice are."""

from coterie.model.design import Channels, Design, Entries, Overlay, Placement, Spread, Trees
from coterie.model.graph import BrokerGraph
from coterie.model.ledger import Ledger
from coterie.model.plan import Slice, Topic
from coterie.model.relation import Relation
from coterie.model.workload import Change, Content, Publications, Stays, Timeline, Wishes, Workload

__all__ = [
    "BrokerGraph",
    "Change",
    "Channels",
    "Content",
    "Design",
    "Entries",
    "Ledger",
    "Overlay",
    "Placement",
    "Publications",
    "Relation",
    "Slice",
    "Spread",
    "Stays",
    "Timeline",
    "Topic",
    "Trees",
    "Wishes",
    "Workload",
]
