"""Names that users add to the registries: every noun is open in the same three ways."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

from discrete_diffusion.algorithms import ALGORITHMS, MDLM, register_algorithm
from discrete_diffusion.algorithms.registry import algorithms_on
from discrete_diffusion.cli.listing import print_listing
from discrete_diffusion.config.plugins import LazyEntry, import_plugins
from discrete_diffusion.domains import Domain
from discrete_diffusion.domains.registry import available_domains, get_domain
from discrete_diffusion.forward_process import Uniform, register_forward_process
from discrete_diffusion.forward_process.registry import PROCESSES, build_forward_process
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.registry import BACKBONES
from discrete_diffusion.noise_schedules import LogLinear, register_noise_schedule
from discrete_diffusion.noise_schedules.registry import SCHEDULES, build_schedule
from discrete_diffusion.sampling import FirstHitting, build_sampler, register_sampler
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


def test_methods_of_domains_that_are_imported_later_take_what_they_are_given():
    found = set()
    for name in available_domains():
        for method, entry in vars(type(get_domain(name))).items():
            if isinstance(entry, LazyEntry):
                given = [*inspect.signature(getattr(Domain, method)).parameters][1:]
                inspect.signature(entry.load()).bind(*given)
                found.add(method)
    assert {"build", "report", "sample", "evaluate", "cell_measurement"} <= found


@pytest.mark.parametrize(
    ("noun", "way"),
    [*((noun, "entry point") for noun in PARTS), ("backbone", "decorator"), ("domain", "plugins")],
)
def test_every_noun_is_open_to_packages(noun, way, site, tmp_path, monkeypatch, capsys):
    find = {
        "backbone": BACKBONES.find,
        "algorithm": ALGORITHMS.find,
        "forward process": PROCESSES.find,
        "noise schedule": SCHEDULES.find,
        "sampler": SAMPLERS.find,
        "domain": lambda name: type(get_domain(name)),
    }[noun]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(ValueError, match=f"^unknown {noun} 'mine-xyz'"):
        find("mine-xyz")
    if way == "decorator":
        scope = {"__name__": "notebook"}
        exec(PARTS[noun], scope)
        found = scope["Mine"]
    elif way == "plugins":
        (tmp_path / "my_own_part.py").write_text(PARTS[noun])
        import_plugins(["my_own_part"])
        found = sys.modules["my_own_part"].Mine
    else:
        group = f"discrete_diffusion.{noun.replace(' ', '_')}s".replace("processs", "processes")
        fake_install(site, "their_part", PARTS[noun], group, {"any": "their_part"})
        found = find("mine-xyz") and sys.modules["their_part"].Mine
    assert find("mine-xyz") is found
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


SAMPLER_CODE = """
from discrete_diffusion.sampling import FirstHitting, register_sampler
@register_sampler('mine')
class Mine(FirstHitting):
    pass
class Plain(FirstHitting):
    pass
"""


def test_a_name_has_one_builder_which_may_be_registered_again():
    scope = {"__name__": "notebook"}
    for _ in range(2):  # a cell that is run twice makes two classes
        exec(SAMPLER_CODE, scope)
    assert SAMPLERS.find("mine") is scope["Mine"]
    taken = "^sampler 'first-hitting' is already registered by discrete_diffusion.*; choose"
    with pytest.raises(ValueError, match=taken):
        register_sampler("first-hitting")(scope["Plain"])
    assert SAMPLERS.find("first-hitting") is FirstHitting


def test_plug_ins_of_packages_load_when_a_name_is_unknown(site, caplog):
    fake_install(site, "good", SAMPLER_CODE, SAMPLERS.group, {"plain": "good:Plain"})
    fake_install(site, "bad", "import no_such_library\n", SAMPLERS.group, {"broken": "bad"})
    assert SAMPLERS.find("first-hitting") is FirstHitting
    assert "good" not in sys.modules
    with pytest.raises(ValueError, match=r"^unknown sampler 'plian'; did you mean 'plain'"):
        SAMPLERS.find("plian")
    warned = r"sampler plug-in 'broken' .*, from bad\) was left out: ModuleNotFoundError"
    assert re.search(warned, caplog.text)
    assert SAMPLERS.find("plain") is sys.modules["good"].Plain
    assert {"mine", "plain"} <= SAMPLERS.all().keys()


@pytest.mark.parametrize(
    ("registry", "facts"),
    [
        (ALGORITHMS, OF_ALGORITHMS),
        (SAMPLERS, OF_SAMPLERS),
        (PROCESSES, {"absorbing": False}),
        (SCHEDULES, {"learned": False}),
    ],
)
def test_what_is_declared_of_a_class_is_so(registry, facts):
    for name in registry.names():
        declared, built = registry.entry(name), registry.find(name)
        assert getattr(built, "name", name) == name  # schedules have none
        for fact, default in facts.items():
            assert getattr(declared, fact, default) == getattr(built, fact, default), (name, fact)


def test_a_sampler_of_a_package_is_listed_with_its_state(site):
    fake_install(site, "good", SAMPLER_CODE, SAMPLERS.group, {"plain": "good:Plain"})
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
