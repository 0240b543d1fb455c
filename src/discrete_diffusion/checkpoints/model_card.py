"""The model card: what a model is, how to use it, what it was trained on, how good it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from discrete_diffusion.domains.registry import domain_of

_RECIPE = ("algo", "model", "noise", "forward_process", "optim", "trainer", "callbacks", "seed")
_UNSAID = ("_unweighted", "_standard_error", "_reference", "_training")
"""How the names of numbers end that say something of others."""
_MOST_SHOWN = 1000
"""Characters of a text."""

_NO_METRICS = {"step", "steps", "seed", "parameters", "skipped_steps", "seconds", "threads"}


@dataclass(frozen=True)
class About:
    """Facts on the card that are not in the checkpoint. ``name``: of the model, as ``load`` takes
    it. ``licence``: an identifier of SPDX, such as ``mit``. ``recipe``: the command that trained
    it. ``limits``: what it is not good for. ``metrics``: of ``evaluate`` or ``train``, what
    ``metrics.json`` holds."""

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
    """Licence in the metadata at the head of a model card (``license``); None without a card, or
    where it names none."""
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
