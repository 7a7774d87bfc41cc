"""Compile what every system needs once, so that parallel test workers find it in the cache."""

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.systems import SYSTEMS
from coterie.workloads import make_workload

for name, settings in (
    ("multimodal", {"nodes": 40, "topics": 10, "subscriptions": 3, "modes": 2}),
    ("content", {"nodes": 30, "topics": 20, "keywords": 10, "network": "flat", "degree": 4}),
):
    workload = make_workload(name, settings, seed=1)
    for system in SYSTEMS.values():
        if system.fits(workload):
            design = system.plan(workload, seed=1)
            price(system.adopt(design, workload, seed=1), workload)
    lower_bounds(workload)
