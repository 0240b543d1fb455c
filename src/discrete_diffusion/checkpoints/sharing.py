"""``save_pretrained`` and ``push_to_hub``: a loaded model as a folder, and on the Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from discrete_diffusion.checkpoints.contents import with_new_digest
from discrete_diffusion.checkpoints.files import save_weights
from discrete_diffusion.checkpoints.model_card import (
    About,
    licence_of_card,
    model_card,
    read_metrics,
)
from discrete_diffusion.config.naming import check_name
from discrete_diffusion.hub.published import CARD, CONFIG, WEIGHTS, endpoint, hub_library
from discrete_diffusion.runtime.atomic_files import written_together

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints.contents import Checkpoint

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def save_pretrained(
    checkpoint: Checkpoint,
    folder: str | Path,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
    metrics: str | Path | Mapping[str, Any] | None = None,
    **about: str,
) -> Path:
    """Write a loaded model as a folder: ``config.json``, ``model.safetensors`` and a model card.

    Args:
        checkpoint: a loaded checkpoint; ``load(path).save_pretrained`` has it already.
        folder: where to write.
        dtype: ``bfloat16`` halves the file; loaded, weights are float32 again.
        overwrite: replace these files where they exist: all three, or none where they cannot be
            written, as on a full disk.
        metrics: a ``metrics.json`` of ``evaluate`` or ``train`` for the card, ``README.md``; by
            default that of the run, if it is of the same step.
        **about: further fields of ``About``: ``name`` (by default the folder's), ``licence`` (by
            default that of the card beside the file that was loaded), ``recipe``, ``limits``.

    Returns:
        The folder.

    Raises:
        ValueError: ``dtype`` is another one, or the folder has one of these files and
            ``overwrite`` is False.
    """
    folder, names = Path(folder), (WEIGHTS, CONFIG, CARD)
    taken = [name for name in names if (folder / name).exists()]
    if taken and not overwrite:
        raise ValueError(f"{folder} has {', '.join(taken)}; overwrite=True replaces them")
    if not isinstance(metrics, Mapping):
        metrics = _of_run(checkpoint) if metrics is None else read_metrics(metrics)
    weights = _weights(checkpoint.algorithm, dtype)
    info = with_new_digest(checkpoint.info, weights)
    num = checkpoint.algorithm.num_parameters
    if (licence := licence_of_card(checkpoint.path.parent / CARD)) is not None:
        about = {"licence": licence, **about}
    card = model_card(info, num, About(**{"name": folder.resolve().name, **about}, metrics=metrics))
    config = json.dumps(info, indent=1, sort_keys=True) + "\n"
    with written_together([folder / name for name in names]) as unfinished:
        save_weights(unfinished[0], info, weights)
        for path, text in zip(unfinished[1:], (config, card), strict=True):
            path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return folder


def push_to_hub(
    checkpoint: Checkpoint,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a model of discrete-diffusion",
    **options: Any,
) -> str:
    """Upload what ``save_pretrained`` writes to the Hugging Face Hub.

    Args:
        checkpoint: a loaded checkpoint; ``load(path).push_to_hub`` has it already.
        repo_id: ``owner/name``; created if it is not there.
        private: whether a created repository is private; None: the account's default.
        token: by default that of ``hf auth login``.
        commit_message: message of the commit.
        **options: of ``save_pretrained``.

    Returns:
        The address of the repository.

    Raises:
        ValueError: the Hub refuses or cannot be reached.
    """
    hub = hub_library("push_to_hub")
    with TemporaryDirectory() as scratch:
        options = {"name": repo_id, **options, "overwrite": True}
        folder = save_pretrained(checkpoint, scratch, **options)
        api = hub.HfApi(endpoint=endpoint(), token=token)
        try:
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
        except Exception as error:  # of its HTTP library too, which is not always the same
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"{repo_id} could not be pushed to the Hugging Face Hub: {reason}"
            ) from error
    return str(address)


def _of_run(checkpoint: Checkpoint) -> dict[str, Any]:
    """The numbers of the run of a checkpoint, if they are of its step and its averaged weights."""
    path = checkpoint.path.parent.parent / "metrics.json"
    metrics = read_metrics(path) if path.is_file() else {}
    return metrics if checkpoint.ema and metrics.get("step") == checkpoint.step else {}


def _weights(algorithm: nn.Module, dtype: str | None) -> dict[str, Tensor]:
    """The weights by name, learned ones as ``dtype``."""
    if dtype is None:
        return algorithm.state_dict()
    check_name("dtype", dtype, DTYPES)
    learned = {name for name, _ in algorithm.named_parameters(remove_duplicate=False)}
    return {
        name: value.to(DTYPES[dtype]) if name in learned else value
        for name, value in algorithm.state_dict().items()
    }
