"""Every command in README, docs and `--help` is run by a test: here, or by the test that follows the page."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from csv import DictReader
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import DOCS, EXAMPLES, ROOT, all_pages, blocks_of, free_base, plain, run, running, with_command

# Page -> who follows it, word for word. A page with commands must be here.
FOLLOWED = {
    "README.md": "tests/docs/test_commands.py::test_readme",
    "docs/index.md": "tests/docs/test_commands.py::test_home",
    "docs/tutorial.md": "tests/docs/test_commands.py::test_tutorial",
    "docs/PIPELINE.md": "tests/docs/test_commands.py::test_pipeline",
    "docs/NETWORK.md": "tests/docs/test_commands.py::test_network",
    "docs/howto/spark.md": "tests/docs/test_commands.py::test_spark_cluster",
    "docs/howto/cluster.md": "tests/interop/test_cluster_page.py::test_the_page_word_for_word",
    "docs/howto/operate.md": "tests/docs/test_commands.py::test_operate",
    "docs/howto/tls.md": "tests/docs/test_commands.py::test_tls",
    "docs/howto/install.md": "tests/cli/test_commands.py::test_doctor_finds_everything",
    "docs/howto/add-a-system.md": "tests/docs/test_extending.py::test_a_system",
    "docs/howto/add-a-target.md": "tests/docs/test_extending.py::test_a_target",
    "docs/howto/add-a-workload.md": "tests/docs/test_extending.py::test_a_workload",
    "docs/howto/add-a-claim.md": "tests/docs/test_extending.py::test_a_claim",
    "docs/howto/backtest.md": "tests/cli/test_backtesting.py::test_the_page_word_for_word",
    "docs/howto/observe.md": "tests/fleets/observe/test_howto.py::test_the_page",
    "docs/howto/haproxy.md": "tests/fleets/test_howtos.py::test_haproxy",
    "docs/howto/mosquitto-acl.md": "tests/fleets/test_howtos.py::test_mosquitto_acl",
    "docs/howto/mosquitto-bridges.md": "tests/fleets/test_howtos.py::test_mosquitto_bridges",
    "docs/howto/nats.md": "tests/fleets/test_howtos.py::test_nats",
    "docs/howto/loop.md": "tests/fleets/test_howtos.py::test_loop",
    "docs/howto/emqx.md": "tests/fleets/test_howtos.py::test_pages_that_only_write_files",
    "docs/howto/table.md": "tests/fleets/test_howtos.py::test_pages_that_only_write_files",
}
# Commands that no test runs, and why. Set-up is what CI itself does before it tests.
NOT_RUN = {
    "make": "CI is `make test`, which begins with the set-up of `make run`",
    "pip": "tests/docs/test_packaging.py builds and installs",
    "pipx": "the same entry point",
    "coterie observe --as": "other people's machines; tests/fleets/observe has a stand-in for each",
    "curl -u": "a running EMQX",
    "python -m pytest": "a test that runs tests",
    "coterie compare": "the embedded data takes a minute; tests/cli and `make run` do it",
    "coterie compare --peers": "as above",
    "coterie compare --prices prices.toml": "as above; the home page does it on the example",
    "coterie plan": "as above",
    "coterie frontier": "as above",
    "coterie backtest": "tests/cli/test_backtesting.py does it on the embedded data",
}
WHOLE = (
    "coterie compare",
    "coterie plan",
    "coterie backtest",
    "coterie frontier",
)  # excused only as they stand, without an input
PAGE_PORT = 1883  # of the first node on every page; others and admin ports follow from it


def commands_of(page: Path, language: str = "sh") -> list[str]:
    return [block.text for block in blocks_of(page) if block.language == language]


ABROAD = (
    "s3a://",
    "kafka://",
    "hdfs://",
    "table:",
    "spark://",
)  # other people's machines; tests/pipeline has stand-ins


def is_excused(command: str) -> bool:
    if any(address in command for address in ABROAD):
        return True
    return command in NOT_RUN or any(command.startswith(f"{one} ") for one in NOT_RUN if one not in WHOLE)


def elsewhere(text: str, base: int) -> str:
    """The same on ports that are free: 1884 becomes the one after `base`, and so on; somebody may have a broker."""
    pages = r"\b(1883|1884|1885|2883|1893|8893)\b"
    return re.sub(pages, lambda found: str(base + (int(found[1]) - PAGE_PORT) % 3000), text)


PLAN = commands_of(DOCS / "tutorial.md")[0]  # for three brokers; made once, since steps are kept


# Nothing is forgotten


def test_every_page_with_commands_is_followed():
    for page in all_pages():
        name = str(page.relative_to(ROOT))
        lines = [line for block in commands_of(page) for line in block.splitlines() if line.startswith("coterie ")]
        if any(not is_excused(line.split("  #")[0].strip()) for line in lines):
            assert name in FOLLOWED, f"{name} has commands that no test runs"


@pytest.mark.parametrize("test", sorted(set(FOLLOWED.values())))
def test_whoever_follows_exists(test):
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def test_commands_are_marked_as_such():
    """A block that looks like commands and is not marked `sh` would escape this file."""
    for page in all_pages():
        for block in blocks_of(page) if page.name != "first-use.md" else ():  # a record of what was done once
            if block.language in ("", "console", "bash", "shell", "text"):
                loose = [line for line in block.text.splitlines() if re.match(r"(\$ )?coterie [a-z]", line)]
                assert all(is_excused(line) for line in loose), f"{page.name}: {loose}"


# Pages that need Spark: one session, in this process


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages assume to be there: the example log, also compressed as JSON Lines, and two brokers' logs.

    One folder for all tests: what a step of the pipeline made for one page is there for the next.
    """
    folder = tmp_path_factory.mktemp("pages")
    for name in ("subs.csv", "pubs.csv"):
        shutil.copy(EXAMPLES / name, folder)
    with (EXAMPLES / "pubs.csv").open() as rows, gzip.open(folder / "pubs.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps({**row, "bytes": int(row["bytes"])}) + "\n" for row in DictReader(rows))
    mosquitto_logs(folder)
    return folder


@pytest.fixture
def folder(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shared)
    return shared


@pytest.fixture
def own(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that no other page writes into, with the example log."""
    for name in ("subs.csv", "pubs.csv"):
        shutil.copy(shared / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    return caller(folder, monkeypatch)


def caller(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Runs a block line by line: `coterie` in this process over the session that other tests use, the rest in bash."""
    from coterie.pipeline import session

    original = session.open_session

    def opened(*_: object, **__: object) -> object:  # small logs never ask for it
        spark = original("local[1]", profile="test", work_dir=folder / "spark")
        monkeypatch.setattr(type(spark), "stop", lambda self: None)
        return spark

    monkeypatch.setattr(session, "open_session", opened)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("coterie.") and getattr(module, "open_session", None) is original:
            monkeypatch.setattr(module, "open_session", opened)
    environment = with_command(folder)

    def call(block: str) -> str:
        said = ""
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "coterie" and not {"&", "|"} & set(words):
                said += in_process(words, monkeypatch)
            elif words:
                said += run(line, folder, environment)
        return said

    return call


def in_process(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    main = import_module("coterie.cli.main")
    words, target = (words[: words.index(">")], words[words.index(">") + 1]) if ">" in words else (words, "")
    monkeypatch.setattr(sys, "argv", words)
    said = StringIO()
    with redirect_stdout(said), pytest.raises(SystemExit) as ended:
        main.run()
    assert not ended.value.code, f"{shlex.join(words)}\n{said.getvalue()}"
    if target:
        Path(target).write_text(said.getvalue())
        return ""
    return said.getvalue()


def check_outputs(page: Path, said: str) -> None:
    """Every line of the page's `text` blocks that stand right after commands is something they said."""
    before = ""
    for block in blocks_of(page):
        if block.language == "text" and before == "sh":
            for line in filter(None, map(plain, block.text.splitlines())):
                assert line == "..." or line in plain(said), f"{page.name} shows: {line}"
        before = block.language


spark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]


def marked(test: Callable[..., None]) -> Callable[..., None]:
    for mark in spark:
        test = mark(test)
    return test


@marked
def test_home(here):
    said = "".join(here(block) for block in commands_of(DOCS / "index.md"))
    check_outputs(DOCS / "index.md", said)
    for word in ("- Now: ", "- Best: ", "- Its price: ", "saved"):
        assert word in said
    assert Path("out/subs/report.html").is_file()


@marked
def test_spark_cluster(here):
    (block,) = commands_of(DOCS / "howto" / "spark.md")
    assert "mesh" in here(block)


def mosquitto_logs(folder: Path) -> None:
    """What two mosquittos with `log_type all` write: eight clients, two tastes."""
    for number, name in enumerate(("north", "south")):
        (folder / name).mkdir()
        lines = []
        for client in range(4):
            who, at = f"client-{number}-{client}", 1_700_000_000 + client
            lines += [
                f"{at}: New client connected from 127.0.0.1:5000{client} as {who} (p2, c1, k60).",
                f"{at}: Received SUBSCRIBE from {who}",
                f"{at}: \tt/{client % 2}/a (QoS 0)",
            ]
        for second in range(60):
            who = f"client-{number}-{second % 4}"
            text = f"Received PUBLISH from {who} (d0, q0, r0, m0, 't/{second % 2}/a', ... (100 bytes))"
            lines.append(f"{1_700_000_010 + second * 10}: {text}")
        (folder / name / "mosquitto.log").write_text("\n".join(lines) + "\n")


@marked
def test_readme(here):
    here("coterie prices > prices.toml")
    for block in commands_of(ROOT / "README.md"):
        for line in block.replace("\\\n", " ").splitlines():
            if not is_excused(line.split("#")[0].strip()) and "system" not in line:
                said = here(line.split("#")[0] + fewer(line))
                assert said or ">" in line


def fewer(line: str) -> str:
    """Two systems are as good a test as fourteen, and take a tenth of the time."""
    return " --system mesh --system star" if re.match(r"coterie (compare|plan|watch) ", line) else ""


@marked
def test_pipeline(here):
    here("coterie observe -b north=north/mosquitto.log -b south=south/mosquitto.log --out journal")
    (block,) = commands_of(DOCS / "PIPELINE.md")
    for line in block.splitlines():
        command = line.split("#")[0]
        here(command + fewer(line) + (" --once" if " watch " in command else ""))
    assert list(Path("out").glob("*/plans"))


# Pages with a network: real processes


class PageNetwork(NamedTuple):
    """Three nodes, as the pages start them, in a folder and on ports of their own."""

    folder: Path
    environment: dict[str, str]
    base: int

    def run(self, block: str) -> str:
        """The page's commands, on the ports of this network."""
        text = re.sub(r"^(coterie (?:sub|pub) (?!.*--port).*?)( >|$)", r"\1 --port 1883\2", block, flags=re.MULTILINE)
        text = re.sub(
            r"^(coterie (?:apply|top|reload|dashboard) .*)$", r"\1 --base-port 1883", text, flags=re.MULTILINE
        )
        return run(elsewhere(text, self.base), self.folder, self.environment)


@pytest.fixture
def network(own: Path) -> Iterator[PageNetwork]:
    environment, base = with_command(own), free_base(3)
    up = f"coterie up --nodes 3 --system mesh --base-port {base} --data net"
    with running(up, own, environment, "are up"):
        yield PageNetwork(own, environment, base)


@marked
@pytest.mark.interop
def test_tutorial(network, monkeypatch):
    page, here = DOCS / "tutorial.md", caller(network.folder, monkeypatch)
    said = ""
    for block in commands_of(page):
        if "coterie up " in block:
            assert plain(block) == "coterie up --nodes 3 --system mesh --data net", "what the fixture starts"
        elif "coterie plan" in block or "coterie watch" in block:
            said += here(block)
        else:
            said += network.run(block)
    check_outputs(page, said)


@pytest.mark.interop
@pytest.mark.timeout(200)
def test_operate(network):
    said = ""
    for block in commands_of(DOCS / "howto" / "operate.md"):
        if "coterie up " not in block:
            said += network.run(block)
    assert "scrypt$" in said
    assert "coterie_" in said
    assert '"status"' in said


@pytest.mark.interop
@pytest.mark.timeout(120)
def test_tls(own):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    page = DOCS / "howto" / "tls.md"
    (config,) = commands_of(page, "toml")
    base = free_base(11)
    (own / "node.toml").write_text(elsewhere(config, base))
    environment = with_command(own)
    certificates, node, look = commands_of(page)
    run(certificates, own, environment)
    with running(node.strip(), own, environment, "is ready"):
        check_outputs(page, run(elsewhere(look, base), own, environment))


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_network(network, monkeypatch):
    """The commands of the page on the network, those with a planner included, each on its own."""
    caller(network.folder, monkeypatch)(PLAN)
    shutil.copytree("out/subs", "plans")
    for block in commands_of(DOCS / "NETWORK.md"):
        for line in block.splitlines():
            command = line.split("#")[0].strip()
            if re.match(r"coterie (sub|up|node|watch|dashboard)\b", command) or not command:
                continue  # these go on; the tutorial and tests/interop run them
            said = network.run(command.replace("--nodes 5", "--nodes 3"))
            assert said or command.startswith("coterie pub")


# Help


def examples() -> list[tuple[str, str]]:
    from scripts.docsite.reference import all_commands, examples_in

    found = []
    for name, command in all_commands():
        for paragraph in (command.help or "").split("\n\n"):
            found += [(name, example) for example in examples_in(paragraph)]
    return found


SPARK = ("compare", "plan", "backtest", "frontier")
LIVE = ("pub", "apply", "top", "reload", "bench")
ELSEWHERE = {
    **dict.fromkeys(("simulate", "price", "prices", "systems", "workloads", "doctor"), "tests/cli/test_help.py"),
    "reproduce": "tests/papers, in its quick form",
    "torture": "tests/simulation, with fewer seeds",
    "init": "tests/founding",
    "up": "tests/interop/test_up.py",
    "node": "test_tls",
    "sub": "test_tutorial",
    "dashboard": "tests/interop/test_dashboard.py",
    "watch": "test_tutorial",
    "observe": "tests/fleets/observe",
    "export": "tests/fleets/test_howtos.py",
    "loop": "tests/fleets/test_howtos.py",
    "backup": "tests/interop/test_founding.py",
    "members": "tests/interop/test_cluster_page.py",
    "drain": "tests/interop/test_cluster_page.py",
    "remove": "tests/interop/test_cluster_page.py",
    "inspect": "tests/interop/test_founding.py",
    "restore": "tests/interop/test_founding.py",
}


def test_every_help_s_examples_have_somebody_who_runs_them():
    assert {name for name, _ in examples()} <= {*SPARK, *LIVE, *ELSEWHERE}


@marked
def test_examples_over_a_log(here):
    for name, example in examples():
        if name in SPARK and not is_excused(example):
            here(example + fewer(example) + ("" if "--map" in example else " --map subscriber=user"))


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_examples_on_a_network(network, monkeypatch):
    caller(network.folder, monkeypatch)(PLAN)
    for name, example in examples():
        if name in LIVE:
            shorter = {"top": " --once", "bench": " --messages 100"}.get(name, "")
            line = re.sub(r"--nodes 5", "--nodes 3", example) + shorter
            line = re.sub(r" --base-port \d+", "", line) + (" --data net" if name in ("apply", "top", "reload") else "")
            network.run(line)
