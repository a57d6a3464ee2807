"""The progress of a run's trials, on a terminal, in a notebook, or in a log."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from inalab.hosts.messages import Hello, Lost, Message, Step
from inalab.testbed.command.terminal import NotebookLine, plain, styled
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.record.clock import time_left

REFRESH_SECONDS = 0.1
LINE_SECONDS = 10.0  # between progress lines where there is no terminal


class Display:
    """The progress of a run: a bar that moves on a terminal, a line that changes in a notebook, a line now and then elsewhere."""

    def __init__(self, console: Console, trials: int, to_run: int | None = None) -> None:
        """`to_run` of the trials have no result yet; None: all."""
        self.console, self.trials = console, trials
        self.to_run = trials if to_run is None else to_run
        self.notebook = NotebookLine() if console.is_jupyter else None
        self.live = console.is_terminal and not self.notebook
        # no refresh thread: trials are forked from this process
        self.progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=console, auto_refresh=False, transient=True, disable=not self.live,
        )  # fmt: skip
        self.begun = time.monotonic()
        self.ended = 0  # trials

    def begin(self, number: int, trial: Trial) -> ShownTrial:
        """A trial begins; others may be under way."""
        return ShownTrial(self, plain(f"trial {number}/{self.trials} {trial.name} (seed {trial.seed})"), trial.settings.steps)

    def left(self) -> str:
        """About how long the run still takes, if its trials take as long as those that have ended."""
        if not self.ended:
            return ""
        seconds = (self.to_run - self.ended) * (time.monotonic() - self.begun) / self.ended
        return f", {time_left(seconds)}"


class ShownTrial:
    """The progress of a trial."""

    def __init__(self, display: Display, title: str, steps: int) -> None:
        self.display, self.title, self.steps = display, title, steps
        self.console, self.left = display.console, display.left()
        self.state: dict[str, Any] = {}
        self.again: dict[int, int] = {}
        self.drawn = 0.0
        self.task = display.progress.add_task(self.title + self.left, total=self.steps, state="starting the network")
        self._draw(0, "starting the network", force=True)

    def hear(self, message: Message) -> None:
        """Take in what the trial reports."""
        if isinstance(message, Hello):
            self._draw(0, f"worker {message.rank} is ready")
        elif isinstance(message, Lost):
            self.console.print(f"{self.title}: {message.text}, and the others go on", soft_wrap=True)
        elif isinstance(message, Step):
            self.again[message.rank] = message.retransmissions
            if message.rank == 0:
                self.state["train_loss"] = message.train_loss
            if message.accuracy is not None:
                self.state["accuracy"] = message.accuracy
            self.state["ate"] = message.elements / message.tat
            self._draw(message.number + 1, self._words())

    def _words(self) -> str:
        s = self.state
        accuracy = f"accuracy {100 * s['accuracy']:.1f} %  " if "accuracy" in s else ""
        loss = f"training loss {round(s['train_loss'], 3) + 0.0:.3f}  " if "train_loss" in s else ""
        return f"{loss}{accuracy}{s['ate'] / 1e3:.0f} k ATE/s  {sum(self.again.values())} retransmissions"

    def _draw(self, step: int, words: str, force: bool = False) -> None:
        now = time.monotonic()
        live, notebook = self.display.live, self.display.notebook
        if now - self.drawn < (REFRESH_SECONDS if live or notebook else LINE_SECONDS) and not force:
            return
        self.drawn = now
        if live:
            self.display.progress.update(self.task, completed=step, state=words)
            self.display.progress.refresh()
        elif notebook:
            notebook.show(f"{self.title}{self.left}: step {step}/{self.steps}  {words}")
        else:
            self.console.print(f"{self.title}{self.left}: step {step}/{self.steps}  {words}", soft_wrap=True)

    def end(self, *words: str | tuple[str, str]) -> None:
        """Replace the bar by one line about the trial."""
        display = self.display
        display.ended += 1
        display.progress.remove_task(self.task)
        if display.notebook:
            display.notebook.show(f"{display.ended} of {display.to_run} trials have ended")
        self.console.print(styled(f"{self.title}: ", *words), soft_wrap=True)
