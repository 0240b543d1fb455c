"""Backbones by name.

A *builder* takes the composed config and the vocabulary size and returns a module that maps
``(x_t Int[B, L], sigma Float[B] or None)`` to logits Float[B, L, V]. Three ways to add one:

* decorate it: ``@register_backbone("mine")``;
* assign it: ``_BACKBONE_BUILDERS["mine"] = build_mine``;
* ship it: an entry point of the group ``discrete_diffusion.backbones`` in an installed package.

Builders are the only place where a config turns into constructor arguments. They import their
classes when called, so that a misspelt name is refused before torch is loaded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    Builder = Callable[[DictConfig, int], nn.Module]

ENTRY_POINT_GROUP = "discrete_diffusion.backbones"
STATES = ("tokens", "features", "field", "latent")

_BACKBONE_BUILDERS: dict[str, Builder] = {}
_REGISTERED: dict[str, tuple[Builder, BackboneSpec]] = {}
_LOADED_PLUGINS: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class BackboneSpec:
    """What a backbone can do, for the algorithms that have needs.

    ``state``: what x_t is (one of ``STATES``).
    ``causal``: it honours ``algo.causal_attention``.
    ``conditions``: names of the extra tensors its ``forward`` takes by keyword.
    ``default_model``: the model preset it takes if none is chosen.
    """

    name: str
    state: str = "tokens"
    causal: bool = False
    conditions: tuple[str, ...] = ()
    default_model: str | None = None

    def offers(self, needs: Iterable[str]) -> bool:
        """True if it has all of them: ``causal``, or names of conditions."""
        return {*needs} <= {*self.conditions, *(("causal",) if self.causal else ())}


def register_backbone(
    name: str,
    *,
    state: str = "tokens",
    causal: bool = False,
    conditions: tuple[str, ...] = (),
    default_model: str | None = None,
) -> Callable[[Builder], Builder]:
    """Decorator: make a builder known as ``name``; the rest describes it (``BackboneSpec``).

    Raises ``ValueError`` if another builder has the name, or ``state`` is unknown.
    """
    if state not in STATES:
        raise ValueError(f"state={state!r} of backbone {name!r}: expected one of {STATES}")

    def register(builder: Builder) -> Builder:
        known = _BACKBONE_BUILDERS.get(name)
        if known is not None and not _is_same(known, builder):
            raise ValueError(
                f"backbone {name!r} is already registered by {_origin(known)}; choose another "
                f"name, or assign _BACKBONE_BUILDERS[{name!r}] to replace it on purpose"
            )
        spec = BackboneSpec(name, state, causal, tuple(conditions), default_model)
        _BACKBONE_BUILDERS[name] = builder
        _REGISTERED[name] = (builder, spec)
        return builder

    return register


def available_backbones() -> list[str]:
    """The sorted names of all backbones, plug-ins included."""
    _load_plugins()
    return sorted(_BACKBONE_BUILDERS)


def check_backbone_name(name: str) -> None:
    """Raise ``ValueError``, with the closest match and the full list, if ``name`` is unknown."""
    if name in _BACKBONE_BUILDERS:
        return
    names = available_backbones()
    if name in names:
        return
    raise ValueError(unknown_name("backbone", name, names))


def backbone_spec(name: str) -> BackboneSpec:
    """The spec of a backbone; the default one if it was assigned without any."""
    check_backbone_name(name)
    builder, spec = _REGISTERED.get(name, (None, None))
    if spec is None or builder is not _BACKBONE_BUILDERS[name]:
        return BackboneSpec(name)
    return spec


def usable_backbones(needs: Iterable[str]) -> list[str]:
    """The sorted names of the backbones that read tokens and offer all of ``needs``."""
    specs = [backbone_spec(name) for name in available_backbones()]
    return [spec.name for spec in specs if spec.state == "tokens" and spec.offers(needs)]


def build_backbone(config: DictConfig, vocab_size: int) -> nn.Module:
    """The backbone that ``config.algo.backbone`` names.

    ``vocab_size``: V for tokens, the number of features, or the channels of a field.
    """
    algo = _section(config, "algo")
    name = algo.get("backbone")
    if not name:
        raise ValueError(
            f"algo.backbone is not set; choose one of {', '.join(available_backbones())}"
        )
    spec = backbone_spec(name)
    if algo.get("causal_attention", False) and not spec.causal:
        able = [other for other in available_backbones() if backbone_spec(other).causal]
        raise ValueError(
            f"algo.causal_attention=true, but backbone {name!r} is not causal; "
            f"choose algo.backbone={' or algo.backbone='.join(able)}"
        )
    return _BACKBONE_BUILDERS[name](config, vocab_size)


def _origin(builder: Builder) -> str:
    name = getattr(builder, "__qualname__", repr(builder))
    return f"{getattr(builder, '__module__', '?')}.{name}"


def _is_same(one: Builder, other: Builder) -> bool:
    """The same function, or the same top-level one after its module or cell ran again."""
    return one is other or (_origin(one) == _origin(other) and "<" not in _origin(one))


def _load_plugins() -> None:
    """Import the entry points that were not imported yet; a broken one warns and is left out."""
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        key = (entry_point.name, entry_point.value)
        if key in _LOADED_PLUGINS:
            continue
        _LOADED_PLUGINS.add(key)
        try:
            _load_plugin(entry_point)
        except Exception as error:  # a stranger's code: it must not take the others down
            package = entry_point.dist.name if entry_point.dist else "an unknown package"
            warnings.warn(
                f"backbone plug-in {entry_point.name!r} ({entry_point.value}, from {package}) "
                f"was left out: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _load_plugin(entry_point: EntryPoint) -> None:
    """A module registers on import; a builder takes the entry point's name if it has none yet."""
    loaded = entry_point.load()
    if isinstance(loaded, ModuleType):
        return
    if not callable(loaded):
        raise TypeError(f"expected a module or a builder, got {type(loaded).__name__}")
    if not any(builder is loaded for builder in _BACKBONE_BUILDERS.values()):
        register_backbone(entry_point.name)(loaded)


def _section(config: DictConfig, name: str) -> Any:
    """A part of the config, empty if it is not there."""
    return config.get(name) or {}


def _model_options(
    config: DictConfig, backbone: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any]:
    """Constructor arguments from ``config.model``; built-in backbones name their presets."""
    presets = f"presets that fit: {', '.join(_PRESETS[backbone])}"
    model = _section(config, "model")
    fits = model.get("backbones")
    if fits is not None and backbone not in fits:
        raise ValueError(
            f"model preset {model.get('name', '?')!r} fits {', '.join(fits)}, not {backbone!r}; "
            f"{presets}"
        )
    for key in required:
        if model.get(key) is None:
            raise ValueError(f"backbone {backbone!r} needs model.{key}; {presets}")
    return {key: model.get(key) for key in (*required, *optional) if model.get(key) is not None}


_PRESETS = {
    "bd-denoiser": ("bd_tiny", "bd_small", "bd_base"),
    "dit": ("dit_tiny", "dit_small"),
    "my-transformer": ("my_transformer_tiny", "my_transformer_small"),
}
_TOKEN_KEYS = ("hidden_size", "n_blocks", "n_heads")
_ADALN_KEYS = ("cond_dim", "mlp_ratio", "dropout", "frequency_embedding_size", "time_scale")


@register_backbone("bd-denoiser", default_model="bd_small")
def _build_bd_denoiser(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone

    options = _model_options(
        config,
        "bd-denoiser",
        required=("d_model", "n_layers", "n_heads"),
        optional=_ADALN_KEYS,
    )
    n_max = _section(config, "data").get("n_max")
    if n_max is None:
        raise ValueError(
            "backbone 'bd-denoiser' reads graphs and needs data.n_max, the largest number of "
            "nodes; for plain sequences set algo.backbone=dit or algo.backbone=my-transformer"
        )
    vocab_config = VocabConfig(n_max=n_max)
    if vocab_size != vocab_config.vocab_size:
        raise ValueError(
            f"backbone 'bd-denoiser' predicts {vocab_config.vocab_size} ids "
            f"({vocab_config.node_vocab_size} for nodes, {vocab_config.edge_vocab_size} for edges),"
            f" but the data has vocab_size={vocab_size}"
        )
    denoiser = BDDenoiser(vocab_config=vocab_config, **options)
    return BDDenoiserBackbone(
        denoiser, legal_only=_section(config, "model").get("legal_only", True)
    )


@register_backbone(
    "dit",
    causal=True,
    conditions=("group_idxs", "context", "cache"),
    default_model="dit_small",
)
def _build_dit(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import build_layout
    from discrete_diffusion.models.dit import DiT

    options = _model_options(
        config,
        "dit",
        required=_TOKEN_KEYS,
        optional=(*_ADALN_KEYS, "tie_word_embeddings"),
    )
    return DiT(
        vocab_size=vocab_size,
        causal=_section(config, "algo").get("causal_attention", False),
        pad_id=build_layout(_section(config, "data")).pad_id,
        **options,
    )


@register_backbone("my-transformer", default_model="my_transformer_small")
def _build_my_transformer(config: DictConfig, vocab_size: int) -> nn.Module:
    from discrete_diffusion.layout import build_layout
    from discrete_diffusion.models.my_transformer import MyTransformer

    layout = build_layout(_section(config, "data"))
    options = _model_options(
        config,
        "my-transformer",
        required=_TOKEN_KEYS,
        optional=("mlp_ratio", "dropout", "tie_word_embeddings"),
    )
    return MyTransformer(
        vocab_size=vocab_size,
        length=layout.length,
        pad_id=layout.pad_id,
        time_conditioning=_section(config, "algo").get("time_conditioning", True),
        **options,
    )
