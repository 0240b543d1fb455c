"""Backbones by name.

A *builder* takes the composed config and the vocabulary size V and returns a module that maps
``(x_t Int[B, L], sigma Float[B] or None)`` to logits Float[B, L, V]. For features it takes their
number M, and the module maps rows Float[B, N, M] to rows; for fields it takes the number of
channels C, and the module maps images Float[B, C, H, W] to images. ``models/calling.py`` describes
the call of the module. Three ways to add a builder:

* decorate it: ``@register_backbone("mine")``;
* ship it: an entry point of the group ``discrete_diffusion.backbones`` in an installed package;
* in a checkout, enter it in ``_BACKBONE_BUILDERS``, which may also override a built-in name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.constructors import check_scaling
from discrete_diffusion.config.plugins import LazyEntry, Registry, place_of

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import nn

    Builder = Callable[[DictConfig, int], nn.Module]

STATES = ("tokens", "features", "field", "latent")
"""Ids per position, rows of numbers, images, latent vectors: data, algorithm and backbone agree."""

_MISTAKES = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""Errors of a user's builder that are reported in one sentence."""

_BACKBONE_BUILDERS: dict[str, Builder | LazyEntry] = {
    # "my-network": _build_my_network,
}
BACKBONES: Registry[Builder] = Registry(
    "backbone", "discrete_diffusion.backbones", _BACKBONE_BUILDERS
)
_REGISTERED: dict[str, tuple[Builder, BackboneSpec]] = {}


@dataclass(frozen=True)
class BackboneSpec:
    """Properties of a backbone, as ``register_backbone`` takes them."""

    name: str
    state: str = "tokens"
    causal: bool = False
    conditions: tuple[str, ...] | None = None
    default_model: str | Mapping[str, Any] | None = None
    graph: bool = False
    read_config: Callable[..., str] | None = None

    @property
    def preset(self) -> str | None:
        """Name of the default preset: that of the backbone if the preset is given by its keys."""
        given = self.default_model
        return given if given is None or isinstance(given, str) else self.name

    def offers(self, needs: Iterable[str]) -> bool:
        """Return True if the backbone meets all needs: ``causal``, or names of conditions."""
        return {*needs} <= {*(self.conditions or ()), *(("causal",) if self.causal else ())}


def register_backbone(
    name: str,
    *,
    state: str = "tokens",
    causal: bool = False,
    conditions: tuple[str, ...] | None = None,
    default_model: str | Mapping[str, Any] | None = None,
    graph: bool = False,
    read_config: Callable[..., str] | None = None,
) -> Callable[[Builder], Builder]:
    """Make a builder known by name, as a decorator; the other arguments describe its network.

        @register_backbone("mine", default_model={"width": 64, "scales_with": "width"})
        def build(config, vocab_size):
            return MyNetwork(vocab_size, width=config.model.width)

    ``scales_with`` names the key that ``compare`` changes for a number of parameters.

    Args:
        name: the name that ``algo.backbone`` takes.
        state: the state of x_t (one of ``STATES``).
        causal: whether it honours ``algo.causal_attention``.
        conditions: names of the tensors its ``forward`` takes in addition to x_t and sigma; None:
            those that its signature names, once it is built.
        default_model: the model preset it takes if none is chosen: its name, or its keys, which
            ``model.KEY=`` then changes.
        graph: whether it reads graphs, data with a ``VocabConfig``, and nothing else.
        read_config: function ``(path, download=...)`` that returns ``model.config``, the text
            that describes the network in ``model.path``. Training keeps it, and a checkpoint is
            read without the path.

    Returns:
        The decorator, which returns the builder unchanged.

    Raises:
        ValueError: another builder has the name, ``state`` is unknown, or ``default_model`` scales
            with a key that does not hold a whole number.
    """
    # mistakes of the call, before anything is registered
    if state not in STATES:
        raise ValueError(f"state={state!r} of backbone {name!r}: expected one of {STATES}")
    if isinstance(default_model, Mapping):
        check_scaling(f"default_model of backbone {name!r}", default_model)

    def register(builder: Builder) -> Builder:
        BACKBONES.register(name)(builder)
        named = None if conditions is None else tuple(conditions)
        spec = BackboneSpec(name, state, causal, named, default_model, graph, read_config)
        _REGISTERED[name] = (builder, spec)
        return builder

    return register


def available_backbones() -> list[str]:
    """Names of all backbones, plug-ins included, sorted."""
    return sorted(BACKBONES.names())


def backbone_spec(name: str) -> BackboneSpec:
    """Spec of a backbone; the default spec if its builder was registered without a spec."""
    BACKBONES.entry(name)
    builder, spec = _REGISTERED.get(name, (None, None))
    if spec is None or builder is not _BACKBONE_BUILDERS[name]:
        return BackboneSpec(name)
    return spec


def config_reader(config: Mapping[str, Any]) -> Callable[..., str] | None:
    """``read_config`` of the backbone of a config; None without one, or for an unknown name."""
    name = str((config.get("algo") or {}).get("backbone"))
    known = name in BACKBONES.builders or name in BACKBONES.names()
    return backbone_spec(name).read_config if known else None


def default_models() -> dict[str, dict[str, Any]]:
    """Keys of the model presets that backbones were registered with, by name of the backbone."""
    specs = [backbone_spec(name) for name in _REGISTERED if name in _BACKBONE_BUILDERS]
    return {
        spec.name: {"name": spec.name, "backbones": [spec.name], **spec.default_model}
        for spec in specs
        if isinstance(spec.default_model, Mapping)
    }


def usable_backbones(needs: Iterable[str], state: str = "tokens") -> list[str]:
    """Sorted names of the backbones that work on a state and meet all needs of an algorithm."""
    specs = [backbone_spec(name) for name in available_backbones()]
    return [spec.name for spec in specs if spec.state == state and spec.offers(needs)]


def build_backbone(config: DictConfig, vocab_size: int) -> nn.Module:
    """Build the backbone that ``config.algo.backbone`` names.

    Args:
        config: a composed config; the builder reads ``model``, ``algo`` and ``data``.
        vocab_size: V for tokens, the number of features, or the channels of a field.

    Returns:
        The network, with random weights.

    Raises:
        ValueError: the name is unknown, the model preset lacks a key that the builder reads,
            ``algo.causal_attention`` is set for a backbone that is not causal, the builder fails,
            with file and line, or ``forward`` cannot be called (``models/calling.py``).
        TypeError: the builder raises one, or does not return a network; with file and line.
    """
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

    # the name and what it must offer
    algo = config.get("algo") or {}
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

    # errors of a user's builder get its place; those of the package name key and remedy already
    is_built_in = isinstance(_BACKBONE_BUILDERS[name], LazyEntry)
    try:
        backbone = BACKBONES.find(name)(config, vocab_size)
    except (ConfigAttributeError, ConfigKeyError) as error:
        key = str(error.full_key)
        if not key.startswith("model."):
            raise
        preset = (config.get("model") or {}).get("name")
        raise ValueError(
            f"backbone {name!r} reads {key}, which {f'model={preset}' if preset else 'the config'} "
            "does not have; give model=NAME, a preset made for it, or "
            f"+{key}=..., or register it with its sizes: "
            f"register_backbone({name!r}, default_model={{{key[6:]!r}: ...}})"
        ) from error
    except _MISTAKES as error:
        if is_built_in:
            raise
        raise _build_error(name, error) from error
    # a network with a readable call
    _check_built(name, backbone)
    if spec.state != "latent":
        from discrete_diffusion.models.calling import BackboneCall

        BackboneCall.of(backbone)
    # a user's network is left unchanged
    if not is_built_in:
        return backbone
    from discrete_diffusion.models.acceleration import tuned

    return tuned(backbone)


def _build_error(name: str, error: Exception) -> Exception:
    """Error of a user's builder, with the name of its backbone, file and line."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    reason = str(error) if isinstance(error, kind) else f"{type(error).__name__}: {error}"
    remedy = "a builder takes (config, vocab_size) and returns a network"
    return kind(
        f"backbone {name!r} cannot be built: {reason} ({place_of(error) or _builder_place(name)})"
        + f"; {remedy}" * (kind is TypeError)
    )


def _check_built(name: str, backbone: Any) -> None:
    """Raise ``TypeError`` if a builder returned something other than a network."""
    from torch import nn

    # a class, or a missing return, gets a remedy
    if not isinstance(backbone, nn.Module):
        is_class = isinstance(backbone, type)
        got = f"the class {backbone.__name__}" if is_class else repr(backbone)
        remedy = "; call the class" if is_class else "; is return missing?" * (backbone is None)
        raise TypeError(
            f"the builder of backbone {name!r} ({_builder_place(name)}) returned {got}; expected a "
            f"network, an nn.Module{remedy}"
        )


def _builder_place(name: str) -> str:
    """``FILE, line N`` where a builder begins; for a class, its ``__init__``."""
    builder: Any = unwrap(BACKBONES.find(name))
    code = getattr(vars(builder).get("__init__", builder), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code else repr(builder)


def _register_built_in(name: str, conditions: tuple[str, ...] = (), **spec: Any) -> None:
    """Register a builder of this package, unless ``_BACKBONE_BUILDERS`` has the name already."""
    if name not in _BACKBONE_BUILDERS:
        builder = f"discrete_diffusion.building.backbones:build_{name.replace('-', '_')}"
        register_backbone(name, conditions=conditions, **spec)(LazyEntry(builder))


for _name, _preset in (("bd-denoiser", "bd_small"), ("bd-denoiser-pair", "bd_pair_small")):
    _register_built_in(_name, ("condition", "keep"), default_model=_preset, graph=True)
_register_built_in(
    "dit",
    ("group_idxs", "context", "cache", "document_idxs"),
    causal=True,
    default_model="dit_small",
)
_register_built_in("my-transformer", default_model="my_transformer_small")
_register_built_in(
    "transformers",
    default_model="transformers",
    read_config=LazyEntry("discrete_diffusion.models.transformers_backbone:read_network_config"),
)
