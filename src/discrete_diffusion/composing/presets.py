"""Model presets: which there are, which a backbone fits, which one it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discrete_diffusion.composing.search_path import Places, config_repository, own_hydra
from discrete_diffusion.config.files import ModelPreset
from discrete_diffusion.models.registry import backbone_spec, check_backbone_name

if TYPE_CHECKING:
    from omegaconf import DictConfig


def model_presets(places: Places = ()) -> dict[str, ModelPreset]:
    """Every model preset on the search path, by name: ours, those of the user's folder and of
    plug-ins, and the ``default_model`` of backbones that are registered with their sizes."""
    from hydra import compose
    from hydra.core.object_type import ObjectType
    from omegaconf import OmegaConf

    found = {}
    with config_repository(places) as repository:
        for name in sorted(repository.get_group_options("model", ObjectType.CONFIG)):
            file = repository.load_config(f"model/{name}")
            keys = file.config
            if file.defaults_list or file.header.get("package"):  # made of several files
                with own_hydra(places) as words:
                    keys = compose("train", [*words, f"model={name}"]).model
            container: Any = OmegaConf.to_container(keys, resolve=False)
            found[name] = ModelPreset.of(name, container)
    return found


def missing_preset(config: DictConfig, chosen: Sequence[str], places: Places) -> str | None:
    """The model preset that fits ``algo.backbone``; None if the config has one that fits, or there
    is none. ``chosen``: overrides that choose groups.

    Raises ``ValueError`` for an unknown backbone, for a ``model=`` that does not fit it, and for a
    backbone whose own preset is nowhere on the search path.
    """
    if "algo" not in config or "model" not in config or "algos" in config:
        return None  # the cells of compare have backbones of their own
    backbone = config.algo.backbone
    check_backbone_name(backbone)
    fits = config.model.get("backbones")
    if fits is None or backbone in fits:
        return None
    presets = model_presets(places)
    if any(chooses_model(o) for o in chosen):
        fitting = [name for name, preset in presets.items() if backbone in preset.backbones]
        if not fitting:  # a plug-in without a preset reads what it needs
            return None
        raise ValueError(
            f"model={config.model.name} is made for {', '.join(fits)}, not for backbone "
            f"'{backbone}'; choose one of model={', model='.join(fitting)}, or "
            f"algo.backbone={' or algo.backbone='.join(fits)}"
        )
    wanted = presets.get(str(config.model.get("name")))
    return next(iter(fitting_presets(backbone, presets, wanted.parameters if wanted else 0)), None)


def fitting_presets(
    backbone: str, presets: Mapping[str, ModelPreset], parameters: int
) -> list[str]:
    """Names of the ``presets`` that a backbone fits, those nearest to a number of ``parameters``
    first, and its default preset before others as near. That one is the first if it does not say
    how large it is, and so is any of them where ``parameters`` is 0, for unknown.

    Raises ``ValueError`` if it has none of them, and the one that it is registered with is missing.
    """
    default = backbone_spec(backbone).preset
    fitting = [preset for preset in presets.values() if backbone in preset.backbones]
    if default is not None and default not in presets and not fitting:
        raise ValueError(
            f"backbone '{backbone}' has default_model='{default}', and no model preset is called "
            f"that; give its folder of configs by --config-dir FOLDER, which holds "
            f"model/{default}.yaml"
        )
    if default is not None and not fitting:
        return [default]

    def order(preset: ModelPreset) -> tuple[bool, float, bool, str]:
        is_default = preset.name == default
        apart = _distance(preset.parameters, parameters)
        return not (is_default and not preset.parameters), apart, not is_default, preset.name

    return [preset.name for preset in sorted(fitting, key=order)]


def chooses_model(override: str) -> bool:
    """True for ``model=NAME``."""
    return override.lstrip("+").startswith("model=")


def _distance(size: int, wanted: int) -> float:
    """|log(size / wanted)|; infinite for an unknown size, 0 where none is wanted."""
    if not wanted:
        return 0.0
    return abs(math.log(size / wanted)) if size else math.inf
