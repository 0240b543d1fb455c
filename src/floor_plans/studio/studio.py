"""``Studio``: a model with its threads and processes."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from discrete_diffusion import __version__
from floor_plans.diagrams.pictures.palette import ROOM_STYLES, UNKNOWN_ROOM
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.studio.batching import Batcher, Errands
from floor_plans.studio.jobs import Jobs
from floor_plans.studio.planning import pickled_model, ready
from floor_plans.studio.reading import answer_check, read_sample
from floor_plans.studio.requests import MOST_DRAWN
from floor_plans.studio.sampling import DiagramModel
from floor_plans.studio.workers import Workers

_STRICT: dict[str, Any] = {"seconds": 20.0, "most_bytes": 2 * 1024**3, "patience": 5.0}
"""Limits of tasks on unchecked input."""

_PLAN_SECONDS = 900.0
"""Most seconds of the search for the plans of one diagram."""

_PAIR = b'{"diagram": {"rooms": [null, null]}}'


class Studio:
    """A model with its threads and processes.

    One thread samples. One process each reads bodies, checks, and reads and writes files.
    ``workers`` processes answer briefs and find plans; threads wait for them, one for briefs and
    one per process for jobs and for other requests. ``seconds``: time limit of a request,
    ``brief_seconds`` of one with a brief. ``limits``: of ``Batcher``.
    """

    def __init__(
        self,
        model: DiagramModel,
        *,
        seconds: float = 60.0,
        brief_seconds: float = 120.0,
        workers: int = 1,
        **limits: int,
    ) -> None:
        self.model, self.seconds, self.brief_seconds = model, seconds, brief_seconds
        # the network
        self.batcher = Batcher(model, **limits)
        # bodies, checks and files: a process and a queue each
        self.readers, self.reading = Workers(1, nice=0, **_STRICT), Errands("reading")
        self.checks, self.checking = Workers(1, nice=0, **_STRICT), Errands("checks")
        self.exports, self.exporting = Workers(1, **_STRICT), Errands("exports")
        # briefs and plans
        self.briefs = Errands("briefs", most_waiting=8)
        self.workers, self.pickled = (Workers(workers, seconds=_PLAN_SECONDS), pickled_model(model))
        self.realising = Errands("realising", threads=workers)
        self.jobs = Jobs(threads=workers)
        self.began = time.monotonic()

    def start_workers(self) -> None:
        """Start the processes and load their libraries, before the first request."""
        # a first task for every process
        for _ in range(self.workers.num):
            self.realising.submit(partial(self.workers.run, ready, self.pickled, lambda: False))
        n_max, words = self.model.vocab.n_max, self.model.words
        check = partial(self.checks.run, answer_check, (_PAIR, n_max, words))
        self.checking.submit(partial(check, lambda: False))
        self.reading.submit(partial(self.readers.run, read_sample, b"{}", lambda: False))

    def close(self) -> None:
        for processes in (self.workers, self.readers, self.checks, self.exports):
            processes.close()
        for each in (
            self.batcher,
            self.reading,
            self.checking,
            self.exporting,
            self.briefs,
            self.realising,
            self.jobs,
        ):
            each.close()

    def model_facts(self) -> dict[str, Any]:
        """Facts of the model for the page."""
        # limits of the model, then styles of its rooms
        words, model = self.model.words, self.model
        styles = [(name, ROOM_STYLES[ROOM_TYPES.index(name)]) for name in words.room_types]
        return {
            "version": __version__,
            "backbone": model.checkpoint.config.algo.backbone,
            "most_rooms": model.vocab.n_max,
            "sizes": model.sizes,
            "most_drawn": MOST_DRAWN,
            "has_directions": words.has_directions,
            "relations": [*words.relations, "no-edge"],
            "unknown_colour": UNKNOWN_ROOM.colour,
            "rooms": [
                {
                    "type": name,
                    "label": s.label,
                    "name": s.name,
                    "colour": s.colour,
                    "size": s.radius,
                }
                for name, s in styles
            ],
        }

    def health(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "waiting": len(self.batcher),
            "jobs": len(self.jobs),
            "workers": self.workers.pids,
            "last_batch": self.batcher.last_batch,
            "seconds": round(time.monotonic() - self.began, 1),
        }
