"""Progress on standard error: the phase, the time left and the best ratio so far.

On a terminal this is one bar of the library rich, which TensorFlow installs for Keras.
Elsewhere each phase is one line. Drawing would disturb measurements. So in phases with
measurements, the bar is drawn only when `update` is called, between measurements.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from ios_tf.native import malloc
from ios_tf.printable import printable

_logger = logging.getLogger("ios_tf")
# The bar is redrawn at most once per _INTERVAL_SECONDS. In phases without measurements,
# it is redrawn at least once per _BEAT_SECONDS.
_INTERVAL_SECONDS = 0.2
_BEAT_SECONDS = 1.0
# The time left is estimated only after this fraction of the work and this time.
_LEAST_DONE = 0.03
_LEAST_SECONDS = 2.0
# Terminals with fewer columns get shorter texts.
_NARROW = 80


class _State:
    """The state that the progress bar shows.

    Attributes:
      phase: the phase's name.
      counts: describes the work done in the phase.
      done: the completed fraction of the whole work.
      seconds: the elapsed time.
      best: the best ratio so far, as text; empty if it is not known.
    """

    def __init__(self) -> None:
        self.phase = self.counts = ""
        self.done = self.seconds = 0.0
        self.best: tuple[str, str] = "", ""

    def time(self) -> str:
        """The estimated time left or, if it is not known, the elapsed time."""
        if self.done < _LEAST_DONE or self.seconds < _LEAST_SECONDS:
            return _clock(self.seconds)
        return f"{_clock(self.seconds * (1 - self.done) / self.done)} left"


class Progress:
    """Shows how far a command is. Not thread-safe."""

    def __init__(
        self,
        shown: bool,
        weights: Mapping[str, float] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        """Shows nothing yet.

        Args:
          shown: whether to show anything.
          weights: the phases in their order, with their usual shares of the time. A
            phase that is not named here is the whole work.
          stream: the stream to write to; by default standard error.
        """
        self._weights = dict(weights or {})
        self._stream = (stream or sys.stderr) if shown else None
        self._bar = _bar(self._stream) if self._stream else None
        self._start = self._drawn = time.monotonic()
        self._state = _State()

    @contextlib.contextmanager
    def phase(self, name: str, measures: bool = False) -> Iterator[None]:
        """Shows a phase until the block ends, and logs its duration at level INFO.

        With `measures`, latencies are measured in the phase, so it is drawn only by
        `update`.
        """
        begin = time.monotonic()
        self._state.phase, self._state.counts = name, ""
        self._set(0.0)
        if self._bar:
            self._bar.begin()
        elif self._stream:
            print(self._line(), file=self._stream, flush=True)
        try:
            with self._beats(measures):
                self._draw()
                yield
        finally:
            if self._bar:
                self._bar.end()
        seconds = time.monotonic() - begin
        peak = malloc.peak_bytes() >> 20
        _logger.info("%s: %.1f s, peak memory so far %d MiB", name, seconds, peak)

    def update(self, done: float, counts: str = "") -> None:
        """Sets the completed fraction of the phase, and redraws the bar if it is old.

        Args:
          done: the completed fraction of the phase, 0 to 1.
          counts: text that describes the work done in the phase.
        """
        self._set(done)
        self._state.counts = counts
        if time.monotonic() - self._drawn >= _INTERVAL_SECONDS:
            self._draw()

    def best(self, ratio: float, of: str) -> None:
        """Shows from now on that the best result is `ratio` times as fast as `of`."""
        self._state.best = f"{ratio:.2f}x", f" vs {of}"

    def _set(self, done: float) -> None:
        """Sets the completed fraction of the whole work."""
        name, weights = self._state.phase, self._weights
        if name in weights:
            before = sum(list(weights.values())[: list(weights).index(name)])
            done = (before + done * weights[name]) / sum(weights.values())
        self._state.done = done

    def _line(self) -> str:
        ratio, of = self._state.best
        best = f" ({ratio}{of})" if ratio else ""
        elapsed = _clock(time.monotonic() - self._start)
        return printable(f"ios_tf: {elapsed} {self._state.phase}{best}")

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._state.seconds = self._drawn - self._start
        if self._bar:
            self._bar.show(self._state)

    @contextlib.contextmanager
    def _beats(self, measures: bool) -> Iterator[None]:
        """Draws regularly inside the block, to show that the command is running."""
        if measures or not self._bar:
            yield
            return
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_BEAT_SECONDS):
                self._draw()

        thread = threading.Thread(target=beat, name="ios_tf_progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _bar(stream: TextIO) -> _Bar | None:
    """A bar, if the stream is a terminal that can move its cursor."""
    bar = _Bar(stream) if stream.isatty() else None
    return None if bar is None or bar.console.is_dumb_terminal else bar


class _Bar:
    """Draws one bar, which disappears when a phase ends.

    Another thread draws, because Ctrl-C interrupts the main thread anywhere: half of a
    bar could not be removed from the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        # Imported here, because only commands on a terminal need it.
        from rich.console import Console

        class _Console(Console):
            def show_cursor(self, show: bool = True) -> bool:
                """Never hides the cursor, which a killed process could not restore."""
                return False

        self.console = _Console(file=stream, force_terminal=True)
        self._bar: Any = None
        self._task: Any = None
        self._pen: ThreadPoolExecutor

    def begin(self) -> None:
        from rich import constrain, progress, table

        console = self.console

        class _OneBar(progress.Progress):
            def get_renderable(self) -> constrain.Constrain:
                """Leaves space for the ^C of an interrupt in the line of the bar."""
                bar = super().get_renderable()
                return constrain.Constrain(bar, console.width - len("^C"))

        fixed = table.Column(no_wrap=True)
        self._bar = _OneBar(
            progress.TextColumn("{task.description}", table_column=fixed),
            progress.BarColumn(None, table_column=table.Column(ratio=1, min_width=4)),
            progress.TextColumn("{task.percentage:3.0f}%", table_column=fixed.copy()),
            progress.TextColumn("{task.fields[rest]}", table_column=fixed.copy()),
            console=console,
            auto_refresh=False,
            transient=True,
            expand=True,
            # Output to a pipe must not appear on the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._bar.add_task("", total=1.0, rest="")
        self._pen = ThreadPoolExecutor(1, "ios_tf_progress")

    def show(self, state: _State) -> None:
        self._pen.submit(self._draw, state).result()

    def _draw(self, state: _State) -> None:
        narrow = self.console.width < _NARROW
        ratio, of = state.best
        phase = [state.phase, "" if narrow else state.counts]
        rest = [state.time(), ratio if narrow else f"{ratio}{of}"]
        self._bar.update(
            self._task,
            completed=state.done,
            description=_plain("  ".join(filter(None, phase))),
            rest=_plain("  ".join(filter(None, rest))),
        )
        self._bar.start()  # does nothing if the bar has started
        self._bar.refresh()

    def end(self) -> None:
        self._pen.submit(self._bar.stop)
        self._pen.shutdown()


def _plain(text: str) -> str:
    """The text without control sequences of terminals and without rich's markup."""
    return printable(text).replace("[", "\\[")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
