"""Plots as inline SVG, so that a report is one file that opens anywhere, offline."""

from __future__ import annotations

import io
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#1f2933", "#9aa5b1"
COLOURS = ("#2f6f9f", "#d9822b", "#3d8a5f", "#a8456b", "#7a6ab0", "#8c7355", "#5b8fb9", "#c2a83e", "#6b7280")
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "coterie",  # the same data gives the same bytes
    "svg.fonttype": "path",
}


def stacked_bars(
    title: str,
    parts: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    bound: Sequence[float] | None = None,
    unit: str = "",
) -> str:
    """One horizontal bar per label, split into parts; a mark shows the lower bound of each."""
    with _drawing(8.2, 0.42 * len(labels) + 1.7) as (figure, axes):
        places = range(len(labels))
        left = [0.0] * len(labels)
        for colour, (name, widths) in zip(COLOURS, parts.items(), strict=False):
            axes.barh(places, widths, left=left, label=name, color=colour, height=0.62)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        if bound is not None:
            axes.scatter(bound, places, marker="|", s=260, color=INK, label="lower bound", zorder=3)
        return _rows_named(figure, axes, labels, unit, title)


def paired_bars(title: str, pairs: Mapping[str, Sequence[float]], labels: Sequence[str], unit: str = "") -> str:
    """For each label one bar per series, side by side."""
    with _drawing(8.2, 0.5 * len(labels) + 1.5) as (figure, axes):
        height = 0.8 / max(len(pairs), 1)
        for index, (name, values) in enumerate(pairs.items()):
            places = [place + (index - (len(pairs) - 1) / 2) * height for place in range(len(labels))]
            axes.barh(places, values, height=height * 0.92, label=name, color=COLOURS[index % len(COLOURS)])
        return _rows_named(figure, axes, labels, unit, title)


def _rows_named(figure: Any, axes: Any, labels: Sequence[str], unit: str, title: str) -> str:
    """A chart of horizontal bars with its words, the first label on top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_title(title)
    _thousands(axes, "x")
    figure.legend(frameon=False, loc="outside lower left", ncols=3, fontsize=8.5)
    return _svg(figure)


def lines(
    title: str,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    log_x: bool = False,
) -> str:
    """One line per series of (x, y); points are marked."""
    with _drawing(7.2, 3.4) as (figure, axes):
        for index, (name, (x, y)) in enumerate(series.items()):
            axes.plot(x, y, marker="o", markersize=4, label=name, color=COLOURS[index % len(COLOURS)])
        if log_x:
            axes.set_xscale("log")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        return _named(figure, axes, title, x_label, y_label, len(series))


def scatter(
    title: str,
    groups: Mapping[str, Sequence[tuple[float, float, str]]],
    x_label: str,
    y_label: str,
    named: Container[str] = (),
) -> str:
    """Dots of (x, y, name) in groups; the names of some stand beside them."""
    with _drawing(8.2, 4.6) as (figure, axes):
        for index, (group, dots) in enumerate(groups.items()):
            colour = COLOURS[index % len(COLOURS)]
            axes.scatter([x for x, _, _ in dots], [y for _, y, _ in dots], s=34, color=colour, label=group, alpha=0.85)
            for x, y, name in dots:
                if name in named:
                    axes.annotate(name, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=6.5, color=INK)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_title(title)
        _thousands(axes, "x")
        figure.legend(frameon=False, loc="outside lower left", ncols=2, fontsize=8.5)
        return _svg(figure)


class Spot(NamedTuple):
    """A point with its error; `x` is text on an axis of names."""

    x: float | str
    y: float
    error: float = 0.0


def _of_the_paper(line: str) -> str:
    """How a legend calls the paper's points of this line; some lines say already whose they are."""
    if line in ("", "paper"):
        return "the paper"
    return line if line.startswith(("paper ", "the text")) else f"{line} (paper)"


def spots(
    title: str,
    ours: Mapping[str, Sequence[Spot]],
    theirs: Mapping[str, Sequence[Spot]],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    is_lettered: bool = False,
) -> str:
    """Our lines with error bars; points that others print as hollow marks in the colour of the same line.

    Letters are drawn; `is_lettered` leaves them to the reader's fonts, which takes a fifth of the bytes.
    """
    names = list(dict.fromkeys([*ours, *theirs]))
    places = [spot.x for one in (ours, theirs) for found in one.values() for spot in found]
    words = list(dict.fromkeys(str(x) for x in places)) if any(isinstance(x, str) for x in places) else []
    with _drawing(7.2, 3.4, is_lettered) as (figure, axes):
        for given, named, mark in ((ours, str, "o-"), (theirs, _of_the_paper, "D")):
            for line, found in given.items():
                colour = COLOURS[names.index(line) % len(COLOURS)]
                _draw_spots(axes, found, words, named(line) or "coterie", mark, colour)
        if words:
            axes.set_xticks(range(len(words)), words)
        elif log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        return _named(figure, axes, title, x_label, y_label, len(ours) + len(theirs))


def _draw_spots(axes: Axes, found: Sequence[Spot], words: Sequence[str], label: str, mark: str, colour: str) -> None:
    placed = sorted((words.index(str(spot.x)) if words else float(spot.x), spot.y, spot.error) for spot in found)
    x, y, errors = zip(*placed, strict=True)
    if words and mark.endswith("-"):
        mark = mark[0]  # names have no order that a line could follow
    axes.errorbar(
        x,
        y,
        yerr=errors if any(errors) else None,
        fmt=mark,
        markersize=4 if mark[0] == "o" else 6,
        markerfacecolor=colour if mark[0] == "o" else "none",
        capsize=2,
        label=label,
        color=colour,
    )


CROWDED = 5  # lines; beyond that their names stand beside the chart


def rank_curve(title: str, series: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> str:
    """Sizes from the largest down, both axes logarithmic: how skewed something is."""
    with _drawing(7.2, 3.0) as (figure, axes):
        for index, (name, values) in enumerate(series.items()):
            ordered = sorted((value for value in values if value > 0), reverse=True)
            axes.loglog(range(1, len(ordered) + 1), ordered, label=name, color=COLOURS[index % len(COLOURS)])
        return _named(figure, axes, title, x_label, y_label, len(series))


def _named(figure: Figure, axes: Axes, title: str, x_label: str, y_label: str, series: int) -> str:
    """A chart of lines with its words; one line alone needs no legend."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title)
    if series > CROWDED:
        axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif series > 1:
        axes.legend(frameon=False, fontsize=8.5)
    return _svg(figure)


@contextmanager
def _drawing(width: float, height: float, is_lettered: bool = False) -> Iterator[tuple[Figure, Axes]]:
    """A figure in our style; matplotlib is loaded only by who really draws."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none"} if is_lettered else STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def _thousands(axes: Axes, axis: str) -> None:
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    chosen.set_major_formatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 10 or value == 0 else f"{value:g}")


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
