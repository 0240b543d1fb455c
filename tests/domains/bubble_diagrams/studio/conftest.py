"""The studio of a model that has hardly been trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from discrete_diffusion.cli import main


@pytest.fixture(scope="session")
def studio_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("studio") / "run"
    words = ["debug=default", "data.num_plans=200", "trainer.max_steps=2", "logger=none"]
    main(["train", *words, "model.d_model=16", "model.cond_dim=16", f"hydra.run.dir={run}"])
    return run
