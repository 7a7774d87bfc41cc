"""`coterie bench`: load on brokers, ours or others', and what they make of it."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli.console import number, out, print_json, table
from coterie.errors import ConfigError
from coterie.live.load import Shape, cpu_s, run_load


def bench_command(
    host: Annotated[str, typer.Option(help="Where the broker is.")] = "127.0.0.1",
    port: Annotated[
        list[int] | None, typer.Option("--port", "-p", help="Its MQTT port; several spread the clients over nodes.")
    ] = None,
    publishers: Annotated[int, typer.Option(min=1, help="Clients that publish.")] = 1,
    subscribers: Annotated[int, typer.Option(min=0, help="Clients that get every message.")] = 1,
    qos: Annotated[int, typer.Option(min=0, max=1, help="0: at most once, 1: at least once.")] = 0,
    size: Annotated[int, typer.Option(min=0, help="Bytes of payload.")] = 64,
    messages: Annotated[int, typer.Option("--messages", "-n", min=100, help="How many to publish.")] = 200_000,
    topic: Annotated[str, typer.Option(help="What is published.")] = "bench/load/x",
    topic_filter: Annotated[str | None, typer.Option("--filter", help="What is subscribed to.")] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Processes whose CPU time is counted; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Load a broker and measure it.

    Every message goes to every subscriber. With --pid of the broker, deliveries per CPU second are printed too, which
    says more than wall time on a machine that has other things to do.

    Examples:
      coterie bench --port 1883 --publishers 1 --subscribers 100 --qos 1
    """
    ports = port or [1883]
    if any(not 0 < one < 65_536 for one in ports):
        raise ConfigError("--port", ports, "1 to 65535")
    shape = Shape(publishers, subscribers, qos, size, topic, topic_filter or topic)
    before_s = sum(cpu_s(one) for one in pid or ())
    result = run_load(host, ports, shape, messages)
    spent_s = sum(cpu_s(one) for one in pid or ()) - before_s
    figures = {
        "published": float(result.published),
        "delivered": float(result.delivered),
        "missing": float(result.missing),
        "wall_s": result.wall_s,
        "deliveries_per_s": result.per_s,
    }
    if pid:
        figures |= {"cpu_s": spent_s, "deliveries_per_cpu_s": result.delivered / max(spent_s, 0.01)}
    if as_json:
        print_json(figures)
        return
    title = f"{publishers}:{subscribers} at QoS {qos}, {size} bytes"
    out.print(table(title, ["", ""], [[name.replace("_", " "), number(value)] for name, value in figures.items()]))
