"""Sharing of loaded models: a folder with a model card, the Hugging Face Hub, and ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
import yaml
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from discrete_diffusion.categorical import make_generator, neg_inf
from discrete_diffusion.checkpoints.files import save_weights, with_new_digest
from discrete_diffusion.config.values import check_name
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.hub import CARD, CONFIG, WEIGHTS, endpoint, hub_library
from discrete_diffusion.runtime.atomic_files import atomic_write, written_together
from discrete_diffusion.runtime.package import install_command

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
    from discrete_diffusion.checkpoints.contents import Checkpoint

_RECIPE = ("algo", "model", "schedule", "forward_process", "optim", "trainer", "callbacks", "seed")
_NOT_SHOWN = ("_unweighted", "_standard_error", "_reference", "_training")
"""Suffixes of metrics that only describe other metrics, such as standard errors."""

_NO_METRICS = {"step", "steps", "seed", "parameters", "skipped_steps", "seconds", "threads"}

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

TOLERANCE = 1e-4
"""Largest difference of an exported network's logits, relative to the largest logit if above 1."""

_ROWS = 3
"""Number of samples in the traced example; the exported network takes any number."""


def read_metrics(path: str | Path) -> dict[str, Any]:
    """Read a ``metrics.json``; raise ``ValueError`` for another file."""
    try:
        metrics = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"metrics={path} is not valid JSON; give a metrics.json") from error
    if not isinstance(metrics, dict):
        raise ValueError(f"metrics={path} is not a JSON object; give a metrics.json")
    return metrics


def licence_of_card(path: Path) -> str | None:
    """Read the licence in the metadata of a model card (``license``); None if it has none."""
    if not path.is_file():
        return None
    # YAML between two lines of dashes
    _, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("---\n")
    head, end, _ = rest.partition("\n---")
    try:
        metadata = yaml.safe_load(head) if end else None
    except yaml.YAMLError:
        return None
    licence = metadata.get("license") if isinstance(metadata, dict) else None
    return licence if isinstance(licence, str) else None


def model_card(
    info: Mapping[str, Any],
    num_parameters: int,
    metrics: Mapping[str, Any],
    *,
    name: str,
    licence: str | None = None,
    recipe: str | None = None,
    limits: str | None = None,
) -> str:
    """Write the text of a model's ``README.md``, with the metadata that the Hub reads."""
    config = info["config"]
    algo, domain = config["algo"], domain_of(config["data"])

    # metadata, settings of the run, and sizes of its samples
    head = {
        "library_name": "discrete-diffusion",
        **({} if licence is None else {"license": licence}),
        "tags": ["discrete-diffusion", str(algo["name"]), str(algo["backbone"])],
    }
    settings = {key: config[key] for key in _RECIPE if key in config}
    # long texts, such as tokenizers, by their beginnings
    data = {
        k: f"{v[:40]}... ({len(v):,} characters)" if isinstance(v, str) and len(v) > 1000 else v
        for k, v in config["data"].items()
    }
    sizes = [n for n, count in enumerate(info["size_counts"]) if count]
    seen = f"samples of size {sizes[0]} to {sizes[-1]}" if sizes else "no samples"

    # sections, with a blank line between them
    parts = [
        f"---\n{_as_yaml(head)}---",
        f"# {name}",
        f"{algo['name']} with {algo['backbone']}, {num_parameters:,} parameters, "
        f"{info['step']:,} steps, for {domain.title}. Licence: {licence or 'not stated'}.",
        "```python\nfrom discrete_diffusion import load\n\n"
        f'model = load("{name}")\nsamples = model.sample(16)\n```',
        "## Data",
        f"Fingerprint `{info['data_fingerprint'] or 'unknown'}`:",
        f"```yaml\n{_as_yaml(data)}```",
        "## Recipe",
        *([] if recipe is None else [f"```\n{recipe}\n```"]),
        f"```yaml\n{_as_yaml(settings)}```",
        "## Metrics",
        _metrics_table(metrics),
        "## Limits",
        f"{f'{limits} ' if limits else ''}Trained on {seen}; it has not seen other sizes. Measured "
        "on data of the distribution that it was trained on alone.",
    ]
    return "\n\n".join(parts) + "\n"


def _metrics_table(metrics: Mapping[str, Any]) -> str:
    """Table of the metrics: a row per number, with its interval and the score of real data."""
    intervals, real = metrics.get("intervals", {}), metrics.get("real", {})
    rows = []
    for name, value in metrics.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or name in _NO_METRICS or name.endswith(_NOT_SHOWN):
            continue
        # the interval, or the standard error, and the floor of a distance
        low, high = intervals.get(name, (None, None))
        error = metrics.get(f"{name}_standard_error")
        spread = "" if error is None else f"± {error:.2g}"
        spread = f"{low:.4g} to {high:.4g}" if low is not None else spread
        floor = real.get(name)
        rows.append(
            f"| {name} | {value:.4g} | {spread} | {'' if floor is None else f'{floor:.4g}'} |"
        )
    # without metrics: how to measure them
    if not rows:
        return "Not measured; `discrete-diffusion evaluate checkpoint=...` does."
    seeds = len(metrics.get("seeds", ())) or 1
    about = (
        f"Mean over {seeds} sampling seed{'s' if seeds > 1 else ''}, with the 95 % interval or ± "
        "the standard error; real data are as many real samples in place of the model's, the floor "
        "of a distance."
    )
    return "\n".join(["| | value | | real data |", "|---|---:|---:|---:|", *rows, "", about])


def _as_yaml(values: Any) -> str:
    return str(
        yaml.safe_dump(json.loads(json.dumps(values)), sort_keys=False, default_flow_style=None)
    )


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
        folder: folder to write into.
        dtype: type of the stored weights; ``bfloat16`` halves the file, and loading converts to
            float32.
        overwrite: replace existing files: all three or, if one cannot be written, none.
        metrics: a ``metrics.json`` of ``evaluate`` or ``train`` for the card, ``README.md``; by
            default the run's, if it is of the same step.
        **about: what the card says: ``name``, as ``load`` takes it (by default the folder's name);
            ``licence``, an SPDX identifier (by default the licence on the card next to the loaded
            file); ``recipe``, the command that trained the model; ``limits``, uses for which the
            model is not suitable.

    Returns:
        The folder.

    Raises:
        ValueError: ``dtype`` is not supported, or the folder has one of these files and
            ``overwrite`` is False.
    """
    # refuse to replace files, and read the metrics, before anything is written
    folder, names = Path(folder), (WEIGHTS, CONFIG, CARD)
    taken = [name for name in names if (folder / name).exists()]
    if taken and not overwrite:
        raise ValueError(f"{folder} has {', '.join(taken)}; overwrite=True replaces them")
    if metrics is None:
        # those of the run, if they are of this step and of averaged weights
        path = checkpoint.path.parent.parent / "metrics.json"
        metrics = read_metrics(path) if path.is_file() and checkpoint.ema else {}
        metrics = metrics if metrics.get("step") == checkpoint.step else {}
    elif not isinstance(metrics, Mapping):
        metrics = read_metrics(metrics)

    # contents of the three files
    weights = _weights(checkpoint.algorithm, dtype)
    info = with_new_digest(checkpoint.info, weights)
    num = checkpoint.algorithm.num_parameters
    if (licence := licence_of_card(checkpoint.path.parent / CARD)) is not None:
        about = {"licence": licence, **about}
    card = model_card(info, num, metrics, **{"name": folder.resolve().name, **about})
    config = json.dumps(info, indent=1, sort_keys=True) + "\n"

    # write all three or none
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
    """Upload the files of ``save_pretrained`` to the Hugging Face Hub.

    Args:
        checkpoint: a loaded checkpoint; ``load(path).push_to_hub`` has it already.
        repo_id: repository, ``owner/name``; created if it does not exist.
        private: whether a new repository is private; None: the account's default.
        token: access token; None: the token of ``hf auth login``.
        commit_message: message of the commit.
        **options: arguments of ``save_pretrained``.

    Returns:
        The address of the repository.

    Raises:
        ValueError: the Hub refuses the upload or cannot be reached.
    """
    hub = hub_library("push_to_hub")
    # the files, then the repository, then the upload
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


def _weights(algorithm: nn.Module, dtype: str | None) -> dict[str, Tensor]:
    """Weights by name; parameters are converted to ``dtype``."""
    if dtype is None:
        return algorithm.state_dict()
    # buffers, such as tables of ids, keep their type
    check_name("dtype", dtype, DTYPES)
    learned = {name for name, _ in algorithm.named_parameters(remove_duplicate=False)}
    return {
        name: value.to(DTYPES[dtype]) if name in learned else value
        for name, value in algorithm.state_dict().items()
    }


class _Network(nn.Module):
    """Network as the algorithm calls it: x_t Int[B, L], sigma Float[B] -> logits Float[B, L, V]."""

    def __init__(self, algorithm: TokenAlgorithm) -> None:
        super().__init__()
        self.algorithm = algorithm

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        level = sigma if self.algorithm.time_conditioning else None
        return self.algorithm.apply_backbone(x_t, level, None)


def export_onnx(algorithm: TokenAlgorithm, vocabulary: Mapping[str, Any], path: Path) -> float:
    """Write the network of ``algorithm`` as ONNX, and compare its logits in onnxruntime.

    The file takes ``x_t`` Int64[B, L] and ``sigma`` Float32[B] for any B and gives ``logits``
    Float32[B, L, V]. Its metadata hold the ``vocabulary``, the meaning of ids, and ``mask_id`` and
    ``pad_id``, as JSON.

    Returns the largest difference of the logits. Raises ``ValueError`` if onnxscript or onnxruntime
    is missing, if the network is not on tokens or needs more inputs than x_t and sigma, or if the
    logits differ by more than ``TOLERANCE``.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"format=onnx takes onnxruntime and onnxscript: {install_command('onnx')}"
        ) from error

    # inputs x_t and sigma alone, without any condition
    layout = getattr(algorithm, "layout", None)
    needed = {*algorithm.call.required, *algorithm.provided_conditions}
    needed |= {*algorithm.encoded_conditions}
    if layout is None or needed:
        why = f"also needs {', '.join(sorted(needed))}" if needed else "is not on tokens"
        raise ValueError(
            f"format=onnx takes networks of tokens that need x_t and sigma alone; this one {why}"
        )

    # trace the network, without the exporter's messages about itself
    network = _Network(algorithm).eval()
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        warnings.simplefilter("ignore")
        for name in ("torch.onnx", "onnxscript", "onnx_ir"):
            logging.getLogger(name).setLevel(logging.ERROR)
        program = torch.onnx.export(
            network,
            _example_inputs(algorithm, _ROWS),
            dynamo=True,
            dynamic_shapes=({0: batch}, {0: batch}),
            input_names=["x_t", "sigma"],
            output_names=["logits"],
            verbose=False,
        )
    assert program is not None
    # the meaning of ids goes with the file
    ids = {"mask_id": layout.mask_id, "pad_id": layout.pad_id}
    for key, value in {"vocabulary": dict(vocabulary), **ids}.items():
        program.model.metadata_props[key] = json.dumps(value)

    # keep the file only if its logits are those of the network
    with atomic_write(path) as unfinished:
        program.save(unfinished)
        session = onnxruntime.InferenceSession(str(unfinished), providers=["CPUExecutionProvider"])
        pairs = []
        for x_t, sigma in (_example_inputs(algorithm, rows) for rows in (1, _ROWS, 8)):
            (exported,) = session.run(None, {"x_t": x_t.numpy(), "sigma": sigma.numpy()})
            with torch.no_grad():
                logits = network(x_t, sigma)
            legal = logits[logits > neg_inf(logits.dtype) / 2]
            gap = (torch.from_numpy(exported) - logits).abs().max()
            pairs.append(torch.stack([gap, legal.abs().max()]))
        difference, largest = torch.stack(pairs).max(dim=0).values.tolist()
        if not difference <= TOLERANCE * max(1, largest):
            raise ValueError(
                f"format=onnx: logits of up to {largest:.3g} differ by {difference:.1g}"
            )
    return float(difference)


def _example_inputs(algorithm: TokenAlgorithm, rows: int) -> tuple[Tensor, Tensor]:
    """Make samples of random legal ids with half of the positions masked, and noise levels."""
    layout, generator = algorithm.layout, make_generator(0, rows)
    weight = layout.support.float()
    x = torch.multinomial(weight.cpu(), rows, replacement=True, generator=generator).T
    hidden = torch.rand(x.shape, generator=generator) < 0.5
    return x.masked_fill(hidden, layout.mask_id), torch.linspace(0.05, 3.0, rows)
