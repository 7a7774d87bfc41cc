"""The four pages on adding something, followed word for word: their module, their registration, their commands."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from coterie.accounting.price import price
from coterie.cli import main
from coterie.lab import registry as claims
from coterie.lab.experiment import Row
from coterie.lab.judging import Verdict, judge
from coterie.model.latency import Latency
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate
from coterie.systems import SYSTEMS
from coterie.workloads import WORKLOADS, WorkloadKind
from tests.bills import differing
from tests.conftest import small_workload
from tests.docs.pages import DOCS, blocks_of
from tests.fleets.plans import publish_plan
from tests.fleets.stock import Crowd


def module_of(page: str, name: str) -> ModuleType:
    """The page's module, as if its file were there."""
    source = next(block.text for block in blocks_of(DOCS / "howto" / page) if block.language == "python")
    spec = spec_from_loader(name, loader=None)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(source, f"docs/howto/{page}", "exec"), module.__dict__)
    return module


def commands_of(page: str) -> list[str]:
    found = [block.text for block in blocks_of(DOCS / "howto" / page) if block.language == "sh"]
    return [line for text in found for line in text.splitlines() if line.startswith("coterie ")]


def said_by(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main.run()
    said = capsys.readouterr()
    assert not ended.value.code, said.err
    return said.out


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = module_of("add-a-system.md", "coterie.systems.chain")
    monkeypatch.setitem(SYSTEMS, "chain", module.SYSTEM)
    yield
    del sys.modules["coterie.systems.chain"]


@pytest.mark.usefixtures("chain")
def test_a_system(capsys, monkeypatch):
    said = "".join(said_by(command, capsys, monkeypatch) for command in commands_of("add-a-system.md"))
    assert "link_heartbeat_s" in said
    assert re.search(r"per second +mesh +chain +lower bound", said)


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize("seed", range(6))
def test_its_bulk_form_and_its_protocol_agree(seed):
    system, workload = SYSTEMS["chain"], small_workload(9, 4, seed, None if seed % 2 else 20)
    design = system.plan(workload, seed=seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1_000, 200_000, (9, 9)) / 1000)
    simulated = simulate(system, system.parameters(), design, workload, seed, latency, through_wire=True)
    assert simulated.missing == []
    assert differing(simulated.ledger, price(design, workload, latency)) == {}
    assert simulate(system, system.parameters(), design, workload, seed, faults=FaultMix()).probes > 0


def test_a_target(tmp_path, capsys, monkeypatch):
    from coterie.fleets.export import registry

    module = module_of("add-a-target.md", "coterie.fleets.export.nginx_map")
    monkeypatch.setitem(registry.TARGETS, "nginx-map", module.TARGET)
    crowd = Crowd(clients=6, topics=6, modes=2, seed=1)
    publish_plan(tmp_path / "plan", crowd.wishes, crowd.publishes, ["b0", "b1", "b2"], "mesh")
    (fleet,) = (block.text for block in blocks_of(DOCS / "howto" / "add-a-target.md") if block.language == "toml")
    (tmp_path / "fleet.toml").write_text(fleet)
    monkeypatch.chdir(tmp_path)
    for command in commands_of("add-a-target.md"):
        said_by(command, capsys, monkeypatch)
    lines = Path("export/nginx-map/clients.map").read_text().splitlines()
    assert len(lines) == len(crowd.wishes)
    assert all(re.fullmatch(r'".+" 127\.0\.0\.1:188[345];', line) for line in lines)


def test_a_workload(capsys, monkeypatch):
    module = module_of("add-a-workload.md", "coterie.workloads.halls")
    line = [block.text for block in blocks_of(DOCS / "howto" / "add-a-workload.md") if block.language == "python"][1]
    kind = eval(line.strip().rstrip(","), {"WorkloadKind": WorkloadKind, "halls": module})
    monkeypatch.setitem(WORKLOADS, "halls", kind)
    said = "".join(said_by(command, capsys, monkeypatch) for command in commands_of("add-a-workload.md"))
    assert "halls: 40 nodes, 41 topics" in said
    one, two = (kind.make(module.Halls(nodes=20, topics=41, halls=4), seed=3) for _ in range(2))
    assert one.interests == two.interests or np.array_equal(one.interests.columns, two.interests.columns)
    assert set(one.interests.lengths.tolist()) == {6}


def test_a_claim(monkeypatch):
    module = module_of("add-a-claim.md", "coterie.lab.mesh")
    monkeypatch.setattr(claims, "PAPERS", (*claims.PAPERS, "mesh"))
    (experiment,) = claims.experiments("mesh")
    rows = [Row(experiment.id, point, 1, experiment.run(point, 1)) for point in experiment.quick]
    verdicts = [judge(claim, rows).verdict for claim in experiment.claims]
    assert verdicts == [Verdict.REPRODUCED, Verdict.PARTLY], "as the page says"
    assert [experiment] == module.EXPERIMENTS
