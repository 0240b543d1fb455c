"""Ctrl-C and SIGTERM where a run has several processes."""

from __future__ import annotations

import time
from types import FrameType

from discrete_diffusion.cli.launch_environment import is_first, started
from discrete_diffusion.stopping import StopSignals

_ONE_SIGNAL = 5.0
"""Seconds within which torchrun or srun passes on what the terminal has sent to all anyway."""


class LaunchedSignals(StopSignals):
    """A signal that comes twice, from the terminal and from torchrun or srun, is one. Only the
    first process says that it was received. Between steps the first one ends at once and kills
    those that it started, which wait for that."""

    _since = 0.0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        launched = started() is not None
        if self.received is None:
            self._since = time.monotonic()
        elif launched and time.monotonic() - self._since < _ONE_SIGNAL:
            return
        if self.received is None and not is_first() and (self.finish_step or not launched):
            self.received = number
        else:
            super()._handle(number, frame)


def stop_signals() -> StopSignals:
    """Those of a run, whoever started it."""
    return StopSignals() if started() is None and is_first() else LaunchedSignals()
