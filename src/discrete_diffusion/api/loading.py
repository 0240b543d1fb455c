"""``load`` and ``evaluate``: trained models from Python, as the commands use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.api.requests import (
    evaluate_files,
    evaluate_model,
    sample,
    trained_model_here,
)
from discrete_diffusion.checkpoints.contents import Checkpoint, read_checkpoint
from discrete_diffusion.checkpoints.sharing import push_to_hub, save_pretrained
from discrete_diffusion.config.constructors import check_kind
from discrete_diffusion.config.files import as_list
from discrete_diffusion.config.plugins import import_plugins
from discrete_diffusion.config.values import check_name
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains.commands import Option
from discrete_diffusion.domains.registry import available_domains, domain_of, get_domain, options_of
from discrete_diffusion.evaluation.report import Evaluation
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.runtime.inputs import GivenObjects
from discrete_diffusion.sampling.base import check_given
from discrete_diffusion.sampling.likelihood import Order, order_log_probs, order_sampler


def log_prob(checkpoint: Checkpoint, samples: Any, order: Order) -> Tensor:
    """Log-probability of samples, nats, in the given order of their nodes.

    It is exact for the sampler ``sampling=entropy-bounded sampling.budget=0 sampling.order=ORDER``,
    given the numbers of tokens, and does not depend on the other samples of a call.

    Args:
        checkpoint: provided by ``load``.
        samples: as ``sample`` returns them, or tokens Int[M, L].
        order: ``entropy``, ``margin``, ``max-probability``, ``most-uncertain`` or
            ``left-to-right``; a list of all positions, the first to reveal first; of distilled
            students ``plan``.

    Returns:
        Float64[M].

    Raises:
        ValueError: the model does not mask tokens, samples have a condition, many paths of the
            order lead to one sample, or a sample has illegal ids.
    """
    # a model of tokens, without given ones
    algorithm, data = checkpoint.algorithm, checkpoint.config.data
    if algorithm.state != "tokens" or algorithm.layout.num_given:
        raise ValueError(
            f"log_prob is of samples of tokens that are given nothing; {algorithm.name} of "
            f"data={data.name} has none: evaluate() measures its bound"
        )
    check_given(algorithm, None)
    order_sampler(algorithm, order, key="order")
    layout = algorithm.layout
    if isinstance(samples, str) or not hasattr(samples, "__len__"):
        raise ValueError(
            "samples: expected a list of them, as sample returns it, or tokens [M, L]; got one "
            f"{type(samples).__name__}; of one sample give [it]"
        )
    # tokens of the samples
    tokens = samples if isinstance(samples, Tensor) else domain_of(data).tokens(data, samples)
    tokens = tokens.to(layout.support.device)
    layout.check(tokens)
    if len(tokens) == 0:
        return torch.zeros(0, dtype=torch.float64)
    return order_log_probs(algorithm, Batch(tokens, layout.is_real(tokens)), order).cpu()


_COUNT = "num_"
"""Beginning of the names of counts; it may be left out."""

_OF_BOTH = {"num", "seed", "steps", "sampling", "batch_size", "precision"}
_FIELDS = {
    "sample": {*_OF_BOTH, "given"},
    "evaluate": {*_OF_BOTH, "samples", "domain", "split", "held_out", "bound_draws", "quick"},
}
"""Keywords of the functions for every kind of data."""


def load(
    path: str | Path,
    *,
    ema: bool = True,
    device: torch.device | str = "cpu",
    plugins: Sequence[str] = (),
) -> Any:
    """Load a trained algorithm, ready to sample: ``load("runs/first")``.

    Its ``sample`` is a ``SampleFunction``, ``load(path).sample(num=16)``; ``log_prob(samples,
    order)`` is the log-probability of samples; ``save_pretrained(folder)`` and
    ``push_to_hub("owner/name")`` share it, see ``checkpoints/sharing.py``.

    No module that the file names is imported.

    Args:
        path: a ``.ckpt``, a ``.safetensors``, or a run folder, whose best.ckpt is read; a folder of
            ``save_pretrained``; the name of a model in the box, or ``owner/name`` of the Hugging
            Face Hub; a checkpoint of other code, ``mdlm:PATH``, ``sedd:PATH``, ``duo:PATH`` or
            ``ar:PATH``.
        ema: the averaged weights (default) or the last training weights, which only a ``.ckpt``
            has.
        device: of its weights.
        plugins: your own modules to import first, also from the current folder.

    Returns:
        The algorithm, in eval mode.

    Raises:
        FileNotFoundError: no such file or model.
        ValueError: the file is damaged, of a newer format, not a checkpoint of this package, or
            needs a module that is not imported; one sentence says which.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise ValueError(f"load({path!r}): expected a run folder, a checkpoint or a model's name")
    # modules first, as the checkpoint may need them
    import_plugins([*plugins] if isinstance(plugins, tuple) else plugins)
    checkpoint = read_checkpoint(path, ema=ema, device=device)
    checkpoint.algorithm.sample = SampleFunction(checkpoint)
    checkpoint.algorithm.log_prob = partial(log_prob, checkpoint)
    checkpoint.algorithm.save_pretrained = partial(save_pretrained, checkpoint)
    checkpoint.algorithm.push_to_hub = partial(push_to_hub, checkpoint)
    return checkpoint.algorithm


from_pretrained = load
"""Another name of ``load``, as users of the Hub know it."""


class SampleFunction:
    """Function that samples as the command ``sample`` does, and writes no files.

    Args:
        checkpoint: the loaded checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def __call__(
        self,
        num: int | None = None,
        *,
        seed: int = 0,
        steps: int | None = None,
        given: Any = None,
        sampling: str | Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        precision: str = "32-true",
        **options: Any,
    ) -> Any:
        """Sample from the model.

        Args:
            num: number of samples; with conditions, number of held-out ones to sample for.
            seed: the same seed and options give the samples that the command writes.
            steps: number of time steps, or of network calls for samplers that have none; None: the
                sampler's default.
            given: samples to complete: a file as the command takes it, or one or several objects
                that it would hold: a JSON object or an object with ``to_json`` for each line, a
                mapping of arrays for an ``.npz``.
            sampling: another sampler by name, or settings as in ``{"name": "ancestral",
                "temperature": 0.9}``; without a name, of the sampler trained with.
            batch_size: samples at once; None: as many as fit the sampler's default.
            precision: arithmetic of the network, as the command takes it.
            **options: keys of the command for this kind of data; a count goes with or without
                ``num_``, and a JSON object or an object that was read may replace a file.

        Returns:
            A list or a dataclass of the kind of data.

        Raises:
            ValueError: as the command does.
        """
        # options of its kind of data, files that are written apart
        own = options_of(domain_of(self.checkpoint.config.data), "sample")
        own = {name: option for name, option in own.items() if not option.written}
        if given is not None:
            options["given"] = given
        request = SampleRequest(
            num_samples=num,
            seed=seed,
            steps=steps,
            sampling=_settings(sampling),
            batch_size=batch_size,
            precision=precision,
            options=_options("sample", options, own),
        )
        return sample(request, trained_model_here(request, self.checkpoint)).samples


def evaluate(
    model: Any = None,
    num: int | None = None,
    *,
    samples: str | Path | Sequence[str | Path] = (),
    domain: str | None = None,
    seed: int = 0,
    steps: int | None = None,
    split: str | None = None,
    held_out: int | None = None,
    bound_draws: int | None = None,
    quick: bool = False,
    sampling: str | Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    precision: str = "32-true",
    **options: Any,
) -> Evaluation:
    """Measure a model and its samples, or ``samples`` in files, as the command ``evaluate`` does.

    Args:
        model: a model of ``load``, or a path as ``load`` takes it; None with ``samples``.
        num: samples for each sampling seed.
        samples: one file, or one for each sampling seed.
        domain: the kind of data of ``samples``.
        seed: the first sampling seed.
        steps: number of time steps, or of network calls for samplers that have none.
        split: the split to measure on.
        held_out: number of its samples.
        bound_draws: noise samples for each of them.
        quick: answer within a minute.
        sampling: as for ``SampleFunction``.
        batch_size: as for ``SampleFunction``.
        precision: as for ``SampleFunction``.
        **options: keys of the command for this kind of data.

    Returns:
        ``metrics()`` by name, ``sections()``, the tables, ``notes()``; ``write(folder)`` and
        ``plot(folder)`` write what the command writes.

    Raises:
        ValueError: as the command does, and unless one of ``model`` and ``samples`` is given.
    """
    # a model, or files of samples
    files = as_list(samples)
    if (model is None) == (not files):
        raise ValueError("evaluate needs a model or samples=FILE, one of the two")
    checkpoint = None if model is None else _checkpoint_of(model)
    if checkpoint is None and domain is None:
        known = ", ".join(available_domains())
        raise ValueError(f"samples={files[0]}: give domain=NAME, their kind of data: {known}")
    kind = get_domain(str(domain)) if checkpoint is None else domain_of(checkpoint.config.data)
    # the request, as of the command
    request = EvaluateRequest(
        num_samples=num,
        seed=seed,
        steps=steps,
        sampling=_settings(sampling),
        batch_size=batch_size,
        precision=precision,
        options=_options("evaluate", options, options_of(kind, "evaluate")),
        samples=tuple(files),
        split=split,
        num_held_out=held_out,
        bound_draws=bound_draws,
        quick=quick,
    )
    if checkpoint is None:
        return evaluate_files(request, kind)[0]
    return evaluate_model(request, trained_model_here(request, checkpoint))[0]


def _checkpoint_of(model: Any) -> Checkpoint:
    """Checkpoint of a path or a loaded model."""
    if not isinstance(model, str | Path):
        found = getattr(model, "sample", None)
        if not isinstance(found, SampleFunction):
            raise TypeError(f"expected a path or what load(path) returns, got {type(model)}")
        return found.checkpoint
    return read_checkpoint(model, ema=True, device="cpu")


def _settings(sampling: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {"name": sampling} if isinstance(sampling, str) else sampling or {}


def _options(command: str, given: Mapping[str, Any], own: Mapping[str, Option]) -> dict[str, Any]:
    """Options by their whole names, with ``GivenObjects`` for objects instead of files.

    Raises ``ValueError`` for an unknown option, one that is given twice, and a value of another
    kind than its default.
    """
    # names with or without num_
    found: dict[str, Any] = {}
    short = {name.removeprefix(_COUNT): name for name in own}
    for key, value in given.items():
        name = key if key in own else short.get(key, key)
        if name not in own:
            check_name(f"option of {command}", key, short.keys() | _FIELDS[command])
        if name in found:
            raise ValueError(f"{name.removeprefix(_COUNT)} and {name} are one option; give one")
        option = own[name]
        if option.is_file and value is not None:
            text = isinstance(value, str | Path)
            value = str(value) if text else GivenObjects.of(name, value)
        check_kind(name, value, option.default)
        found[name] = value
    return found
