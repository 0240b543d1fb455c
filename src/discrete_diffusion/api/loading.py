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
    """Compute the log-probability of samples in nats, in the given order of their nodes.

    It is exact for the sampler ``sampling=entropy-bounded sampling.entropy_budget=0
    sampling.order=ORDER``, conditioned on the numbers of tokens, and does not depend on the other
    samples of a call.

    Args:
        checkpoint: checkpoint of the model; ``load(path).log_prob`` has it already.
        samples: as ``sample`` returns them, or tokens Int[M, L].
        order: ``entropy``, ``margin``, ``top_probability``, ``most-uncertain`` or
            ``left-to-right``; a list of all positions in the order of revealing; for distilled
            students ``plan``.

    Returns:
        Log-probabilities, Float64[M].

    Raises:
        ValueError: the model does not mask tokens, samples have a condition, several paths of the
            order lead to the same sample, or a sample has illegal ids.
    """
    # a model of tokens, none of which are given
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
"""Prefix of the names of counts, which may be left out."""

_OF_BOTH = {"num", "seed", "steps", "sampling", "batch_size", "precision"}
_FIELDS = {
    "sample": {*_OF_BOTH, "given"},
    "evaluate": {*_OF_BOTH, "samples", "domain", "split", "held_out", "noise_samples", "quick"},
}
"""Keywords that ``sample`` and ``evaluate`` take for every kind of data."""


def load(
    path: str | Path,
    *,
    ema: bool = True,
    device: torch.device | str = "cpu",
    plugins: Sequence[str] = (),
) -> Any:
    """Load a trained algorithm, ready to sample: ``load("runs/first")``.

    The algorithm gets the methods ``sample(num=16)``, see ``SampleFunction``; ``log_prob(samples,
    order)``, the log-probability of samples; and ``save_pretrained(folder)`` and
    ``push_to_hub("owner/name")``, see ``checkpoints/sharing.py``.

    Modules named in the file are not imported.

    Args:
        path: a ``.ckpt``, a ``.safetensors``, or a run folder, whose best.ckpt is read; a folder of
            ``save_pretrained``; the name of a shipped model, or ``owner/name`` on the Hugging Face
            Hub; a checkpoint of other code, ``mdlm:PATH``, ``sedd:PATH``, ``duo:PATH`` or
            ``ar:PATH``.
        ema: True for the averaged weights; False for the last training weights, which only a
            ``.ckpt`` has.
        device: device of the weights.
        plugins: your own modules to import first, also from the current folder.

    Returns:
        The algorithm, in eval mode.

    Raises:
        FileNotFoundError: the file or model does not exist.
        ValueError: the file is damaged, of a newer format, not a checkpoint of this package, or
            needs a module that is not imported; the message says which.
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
"""``load`` by the name that the libraries of the Hugging Face Hub use."""


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
            num: number of samples; of a conditional model, number of held-out samples whose
                conditions are used.
            seed: random seed; with the same options it gives the samples of the command.
            steps: number of time steps, or of network calls if the sampler has no time steps;
                None: the sampler's default.
            given: samples to complete: a file as the command takes it, or the objects that the
                file would hold: a JSON object or an object with ``to_json`` for each line, a
                mapping of arrays for an ``.npz``.
            sampling: name of another sampler, or settings as in ``{"name": "ancestral",
                "temperature": 0.9}``; without a name they change the sampler of the run.
            batch_size: number of samples per batch; None: the default.
            precision: arithmetic of the network, as the command takes it.
            **options: keys of the command for this kind of data. The prefix ``num_`` of a count
                may be left out, and a JSON object or an object that was read may replace a file.

        Returns:
            The samples: a list, or a dataclass of the kind of data.

        Raises:
            ValueError: as the command does.
        """
        # options of its kind of data, except files to write
        own = options_of(domain_of(self.checkpoint.config.data), "sample")
        own = {name: option for name, option in own.items() if not option.written}
        if given is not None:
            options["given"] = given
        request = SampleRequest(
            num_samples=num,
            seed=seed,
            steps=steps,
            sampling=_sampler_settings(sampling),
            batch_size=batch_size,
            precision=precision,
            options=_options_by_name("sample", options, own),
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
    noise_samples: int | None = None,
    quick: bool = False,
    sampling: str | Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    precision: str = "32-true",
    **options: Any,
) -> Evaluation:
    """Measure a model and its samples, or ``samples`` in files, as the command ``evaluate`` does.

    Args:
        model: a model that ``load`` returned, or a path as ``load`` takes it; None with
            ``samples``.
        num: number of samples for each sampling seed.
        samples: a file of samples, or a file for each sampling seed.
        domain: kind of data of ``samples``.
        seed: the first sampling seed.
        steps: number of time steps, or of network calls if the sampler has no time steps.
        split: the split to measure on.
        held_out: number of samples of the split.
        noise_samples: number of noise samples for each held-out sample.
        quick: measure less, so that it takes about a minute.
        sampling: as for ``SampleFunction``.
        batch_size: as for ``SampleFunction``.
        precision: as for ``SampleFunction``.
        **options: keys of the command for this kind of data.

    Returns:
        The measurements: ``metrics()`` are the numbers by name, ``sections()`` the tables,
        ``notes()`` the remarks; ``write(folder)`` and ``plot(folder)`` write the command's files.

    Raises:
        ValueError: as the command does, and unless either ``model`` or ``samples`` is given.
    """
    # a model, or files of samples
    files = as_list(samples)
    if (model is None) == (not files):
        raise ValueError("evaluate needs a model or samples=FILE, one of the two")
    checkpoint = None
    if isinstance(model, str | Path):
        checkpoint = read_checkpoint(model, ema=True, device="cpu")
    elif model is not None:
        checkpoint = getattr(getattr(model, "sample", None), "checkpoint", None)
        if checkpoint is None:
            raise TypeError(f"expected a path or what load(path) returns, got {type(model)}")
    if checkpoint is None and domain is None:
        known = ", ".join(available_domains())
        raise ValueError(f"samples={files[0]}: give domain=NAME, their kind of data: {known}")
    kind = get_domain(str(domain)) if checkpoint is None else domain_of(checkpoint.config.data)
    # the same request as the command's
    request = EvaluateRequest(
        num_samples=num,
        seed=seed,
        steps=steps,
        sampling=_sampler_settings(sampling),
        batch_size=batch_size,
        precision=precision,
        options=_options_by_name("evaluate", options, options_of(kind, "evaluate")),
        samples=tuple(files),
        split=split,
        num_held_out=held_out,
        noise_samples=noise_samples,
        quick=quick,
    )
    if checkpoint is None:
        return evaluate_files(request, kind)[0]
    return evaluate_model(request, trained_model_here(request, checkpoint))[0]


def _sampler_settings(sampling: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {"name": sampling} if isinstance(sampling, str) else sampling or {}


def _options_by_name(
    command: str, given: Mapping[str, Any], own: Mapping[str, Option]
) -> dict[str, Any]:
    """Return the options by their full names; objects given instead of files as ``GivenObjects``.

    Raises ``ValueError`` for an unknown or repeated option, and for a value of another type than
    the default.
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
