"""`coterie export`: a plan for the brokers people already run: write it, check it, give it to them, take it back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.console import number, out, print_json, table
from coterie.errors import ConfigError, InputError
from coterie.fleets.applying import Application, Applied, roll_back
from coterie.fleets.export.registry import TARGETS, chosen_targets
from coterie.fleets.export.target import Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet, example_fleet, read_fleet
from coterie.fleets.layout import FleetLayout, read_layout
from coterie.fleets.outlook import foretold, measure
from coterie.fleets.record import write_whole

ToTargets = Annotated[
    list[str] | None, typer.Option("--to", metavar="TARGET", help=f"Repeatable: {', '.join(TARGETS)}.")
]
FleetOption = Annotated[Path | None, typer.Option("--fleet", help="The fleet file; --example-fleet prints one.")]


def export_command(
    plan: Annotated[
        Path | None, typer.Argument(help="The folder that `coterie plan` publishes into.", show_default=False)
    ] = None,
    to: ToTargets = None,
    fleet: FleetOption = None,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the files, and for a copy of what was there before.")
    ] = Path("export"),
    version: Annotated[int | None, typer.Option(help="A version of the plan; the current one if absent.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what is missing or not covered.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Give it to the running fleet.")] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Put back what was there before.")] = False,
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order", help="A plan without broker names: its nodes are the fleet file's brokers, in that order."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what --apply would change.")] = False,
    lasting: Annotated[
        bool,
        typer.Option("--lasting", help="Move lasting (persistent) sessions too; messages queued for them are lost."),
    ] = False,
    over: Annotated[
        float, typer.Option("--over", min=0.0, help="Seconds to measure after --apply; 0 measures nothing.")
    ] = 10.0,
    example: Annotated[bool, typer.Option("--example-fleet", help="Print a commented fleet file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Turn a plan into configuration for HAProxy, mosquitto, NATS, EMQX.

    Files are written to OUT. --apply puts them in place while the brokers run, in the order that loses
    least, and moves clients slowly (limits.moves_per_s). If brokers or deliveries fail, everything is taken back;
    --rollback does so later.

    Examples:
      coterie export --example-fleet
      coterie export out/journal --to mosquitto-acl --fleet fleet.toml --dry-run
    """
    if example:
        typer.echo(example_fleet(), nl=False)
        return
    if fleet is None:
        raise ConfigError("--fleet", None, "a fleet file", do="`coterie export --example-fleet` prints one")
    if sum([check, apply, rollback, dry_run]) > 1:
        raise ConfigError("--check, --apply, --rollback, --dry-run", "several", "one of them")
    brokers = read_fleet(fleet)
    if rollback:
        record = roll_back(brokers, out_folder, TARGETS, _say(as_json))
        _show("rolled back", {"plan": record.version, "clients_moved_back": len(record.moved)}, as_json)
        return
    if plan is None:
        raise ConfigError("PLAN", None, "the folder that `coterie plan` publishes into")
    targets = chosen_targets(to or (), brokers)
    wanted = read_layout(plan, brokers, version)
    remarks = [remark for target in targets for remark in target.check(brokers, wanted)]
    if wanted.is_in_order:
        remarks.append(
            Remark(f"the plan names no brokers: its nodes are taken for {', '.join(brokers.names)}, in order")
        )
    if check:
        _show_check(remarks, targets, as_json)
        return
    pieces = [piece for target in targets for piece in target.pieces(brokers, wanted)]
    write_pieces(pieces, out_folder)
    application = Application(brokers, targets, out_folder, TARGETS, _say(as_json))
    if dry_run:
        _show_dry(application, wanted, lasting, as_json)
    elif apply:
        if wanted.is_in_order and not in_order:
            order = ", ".join(f"node {node} is {name}" for node, name in enumerate(brokers.names))
            raise ConfigError(
                "plan",
                f"{len(brokers.names)} nodes without names",
                "the names of the fleet's brokers",
                do=f"plan from a journal of your brokers (`coterie observe`), or say --in-order if {order}",
            )
        _refuse(remarks, brokers)
        _apply(application, wanted, lasting, over, as_json)
    else:
        _show_files(pieces, remarks, out_folder, wanted, as_json)


def write_pieces(pieces: Sequence[Piece], folder: Path) -> None:
    for piece in pieces:
        path = folder / piece.name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, piece.text)


def _say(as_json: bool) -> Any:
    return (lambda text: None) if as_json else (lambda text: out.print(text, markup=False))


def _refuse(remarks: Sequence[Remark], fleet: BrokerFleet) -> None:
    wrong = [remark.text for remark in remarks if remark.is_error]
    if wrong:
        raise InputError(fleet.source, "; ".join(wrong))


def _show_check(remarks: Sequence[Remark], targets: Sequence[Target], as_json: bool) -> None:
    wrong = any(remark.is_error for remark in remarks)
    if as_json:
        print_json(
            {"remarks": [{"text": one.text, "is_error": one.is_error} for one in remarks], "is_ready": not wrong}
        )
    else:
        for one in remarks:
            out.print(f"{'error' if one.is_error else 'note'}: {one.text}", markup=False, soft_wrap=True)
        names = ", ".join(target.name for target in targets)
        out.print(f"{names}: {'not ready' if wrong else 'ready to apply'}")
    if wrong:
        raise typer.Exit(InputError.exit_code)


def _show_files(
    pieces: Sequence[Piece], remarks: Sequence[Remark], folder: Path, wanted: FleetLayout, as_json: bool
) -> None:
    if as_json:
        files = {piece.name: str(piece.place) if piece.place else None for piece in pieces}
        print_json(
            {"plan": wanted.version, "folder": str(folder), "files": files, "notes": [one.text for one in remarks]}
        )
        return
    rows = [
        [str(folder / piece.name), str(piece.place) if piece.place else "(to read or take over once)"]
        for piece in pieces
    ]
    out.print(table(f"plan {wanted.version}", ["file", "is for"], rows, right_from=2))
    for one in remarks:
        out.print(f"{'error' if one.is_error else 'note'}: {one.text}", markup=False, soft_wrap=True)


def _bill(application: Application, wanted: FleetLayout) -> dict[str, float | None]:
    """Copies per second as clients sit now, and by the plan."""
    seats = {client: seat.broker for client, seat in application.seats().items() if seat.session}
    now, planned = foretold(application.fleet, application.targets, wanted, seats)
    return {"copies_per_s_now": now, "copies_per_s_planned": planned}


def _show_dry(application: Application, wanted: FleetLayout, lasting: bool, as_json: bool) -> None:
    settled, result = application.settled(wanted, lasting)
    _show("would change", {**_summary(result), **_bill(application, settled)}, as_json)


def _apply(application: Application, wanted: FleetLayout, lasting: bool, over: float, as_json: bool) -> None:
    expected = _bill(application, wanted)
    result = application.apply(wanted, lasting)
    summary: dict[str, Any] = {**_summary(result), "seconds": round(result.seconds, 1), **expected}
    if over:
        found = measure(application.fleet, application.targets, result.wanted, over)
        if found.why_not:
            summary["not_measured"] = found.why_not
        else:
            summary |= {"measured_over_s": found.seconds, "copies_measured": found.copies}
            summary |= {"copies_predicted": found.predicted, "deliveries_measured": found.delivered}
    _show("applied", summary, as_json)


def _summary(result: Applied) -> dict[str, Any]:
    return {
        "plan": result.wanted.version,
        "files": len(result.files),
        "map_entries": result.entries,
        "clients_to_move": result.to_move,
        "clients_moved": len(result.journey.asked),
        "clients_late": len(result.journey.late),
        "lasting_sessions_left": result.lasting,
        "clients_unknown_to_the_plan": result.strangers,
    }


def _show(title: str, summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"done": title, **summary})
        return
    rows = [[name.replace("_", " "), _cell(value)] for name, value in summary.items()]
    out.print(table(title, ["", ""], rows))


def _cell(value: Any) -> str:
    if value is None:
        return "not known"
    return value if isinstance(value, str) else number(round(value, 3))
