"""A bar with a clock and the time that is left, which moves as long as the work does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from coterie.cli.console import Pace, spoken


class _Clock(ProgressColumn):
    """Elapsed, and what is left in all and of the stage; computed anew at every refresh, whatever is reported."""

    max_refresh = None

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        left_s = self._pace.left_s()
        rest = "" if left_s is None else f", {spoken(left_s)} left" if left_s >= 1 else ", nearly done"
        stage_s = self._pace.stage_left_s()
        if stage_s is not None and stage_s >= 1:
            rest += f" (this stage {spoken(stage_s)})"
        return Text(f"{spoken(self._pace.elapsed_s)}{rest}", style="progress.elapsed")


@contextmanager
def bar(console: Console, title: str, pace: Pace) -> Iterator[Callable[[str, float], None]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), _Clock(pace))
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=1.0)

        def report(stage: str, share: float) -> None:
            pace.tell(stage, share)
            shown.update(task, description=f"{title}: {stage}", completed=pace.share)

        yield report
