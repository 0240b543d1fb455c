"""New names of config keys and choices, for checkpoints of format 1 and messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from discrete_diffusion.config.files import presets_of, shipped_config, shipped_files

logger = logging.getLogger(__name__)

GROUPS = {"noise": "schedule", "check_backbone": "preflight"}
"""Groups and keys at the top of a config, with their new names."""

KEYS_OF_COMMANDS = {
    "bound_draws": "noise_samples",
    "bound_samples": "num_held_out",
    "draws": "samples_per_condition",
    "floor_draws": "reference_repeats",
    "reference": "baseline",
    "seeds": "num_seeds",
    "training": "training_data",
    "verdicts": "num_solver_checks",
}
"""Keys at the top of commands that read a checkpoint or compare, with their new names."""

KEYS: dict[str, dict[str, str]] = {
    "algo": {
        "draw": "time_sampling",
        "t_draw": "time_sampling",
        "t_source": "network_time",
        "path_calls": "trained_calls",
        "adapter_uses_middle": "adapter_uses_latent_model",
    },
    "data": {
        "tokens": "token_unit",
        "kind": "graph_family",
        "n_max": "max_nodes",
        "plan_seed": "generator_seed",
        "region_seed": "generator_seed",
        "phantom_seed": "generator_seed",
        "grammar_seed": "generator_seed",
        "condition": "condition_on",
        "codes": "room_codes",
        "names": "room_names",
        "threshold": "adjacency_threshold",
    },
    "eval": {
        "bound_samples": "num_held_out",
        "bound_draws": "noise_samples",
        "draws": "samples_per_condition",
        "verdicts": "num_solver_checks",
    },
    "init": {"parts": "modules"},
    "model": {
        "fact_dropout": "attribute_dropout",
        "pos": "position_embedding",
        "zero_head": "zero_init_head",
    },
    "sampling": {
        "budget": "entropy_budget",
        "groups_in_turn": "group_by_group",
        "corrections": "corrector_steps",
        "default_steps": "steps",
        "stop_cosine": "stop_similarity",
    },
    "schedule": {"per": "exponent_per", "largest_ratio": "max_ratio"},
}
"""Keys of a group, with their new names."""

VALUES: dict[tuple[str, str], dict[str, str]] = {
    ("algo", "name"): {"matrix": "ctmc", "reward": "reward_tuning"},
    ("algo", "stage"): {"middle": "latent_model"},
    ("algo", "time_sampling"): {"forced_mask": "uniform_count"},
    ("algo", "train_on"): {"exact": "all_calls"},
    ("data", "name"): {"tokens": "token_files", "eit-levels": "eit_quantised"},
    ("model", "name"): {"get_region_literal": "get_region_as_published"},
    ("sampling", "grid"): {"squared": "quadratic"},
    ("sampling", "order"): {"max-probability": "top_probability"},
}
"""Choices of a key, with their new names."""

REMOVED_SAMPLERS = {"speculative": "first-hitting"}
"""Samplers that were removed, with those that stand in for them."""

CHOICES = {
    "sampling": REMOVED_SAMPLERS,
    "optim": {"own": "custom"},
    "debug": {"default": "smoke"},
    "experiment": {
        "real_plans": "plans_small",
        "bubble_mdlm": "plans_full",
        "bubble_told": "plans_conditional",
        "large_plans": "plans_large",
        "get_region_literal": "get_region_as_published",
    },
}
"""Choices of groups that no checkpoint keeps, with their new names."""


def with_stand_ins(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a config, with another sampler in place of a removed one."""
    sampling = config.get("sampling")
    if not isinstance(sampling, Mapping) or str(sampling.get("name")) not in REMOVED_SAMPLERS:
        return dict(config)
    name = str(sampling["name"])
    logger.warning("sampling=%s was removed; %s stands in for it", name, REMOVED_SAMPLERS[name])
    stand_in = shipped_config("sampling", REMOVED_SAMPLERS[name])
    kept = {key: sampling[key] for key in stand_in.keys() & sampling.keys() - {"name"}}
    return {**config, "sampling": {**stand_in, **kept}}


def with_new_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Copy of a config of format 1 whose keys and choices have the names of format 2.

    Settings of parts from plug-ins stay unchanged."""
    renamed = {GROUPS.get(key, key): value for key, value in config.items()}
    for group, keys in KEYS.items():
        values = renamed.get(group)
        kept = _kept_keys(group, renamed)
        if not isinstance(values, Mapping) or kept is None:
            continue
        # a student's way of training is no time sampling
        if group == "algo" and values.get("name") == "distill":
            keys = {**keys, "draw": "train_on"}
        values = {key if key in kept else keys.get(key, key): values[key] for key in values}
        for key, value in values.items():
            choices = VALUES.get((group, key), {})
            values[key] = choices.get(value, value) if isinstance(value, str) else value
        renamed[group] = values
    return renamed


def new_name(key: str) -> str | None:
    """New name of a config key such as ``sampling.budget``, or of a choice such as ``algo=matrix``;
    None if it has none."""
    # a choice
    group, is_choice, choice = key.partition("=")
    if is_choice:
        found = CHOICES.get(group, VALUES.get((group, "name"), {})).get(choice)
        return None if found is None else f"{group}={found}"
    # a key of a section, or at the top
    section, _, name = key.rpartition(".")
    if not section:
        return GROUPS.get(name) or KEYS_OF_COMMANDS.get(name)
    present = GROUPS.get(section, section)
    found = f"{present}.{KEYS.get(present, {}).get(name, name)}"
    return None if found == key else found


def _kept_keys(group: str, config: Mapping[str, Any]) -> set[str] | None:
    """Keys that the shipped configs of a group's part have today, which keep their names.

    None if no config is shipped of the part, as of one from a plug-in."""
    values = config.get(group)
    part = values if isinstance(values, Mapping) else {}
    if group in ("eval", "init"):
        return set()
    if group == "model":
        algo = config.get("algo")
        names = presets_of(algo.get("backbone", "")) if isinstance(algo, Mapping) else []
    elif group == "data":
        domain = part.get("domain")
        names = [n for n in shipped_files(group) if shipped_config(group, n)["domain"] == domain]
    else:
        name = VALUES.get((group, "name"), {}).get(part.get("name", ""), part.get("name"))
        names = [name] if name in shipped_files(group) else []
    return {key for name in names for key in shipped_config(group, name)} if names else None
