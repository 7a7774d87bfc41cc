"""Magnet: a ring ordered by interest and trees that keep the order (Girdzijauskas et al., DEBS 2010)."""
