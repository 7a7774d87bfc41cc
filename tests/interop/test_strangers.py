"""Who would like to be a member and should not: a stranger on the wire, a wrong certificate, one who was removed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.commands import Remove
from coterie.errors import RunError
from coterie.live.config import load_config
from coterie.live.node import _bounded
from tests.interop.fleet import Network, run, until
from tests.interop.test_clients import certificates
from tests.interop.test_links import Between
from tests.interop.test_members import newcomer, node_of, states

pytestmark = pytest.mark.interop


def test_a_captured_join_is_no_use_and_who_was_removed_stays_out(tmp_path: Path) -> None:
    """Somebody hears all that a newcomer says, and says it again: before it is removed, and after."""

    async def main() -> None:
        network = Network(tmp_path, "flooding", 2)
        like = load_config(network.paths[0])
        async with Between(like.links.port) as between, network:
            config = newcomer(tmp_path / "late", like, 2, join=[f"127.0.0.1:{between.port}"])
            async with node_of(config, said.append) as late:
                await late.start()
                await until(lambda: all(states(one) == ["in"] * 3 for one in network.nodes))
                await until(lambda: late.broker.membership.is_settled)
            conversation = between.kept[0]
            assert len(conversation) > 150  # a greeting, a proof and a question
            assert (config.data / "member.token").read_bytes().strip() not in b"".join(between.kept)

            async def replay() -> None:
                refused = network.nodes[0].peers.refused
                reader, writer = await asyncio.open_connection("127.0.0.1", like.links.port)
                writer.write(conversation)
                await asyncio.wait_for(reader.read(), 10)
                writer.close()
                await until(lambda: network.nodes[0].peers.refused == refused + 1)

            await replay()
            assert all(states(one) == ["in"] * 3 for one in network.nodes)
            await until(lambda: all(2 not in one.broker.links.connected for one in network.nodes))
            network.nodes[0].driver.take(Remove(2))
            await until(lambda: all(states(one) == ["in", "in", "removed"] for one in network.nodes), 30)
            await replay()
            async with node_of(newcomer(tmp_path / "afresh", like, 2)) as again:
                with pytest.raises(RunError, match="no number is used twice"):
                    await again.start()
            assert all(states(one) == ["in", "in", "removed"] for one in network.nodes)

    said: list[str] = []
    run(main)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_is_good_for_its_own_number_only(tmp_path: Path) -> None:
    """A client's certificate of the same authority is good for none, a node's for no second one."""
    certificates(tmp_path)

    def links(name: str) -> dict[str, Any]:
        return {"certificate": f"../{name}.pem", "certificate_key": f"../{name}.key", "authority": "../ca.pem"}

    async def main() -> None:
        network = Network(tmp_path, "flooding", 2, network={"key": ""}, links=links("node-0"))
        network.paths[1].write_text(network.paths[1].read_text().replace("node-0.", "node-1."))
        async with network:
            like = load_config(network.paths[0])
            said: list[str] = []
            network.nodes[0]._tell = _bounded(said.append)
            for name, told in (("localhost", r"names ['localhost'], not a node"), ("node-1", "node 1 asks for node 2")):
                config = newcomer(tmp_path / "late", like, 2, links(name), key="")
                async with node_of(config, said.append) as one:
                    starting = asyncio.ensure_future(one.start())
                    await until(lambda: starting.done() or any(told in text for text in said))  # noqa: B023
                    starting.cancel()
                    (ended,) = await asyncio.gather(starting, return_exceptions=True)
                assert told in f"{said} {ended}"
            assert all(states(one) == ["in"] * 2 for one in network.nodes)

    run(main)
