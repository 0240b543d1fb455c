"""Names that users add to the registries: every noun is open in the same three ways."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

from discrete_diffusion.algorithms import ALGORITHMS, MDLM, register_algorithm
from discrete_diffusion.algorithms import registry as algorithms
from discrete_diffusion.algorithms.registry import algorithms_on
from discrete_diffusion.cli.listing import print_listing
from discrete_diffusion.config.plugins import LazyEntry, Registry, import_plugins
from discrete_diffusion.domains import Domain
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.forward_process import Uniform, register_forward_process
from discrete_diffusion.forward_process import registry as forward_process
from discrete_diffusion.forward_process.registry import PROCESSES, build_forward_process
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.registry import backbone_builder
from discrete_diffusion.noise_schedules import LogLinear, register_noise_schedule
from discrete_diffusion.noise_schedules import registry as noise_schedules
from discrete_diffusion.noise_schedules.registry import SCHEDULES, build_schedule
from discrete_diffusion.sampling import FirstHitting, build_sampler, register_sampler
from discrete_diffusion.sampling import registry as sampling
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state
from fake_packages import fake_install

pytestmark = pytest.mark.usefixtures("clean_registry")

OF_ALGORITHMS = {
    "state": "tokens",
    "processes": (),
    "any_process": False,
    "learns_schedule": False,
    "samplers": None,
    "backbone_needs": (),
    "discrete_time": False,
    "has_teacher": False,
}
OF_SAMPLERS = {
    "state": "tokens",
    "absorbing_only": False,
    "continuous_time_only": False,
    "algorithms": None,
}
"""What is asked for before a class is imported, and what it is where nothing is declared."""

REGISTRIES = [
    pytest.param(ALGORITHMS, "mdlm", MDLM, id="algorithms"),
    pytest.param(SAMPLERS, "first-hitting", FirstHitting, id="samplers"),
    pytest.param(SCHEDULES, "log_linear", LogLinear, id="noise schedules"),
    pytest.param(PROCESSES, "uniform", Uniform, id="forward processes"),
]

PARTS = {
    "backbone": """
from torch.nn import Embedding
from discrete_diffusion.models.registry import register_backbone
@register_backbone("mine-xyz")
def Mine(config, vocab_size):
    return Embedding(vocab_size, vocab_size)
""",
    "algorithm": """
from discrete_diffusion.algorithms import MDLM, register_algorithm
@register_algorithm("mine-xyz")
class Mine(MDLM):
    name = "mine-xyz"
""",
    "forward process": """
from discrete_diffusion.forward_process import Uniform, register_forward_process
@register_forward_process("mine-xyz")
class Mine(Uniform):
    name = "mine-xyz"
""",
    "noise schedule": """
from discrete_diffusion.noise_schedules import LogLinear, register_noise_schedule
@register_noise_schedule("mine-xyz")
class Mine(LogLinear):
    pass
""",
    "sampler": """
from discrete_diffusion.sampling import FirstHitting, register_sampler
@register_sampler("mine-xyz")
class Mine(FirstHitting):
    name = "mine-xyz"
""",
    "domain": """
from discrete_diffusion.domains import register_domain
from floor_plans.domain import BubbleDiagrams
@register_domain
class Mine(BubbleDiagrams):
    name, data_sets = "mine-xyz", {"mine-xyz": "tokens"}
""",
}
"""Modules that register a part of each noun."""
GROUPS = {
    "backbone": "discrete_diffusion.backbones",
    "algorithm": "discrete_diffusion.algorithms",
    "forward process": "discrete_diffusion.forward_processes",
    "noise schedule": "discrete_diffusion.noise_schedules",
    "sampler": "discrete_diffusion.samplers",
    "domain": "discrete_diffusion.domains",
}
FIND = {
    "backbone": backbone_builder,
    "algorithm": ALGORITHMS.find,
    "forward process": PROCESSES.find,
    "noise schedule": SCHEDULES.find,
    "sampler": SAMPLERS.find,
    "domain": lambda name: type(get_domain(name)),
}


def test_methods_of_domains_that_are_imported_later_take_what_they_are_given():
    found = set()
    for name in available_domains():
        for method, entry in vars(type(get_domain(name))).items():
            if isinstance(entry, LazyEntry):
                given = [*inspect.signature(getattr(Domain, method)).parameters][1:]
                inspect.signature(entry.load()).bind(*given)
                found.add(method)
    assert {"build", "report", "sample", "evaluate", "cell_measurement"} <= found


def code(registry: Registry, base: type) -> str:
    """A module that registers a class of its own, ``mine``, and has another, ``Plain``."""
    package = registry.group.replace("samplers", "sampling").replace("processes", "process")
    decorator = f"register_{registry.noun.replace(' ', '_')}"
    return (
        f"from {package} import {base.__name__}, {decorator}\n"
        f"@{decorator}('mine')\nclass Mine({base.__name__}):\n    pass\n"
        f"class Plain({base.__name__}):\n    pass\n"
    )


@pytest.mark.parametrize("way", ["decorator", "plugins", "entry point"])
@pytest.mark.parametrize("noun", PARTS)
def test_every_noun_is_open_in_three_ways(noun, way, site, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(ValueError, match=f"^unknown {noun} 'mine-xyz'"):
        FIND[noun]("mine-xyz")
    if way == "decorator":
        scope = {"__name__": "notebook"}
        exec(PARTS[noun], scope)
        found = scope["Mine"]
    elif way == "plugins":
        (tmp_path / "my_own_part.py").write_text(PARTS[noun])
        import_plugins(["my_own_part"])
        found = sys.modules["my_own_part"].Mine
    else:
        fake_install(site, "their_part", PARTS[noun], GROUPS[noun], {"any": "their_part"})
        found = FIND[noun]("mine-xyz") and sys.modules["their_part"].Mine
    assert FIND[noun]("mine-xyz") is found
    print_listing()
    rows = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert ["mine-xyz"] in rows


def test_registered_classes_are_used():
    register_algorithm("mine")(MDLM)
    register_forward_process("mine")(Uniform)
    register_sampler("mine")(FirstHitting)
    register_noise_schedule("mine")(LogLinear)
    assert "mine" in algorithms_on("tokens")
    assert isinstance(build_sampler({"name": "mine"}), FirstHitting)
    layout = RPLAN_VOCAB_CONFIG.layout()
    schedule = build_schedule({"name": "mine"}, layout)
    assert isinstance(schedule, LogLinear)
    assert isinstance(build_forward_process({"name": "mine"}, layout, schedule), Uniform)


@pytest.mark.parametrize(("registry", "built_in", "base"), REGISTRIES)
def test_a_name_has_one_builder_which_may_be_registered_again(registry, built_in, base):
    scope = {"__name__": "notebook"}
    for _ in range(2):  # a cell that is run twice makes two classes
        exec(code(registry, base), scope)
    assert registry.find("mine") is scope["Mine"]
    taken = f"^{registry.noun} '{built_in}' is already registered by discrete_diffusion.*; choose"
    with pytest.raises(ValueError, match=taken):
        registry.register(built_in)(scope["Plain"])
    assert registry.find(built_in) is base


@pytest.mark.parametrize(("registry", "built_in", "base"), REGISTRIES)
def test_plug_ins_of_packages_load_when_a_name_is_unknown(site, caplog, registry, built_in, base):
    fake_install(site, "good", code(registry, base), registry.group, {"plain": "good:Plain"})
    fake_install(site, "bad", "import no_such_library\n", registry.group, {"broken": "bad"})
    assert registry.find(built_in) is base
    assert "good" not in sys.modules
    warned = f"{registry.noun} plug-in 'broken' .*, from bad\\) was left out: ModuleNotFoundError"
    with pytest.raises(ValueError, match=f"^unknown {registry.noun} 'plian'; did you mean 'plain'"):
        registry.find("plian")
    assert re.search(warned, caplog.text, re.MULTILINE)
    assert registry.find("plain") is sys.modules["good"].Plain
    assert {"mine", "plain"} <= registry.all().keys()


@pytest.mark.parametrize(
    ("registry", "table", "facts"),
    [
        (ALGORITHMS, algorithms._BUILT_IN, OF_ALGORITHMS),
        (SAMPLERS, sampling._BUILT_IN, OF_SAMPLERS),
        (PROCESSES, forward_process._BUILT_IN, {"absorbing": False}),
        (SCHEDULES, noise_schedules._BUILT_IN, {"learned": False}),
    ],
)
def test_what_is_declared_of_a_class_is_so(registry, table, facts):
    assert {*table} <= {*registry.names()}
    for name in registry.names():
        declared, built = registry.entry(name), registry.find(name)
        assert getattr(built, "name", name) == name  # schedules have none
        for fact, default in facts.items():
            assert getattr(declared, fact, default) == getattr(built, fact, default), (name, fact)


def test_a_sampler_of_a_package_is_listed_with_its_state(site):
    module = code(SAMPLERS, FirstHitting)
    fake_install(site, "good", module, SAMPLERS.group, {"plain": "good:Plain"})
    assert sampler_state("row-ancestral") == "features"
    assert "good" not in sys.modules
    assert sampler_state("plain") == "tokens"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raise RuntimeError", "RuntimeError"),
        ("import json; json.loads('{')", "JSONDecodeError: Expecting property name .*"),
        ("def (:", "SyntaxError: invalid syntax"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_reason_file_and_line(site, text, reason):
    (site / "user_module.py").write_text(f"import torch\n\n{text}\n")
    place = rf"\({re.escape(str(site / 'user_module.py'))}, line 3\)$"
    with pytest.raises(
        ValueError, match=f"^plugins: user_module cannot be imported: {reason} {place}"
    ):
        import_plugins(["user_module"])


def test_a_module_that_is_not_there_is_named_with_where_to_put_it():
    with pytest.raises(ValueError, match=r"No module named 'user_module'; name a module that is i"):
        import_plugins(["user_module"])


@pytest.mark.parametrize("modules", ["my_module", 3, [3], {"my": "module"}, False])
def test_plugins_are_a_list_of_names(modules):
    with pytest.raises(ValueError, match=r"^plugins=.*: expected a list, as in plugins=\[my_pack"):
        import_plugins(modules)


def test_no_plugins_leave_the_path_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import_plugins(None)
    import_plugins([])
    assert str(tmp_path) not in sys.path
