"""A sweep says which job of how many it is at."""

from __future__ import annotations

import pytest

from discrete_diffusion.cli.sweeps import job_of_sweep, number_of_jobs
from discrete_diffusion.runtime import progress


@pytest.mark.parametrize(
    ("words", "num"),
    [
        (["seed=1,2,3"], 3),
        (["seed=range(4)", "algo=mdlm,udlm", "optim.lr=1e-3"], 8),
        (["data.batch_size=16", "hydra.sweep.dir=x"], 1),
    ],
)
def test_jobs_are_counted(words, num):
    assert number_of_jobs("train", words, None) == num


def test_a_job_is_a_task_and_a_line_of_the_log(caplog):
    caplog.set_level("INFO")
    with progress.shown(lambda line: None, bar=False):
        with job_of_sweep(1, 4), progress.task("training", 30, "steps"):
            assert progress.where() == "job 2 of 4: training, 0 of 30 steps"
        with job_of_sweep(0, None):  # the sweeper decides as it goes
            assert progress.where() == "job 1"
    assert "job 2 of 4" in caplog.text
