"""`coterie compare` and `coterie plan`: logs in, bills and a priced plan out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from coterie.api.answers import KeptAnswer, keep_answer, kept_answer, question
from coterie.cli.choices import Json
from coterie.cli.console import LOG_STAGES, out, print_json, progress
from coterie.cli.logoptions import WINDOWS, ComparisonOptions
from coterie.cli.shown import show

if TYPE_CHECKING:
    from coterie.api.comparing import Comparison
    from coterie.plans.plan import Plan

ANSWERS = ".answers"


@dataclass(frozen=True, kw_only=True)
class PlanningOptions(ComparisonOptions):
    """What is planned must be expressible by a target and keep to limits."""

    target: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Plan only what this target of `coterie export` can express: haproxy, mosquitto-acl, nats-users ...",
            rich_help_panel=WINDOWS,
        ),
    ] = None
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            help="Show rates per this many seconds (60, 3600, 86400 ...); changes no ratio.",
            rich_help_panel=WINDOWS,
        ),
    ] = 3600.0
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="SCHEMA",
            help="Write the bills, and with `plan` where everybody goes, as tables SCHEMA.bills and SCHEMA.placement "
            "of Spark's catalog too.",
        ),
    ] = None
    table_format: Annotated[
        str, typer.Option("--table-format", help="parquet, or delta or iceberg with their packages (--conf).")
    ] = "parquet"
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="What the plan must keep to; repeatable. hops_mean, hops_p99: links that a delivery crosses. ms_mean, "
            "ms_p99: milliseconds that it takes (hop_ms for each link, zone_ms for each link between zones; 1 and 5 "
            "unless you set them). links_max: links at any broker. hottest_max: messages of the busiest broker, as a "
            "multiple of the mean (not set: 2 if possible, where a broker has over 10,000 a second). survive=node or "
            "survive=zone: when any one crashes, nobody else is cut off. moves_per_day: share of the clients that may "
            "be moved. If no design keeps to all limits, you are told which comes closest.",
            rich_help_panel="Limits",
        ),
    ] = None


def compare_command(asked: PlanningOptions, as_json: Json = False) -> None:
    """What would I save? All systems on a log, side by side.

    Every system plans on the first part of the log; the plans are priced on the rest, against what you run now.

    Examples:
      coterie compare
      coterie compare subscriptions=subs.csv publications=pubs.jsonl.gz \\
          --map subscriber=user
      coterie compare subs.csv --against mosquitto --brokers 8
    """
    words = {name: value for name, value in vars(asked).items() if name != "inputs"}
    is_more = asked.mapping is not None or asked.by_content or asked.tables  # than names and times tell, or is written
    name = None if is_more else question(words, asked.inputs or [])
    answer = kept_answer(asked.out_folder / ANSWERS, name)
    if answer is None:
        answer, found = _answered(asked, "compare", as_json)
        answer = _with_tables(asked, answer, found, None)
        keep_answer(asked.out_folder / ANSWERS, name, answer)
    _print(answer, None, as_json)


def plan_command(asked: PlanningOptions, as_json: Json = False) -> None:
    """Compare, and publish the cheapest design as a plan.

    It is a new version in OUT/NAME/plans; planning the same data again publishes nothing new. `coterie apply OUT` and
    `coterie export OUT` find it there.

    Examples:
      coterie plan
      coterie plan subscriptions=subs.csv publications=pubs.jsonl.gz \\
          --map subscriber=user --out out
    """
    answer, found = _answered(asked, "plan", as_json)
    published = found.publish()
    _print(_with_tables(asked, answer, found, published), published, as_json)
    if not as_json:
        _show_next(found.outcome.folder, asked)


def _answered(asked: PlanningOptions, title: str, is_quiet: bool) -> tuple[KeptAnswer, Comparison]:
    with progress(title, is_quiet, LOG_STAGES) as report:
        from coterie.cli.bills import Unit, answer_of

        unit, log = Unit(asked.interval), asked.log(asked.peers)
        found = asked.compared(log, report, asked.target, asked.limit)
        report("report", 1.0)
        page = found.report(unit.seconds, unit.name).write(log.home / "report.html")
        return answer_of(found, unit, page), found


def _with_tables(asked: PlanningOptions, answer: KeptAnswer, found: Comparison, plan: Plan | None) -> KeptAnswer:
    """The answer, told where its tables are if they were asked for."""
    if asked.tables is None:
        return answer
    names = found.save_tables(asked.tables, asked.table_format, plan, asked.spark)
    told = f"Tables of Spark's catalog: {', '.join(names)}."
    return msgspec.structs.replace(
        answer, document=answer.document | {"tables": names}, remarks=(*answer.remarks, told)
    )


def _print(answer: KeptAnswer, published: Plan | None, as_json: bool) -> None:
    if as_json:
        print_json(answer.document | {"plan": published and published.version, "report": answer.page})
        return
    show(answer)
    if published is not None:
        out.print(f"\nplan {published.version} is current in {Path(published.source).parent}", soft_wrap=True)
    out.print(f"\nreport: {answer.page}", soft_wrap=True)


def _show_next(folder: Path, asked: PlanningOptions) -> None:
    if asked.target is None:
        said = (
            f"coterie apply {folder} --dry-run (our nodes), or coterie export {folder} --to ... (the brokers you have)"
        )
    else:
        said = f"coterie export {folder} --to {asked.target} --fleet {asked.fleet or 'fleet.toml'} --out export --check"
    out.print(f"next: {said}", soft_wrap=True)
