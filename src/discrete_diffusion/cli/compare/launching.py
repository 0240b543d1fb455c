"""Jobs through Hydra's launcher, whichever is chosen: in sequence, or by a plug-in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.compose import own_hydra, quoted

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from omegaconf import DictConfig


def launch(
    task: Callable[[DictConfig], Any],
    jobs: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    launcher: Sequence[str] = (),
    user_config_dir: str | None = None,
) -> Sequence[JobReturn]:
    """Run ``task`` with the ``train`` config of every job's overrides; one result per job.

    ``jobs``: overrides by name, the name being that of the job's folder in ``folder``.
    ``launcher``: overrides that choose and set Hydra's launcher (``hydra/launcher=joblib``); the
    default is one job after the other in this process. Hydra's global state is left as it was.
    """
    from hydra._internal.callbacks import Callbacks  # Hydra has no public way to call a launcher
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    former = HydraConfig.instance().cfg
    shared = [f"hydra.sweep.dir={quoted(str(folder))}", *launcher]
    hydra_log = logging.getLogger("hydra")
    level = hydra_log.level
    with own_hydra(user_config_dir) as searchpath:
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        config = hydra.compose_config(
            "train", [*searchpath, *shared], run_mode=RunMode.MULTIRUN, from_shell=False
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        try:
            HydraConfig.instance().set_config(config)
            hydra_log.setLevel(logging.WARNING)  # a line of overrides per job
            found = Plugins.instance().instantiate_launcher(
                hydra_context=context, task_function=task, config=config
            )
            return found.launch(
                [[*job, f"hydra.sweep.subdir={name}"] for name, job in jobs.items()],
                initial_job_idx=0,
            )
        finally:
            HydraConfig.instance().cfg = former
            hydra_log.setLevel(level)
