"""SpiderCast: one topic-connected overlay with few links (Chockler, Melamed, Tock, Vitenberg, DEBS 2007)."""
