"""One run folder for all the processes that torchrun or srun started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from discrete_diffusion.cli.launch_environment import started


def one_folder(
    command: str, overrides: Sequence[str], user_config_dir: str | None, *, sweeps: bool
) -> list[str]:
    """An override that puts all processes of torchrun or srun into one run folder, where its name
    holds a time stamp; see ``shared_time_stamp``."""
    if started() is None:
        return []
    from hydra import compose
    from omegaconf import OmegaConf

    from discrete_diffusion.cli.compose import own_hydra, quoted

    kind, about = "sweep" if sweeps else "run", [o for o in overrides if o.startswith("hydra")]
    with own_hydra(user_config_dir) as searchpath:
        config = compose(command, [*searchpath, *about], return_hydra_config=True)
    patterns = OmegaConf.to_container(config.hydra[kind], resolve=False)
    assert isinstance(patterns, dict)
    pattern = str(patterns["dir"])
    if (folder := shared_time_stamp(pattern)) == pattern:
        return []
    return [f"hydra.{kind}.dir={quoted(folder)}"]


def shared_time_stamp(pattern: str) -> str:
    """A folder's ``pattern`` with each ``${now:...}`` replaced by the same text in all processes.

    Under ``torchrun`` it is the first process's time, which the agent's store carries; under
    ``srun`` the numbers of job and step, which name the folder again when the job is requeued.
    Raises ``ValueError`` under ``torchrun`` without such a store.
    """
    now = re.compile(r"\$\{now:([^}]*)\}")
    found = started()
    if now.search(pattern) is None or found is None:
        return pattern
    if found.by == "srun":
        name = f"slurm_{os.environ['SLURM_JOB_ID']}_{os.environ['SLURM_STEP_ID']}"
        return now.sub(name, pattern)
    moment = time.localtime()
    return _as_the_first_has_it(
        now.sub(lambda match: time.strftime(match[1], moment), pattern), found.rank
    )


def _as_the_first_has_it(folder: str, rank: int) -> str:
    """The ``folder`` of rank 0, passed on by the store of torchrun's agent."""
    environment = os.environ
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise ValueError(
            "the processes of this torchrun share no store to agree on a folder; name one with "
            "hydra.run.dir=DIR"
        )
    from torch.distributed import TCPStore

    store = TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), is_master=False)
    key = f"discrete_diffusion/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store.set(key, folder)
    return str(store.get(key).decode())
