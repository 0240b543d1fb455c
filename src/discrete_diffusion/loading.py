"""``load``: a trained model from its checkpoint, ready to sample its kind of data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.naming import check_name

if TYPE_CHECKING:
    import torch
    from omegaconf import DictConfig

    from discrete_diffusion.checkpoints.contents import Checkpoint

_COUNT = "num_"
"""How the names of counts begin, which may be left out."""

_EXPLICIT = {"num", "seed", "steps", "given", "sampling"}
"""What ``sample`` takes of every kind of data."""


def load(
    path: str | Path,
    *,
    ema: bool = True,
    device: torch.device | str = "cpu",
    plugins: Sequence[str] = (),
) -> Any:
    """The algorithm of a checkpoint, ready to sample: ``load("runs/first")``.

    A ``TokenAlgorithm`` on tokens, ``MaskedFeatures`` on features. Its ``sample`` is a
    ``SampleFunction``: ``load(path).sample(num=16)``; ``save_pretrained(folder)`` and
    ``push_to_hub("owner/name")`` pass it on, see ``checkpoints/sharing.py``.

    The file makes nothing be imported: its own list of modules is read, and not followed.

    Args:
        path: a ``.ckpt``, a ``.safetensors``, or a run folder, whose best.ckpt is read; a folder of
            ``save_pretrained``; the name of a model in the box, or ``owner/name`` of the Hugging
            Face Hub.
        ema: the averaged weights (default) or the last training weights, which only a ``.ckpt``
            has.
        device: where its weights lie.
        plugins: your own modules to import first, also from the current folder.

    Returns:
        The algorithm, in eval mode.

    Raises:
        FileNotFoundError: there is no such file or model.
        ValueError: the file is damaged, of a newer format, not a checkpoint of this package, or
            needs a module that nobody has imported; one sentence says which.
    """
    from discrete_diffusion.checkpoints.contents import read_checkpoint
    from discrete_diffusion.checkpoints.sharing import push_to_hub, save_pretrained
    from discrete_diffusion.config.plugins import import_plugins

    import_plugins([*plugins] if isinstance(plugins, tuple) else plugins)
    checkpoint = read_checkpoint(path, ema=ema, device=device)
    checkpoint.algorithm.sample = SampleFunction(str(checkpoint.path), checkpoint)
    checkpoint.algorithm.save_pretrained = partial(save_pretrained, checkpoint)
    checkpoint.algorithm.push_to_hub = partial(push_to_hub, checkpoint)
    return checkpoint.algorithm


class SampleFunction:
    """Function that samples as the command ``sample`` does, and returns instead of writing files.

    Args:
        path: the checkpoint's file.
        checkpoint: the loaded checkpoint.
    """

    def __init__(self, path: str, checkpoint: Checkpoint) -> None:
        self.path, self.checkpoint = path, checkpoint

    def __call__(
        self,
        num: int | None = None,
        *,
        seed: int = 0,
        steps: int | None = None,
        given: Any = None,
        sampling: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Sample from the model.

        Args:
            num: how many; of kinds of data with conditions, how many held-out ones to sample for.
            seed: the same seed and options give the samples that the command writes.
            steps: number of time steps, or of network calls for samplers that have none; None: the
                sampler's default.
            given: samples to complete, a file as the command takes it, or the content of its lines:
                JSON objects, or objects with ``to_json``, one or several.
            sampling: another sampler by name, or settings as in ``{"name": "ancestral",
                "temperature": 0.9}``; without a name, of the sampler trained with.
            **options: those keys of the command that mean something for this kind of data; a count
                goes with or without ``num_``, and a JSON object where the command takes a file of
                one.

        Returns:
            A list or a dataclass of the kind of data.

        Raises:
            ValueError: as the command does.
        """
        from discrete_diffusion.cli.sample import draw

        if isinstance(sampling, str):
            sampling = {"name": sampling}
        with TemporaryDirectory() as folder:
            if given is not None and not isinstance(given, str | Path):
                given = _written(given, Path(folder) / "given.jsonl")
            for name, value in options.items():
                if isinstance(value, Mapping):
                    options[name] = str(_written(value, Path(folder) / f"{name}.json"))
            asked = {"num_samples": num, "seed": seed, "steps": steps, "sampling": sampling or {}}
            if given is not None:
                options["given"] = str(given)
            return draw(self._config(asked, options), self.checkpoint).samples

    def _config(self, asked: Mapping[str, Any], options: Mapping[str, Any]) -> DictConfig:
        """Of the command, with ``asked`` and ``options`` in it."""
        from omegaconf import open_dict

        from discrete_diffusion.cli.compose import compose
        from discrete_diffusion.config.options import check_kinds
        from discrete_diffusion.domains import domain_of

        own = domain_of(self.checkpoint.config.data).options("sample").values()
        keys = {"batch_size", "precision", *(each.name for each in own if not each.written)}
        short = {key.removeprefix(_COUNT): key for key in keys}
        for name in options.keys() - keys:
            check_name("option of sample", name, short.keys() | _EXPLICIT)
            if short[name] in options:
                raise ValueError(f"{name} and {short[name]} are one option; give one of them")
        defaults = compose("sample")
        config = defaults.copy()
        with open_dict(config):
            config.merge_with(
                {
                    short.get(name, name): _as_config(value)
                    for name, value in {**asked, **options}.items()
                }
            )
            config.checkpoint = self.path
        check_kinds(config, defaults)
        return config


def _as_config(value: Any) -> Any:
    """A whole number of NumPy, or a range, as a config can hold it; anything else as it is."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return [*value] if isinstance(value, range) else value


def _written(given: Any, path: Path) -> Path:
    several = [given] if isinstance(given, Mapping) or hasattr(given, "to_json") else given
    lines = [each.to_json() if hasattr(each, "to_json") else each for each in several]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
