"""``save_pretrained``, ``push_to_hub``: a loaded model as a folder with a card, and on the Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
import yaml
from torch import Tensor, nn

from discrete_diffusion.checkpoints.contents import with_new_digest
from discrete_diffusion.checkpoints.files import save_weights
from discrete_diffusion.config.values import check_name
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.hub.published import CARD, CONFIG, WEIGHTS, endpoint, hub_library
from discrete_diffusion.runtime.atomic_files import written_together

if TYPE_CHECKING:
    from discrete_diffusion.checkpoints.contents import Checkpoint

_RECIPE = ("algo", "model", "noise", "forward_process", "optim", "trainer", "callbacks", "seed")
_UNSAID = ("_unweighted", "_standard_error", "_reference", "_training")
"""How the names of numbers end that say something of others."""
_MOST_SHOWN = 1000
"""Characters of a text."""

_NO_METRICS = {"step", "steps", "seed", "parameters", "skipped_steps", "seconds", "threads"}


@dataclass(frozen=True)
class About:
    """Facts on the card that are not in the checkpoint.

    ``name``: of the model, as ``load`` takes it. ``licence``: an identifier of SPDX, such as
    ``mit``. ``recipe``: the command that trained it. ``limits``: what it is not good for.
    ``metrics``: of ``evaluate`` or ``train``, what ``metrics.json`` holds.
    """

    name: str
    licence: str | None = None
    recipe: str | None = None
    limits: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


def read_metrics(path: str | Path) -> dict[str, Any]:
    """Read a ``metrics.json``; ``ValueError`` for another file."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"metrics={path} is not valid JSON; give a metrics.json") from error
    if not isinstance(found, dict):
        raise ValueError(f"metrics={path} is not a JSON object; give a metrics.json")
    return found


def licence_of_card(path: Path) -> str | None:
    """Licence in the metadata at the head of a model card (``license``); None if there is none."""
    if not path.is_file():
        return None
    _, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("---\n")
    head, end, _ = rest.partition("\n---")
    try:
        found = yaml.safe_load(head) if end else None
    except yaml.YAMLError:
        return None
    licence = found.get("license") if isinstance(found, dict) else None
    return licence if isinstance(licence, str) else None


def model_card(info: Mapping[str, Any], num_parameters: int, about: About) -> str:
    """The ``README.md`` of a model, with the metadata that the Hugging Face Hub reads."""
    config = info["config"]
    algo, domain = config["algo"], domain_of(config["data"])
    head = {
        "library_name": "discrete-diffusion",
        **({} if about.licence is None else {"license": about.licence}),
        "tags": ["discrete-diffusion", str(algo["name"]), str(algo["backbone"])],
    }
    recipe = {key: config[key] for key in _RECIPE if key in config}
    sizes = [n for n, count in enumerate(info["size_counts"]) if count]
    seen = f"samples of size {sizes[0]} to {sizes[-1]}" if sizes else "no samples"
    limits = "" if about.limits is None else f"{about.limits} "
    parts = [
        f"---\n{_yaml(head)}---",
        f"# {about.name}",
        f"{algo['name']} with {algo['backbone']}, {num_parameters:,} parameters, "
        f"{info['step']:,} steps, for {domain.title}. Licence: {about.licence or 'not stated'}.",
        "```python\nfrom discrete_diffusion import load\n\n"
        f'model = load("{about.name}")\nsamples = model.sample(16)\n```',
        "## Data",
        f"Fingerprint `{info['data_fingerprint'] or 'unknown'}`:",
        f"```yaml\n{_yaml({k: _short(value) for k, value in config['data'].items()})}```",
        "## Recipe",
        *([] if about.recipe is None else [f"```\n{about.recipe}\n```"]),
        f"```yaml\n{_yaml(recipe)}```",
        "## Metrics",
        _metrics(about.metrics),
        "## Limits",
        f"{limits}Trained on {seen}; of other sizes it knows nothing. Measured on data of the "
        "distribution that it was trained on, and on no other.",
    ]
    return "\n\n".join(parts) + "\n"


def _metrics(metrics: Mapping[str, Any]) -> str:
    """A row per number, with its interval and what real data score if they were measured."""
    intervals, real = metrics.get("intervals", {}), metrics.get("real", {})
    rows = []
    for name, value in metrics.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or name in _NO_METRICS or name.endswith(_UNSAID):
            continue
        low, high = intervals.get(name, (None, None))
        error = metrics.get(f"{name}_standard_error")
        spread = "" if error is None else f"± {error:.2g}"
        spread = f"{low:.4g} to {high:.4g}" if low is not None else spread
        floor = real.get(name)
        rows.append(
            f"| {name} | {value:.4g} | {spread} | {'' if floor is None else f'{floor:.4g}'} |"
        )
    if not rows:
        return "Not measured; `discrete-diffusion evaluate checkpoint=...` does."
    seeds = len(metrics.get("seeds", ())) or 1
    about = f"Mean over {seeds} sampling seed{'s' if seeds > 1 else ''}, with the 95 % interval or "
    about += "± the standard error; of distances, what real data score is the floor: as many real "
    about += "samples in the model's place."
    return "\n".join(["| | value | | real data |", "|---|---:|---:|---:|", *rows, "", about])


def _short(value: Any) -> Any:
    """A value; of a long text, such as a whole tokenizer, its beginning and length."""
    is_long = isinstance(value, str) and len(value) > _MOST_SHOWN
    return f"{value[:40]}... ({len(value):,} characters)" if is_long else value


def _yaml(values: Any) -> str:
    return str(
        yaml.safe_dump(json.loads(json.dumps(values)), sort_keys=False, default_flow_style=None)
    )


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
