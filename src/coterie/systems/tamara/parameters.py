"""Tamara's parameters: when channels look for better clusters, on top of Scribe's own."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.protocol.system import check_count
from coterie.systems.scribe import ScribeParameters


class TamaraParameters(ScribeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs are the running example's: one message per subscriber, association and notification."""

    confidence: float = 0.99  # how surely a beneficial update is looked at (phi, section 3.1)
    survey_size: int = 384  # n0 of Cochran's sample (5 points, 95 %), reference [1]; 0 asks everybody
    survey_share: float = 0.1  # "periodically", section 3.2: after this share of a channel's subscribers moved
    clusters_max: int = 100_000  # in use at a time
    rate_prior: float = 0.1  # events per interval of a topic nobody has seen any of (alpha, section 3.2)
    depth_max: int = 6  # updates that may follow from one another before a user's next wish
    is_adaptive: bool = True  # off: clusters stay as they are (SC, section 5.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.confidence <= 1:
            raise ConfigError("confidence", self.confidence, "above 0, at most 1")
        if self.survey_size < 0:
            raise ConfigError("survey_size", self.survey_size, "at least 0")
        if not 0 < self.survey_share <= 1:
            raise ConfigError("survey_share", self.survey_share, "above 0, at most 1")
        if self.rate_prior < 0:
            raise ConfigError("rate_prior", self.rate_prior, "at least 0")
        check_count("depth_max", self.depth_max)
        check_count("clusters_max", self.clusters_max)
