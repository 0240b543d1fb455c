"""What a model is told of plans: as numbers, from data and from briefs."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from shapely import box, union_all
from torch import nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import build_data
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, build_sampler
from floor_plans.briefs.brief_request import condition_of
from floor_plans.briefs.reading import brief_of
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.procedural.generator import generate_plans
from floor_plans.diagrams.tokens import encode
from floor_plans.diagrams.vocabulary import CELL, GRID, ROOM_GROUPS, ROOM_TYPES
from floor_plans.learning.build import DiagramDataset
from floor_plans.learning.conditions import _HALF_A_WALL, Facts
from floor_plans.learning.evaluation import _derangement, measure_conditioning
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import fill_gaps

PLANS = generate_plans(60, seed=3)
ALL = ["num_rooms", "counts", "area", "outline", "front_door"]


def facts_of(*names: str) -> Facts:
    found = Facts.of({"condition_on": [*names]}, VOCAB)
    assert found is not None
    return found


def parts(facts: Facts, numbers: torch.Tensor) -> list[torch.Tensor]:
    assert numbers.shape[1] == sum(facts.sizes_of(*facts.names))
    return list(numbers.split(facts.sizes_of(*facts.names), dim=1))


def test_none_are_told_unless_asked_for():
    assert Facts.of({}, VOCAB) is None
    assert Facts.of({"condition_on": None}, VOCAB) is None
    with pytest.raises(ValueError, match=r"data\.condition.*count.*counts"):
        facts_of("count")


def test_rooms_are_counted_by_type_and_by_group():
    facts, graphs = facts_of("num_rooms", "counts"), encode(PLANS)
    sizes, *counts = parts(facts, facts.graph_facts(graphs))
    assert sizes.argmax(dim=1).tolist() == [plan.num_rooms for plan in PLANS]
    for name, found in zip(facts.kinds, counts, strict=True):
        types = ROOM_GROUPS.get(name, (name,))
        expected = [sum(ROOM_TYPES[r] in types for r in plan.rooms) for plan in PLANS]
        assert found.argmax(dim=1).tolist() == expected
        assert torch.equal(found.sum(dim=1), torch.ones(len(PLANS)))
    assert [*facts.kinds][-1] == "Bedroom"


def test_plans_are_measured_in_metres():
    facts = facts_of("area", "outline")
    area, outline = parts(facts, facts.plan_facts(PLANS, "pixels"))
    for plan, found, cells in zip(PLANS, area, outline, strict=True):
        rooms = union_all(FloorPlan.of(plan, "pixels").boxes)
        assert rooms.area <= 100 * float(found) + 1e-3 <= box(*rooms.bounds).area + 1e-2
        x0, y0, x1, y1 = rooms.bounds
        assert cells[-2:].tolist() == pytest.approx([(x1 - x0) / 10, (y1 - y0) / 10], rel=1e-5)
        covered = float(cells[:-2].sum()) * CELL**2
        assert covered == pytest.approx(100 * float(found), abs=2 * (x1 - x0 + y1 - y0) * CELL)


def test_an_outline_is_seen_from_above():
    """The missing corner of an L at the lower right, y downwards."""
    corners = [[0, 0], [8, 0], [8, 4], [4, 4], [4, 8], [0, 8]]
    facts = facts_of("outline")
    told = condition_of(brief_of({"num_rooms": 5, "outline": corners}), facts)
    cells = told[0, :-2].view(GRID, GRID)
    first, middle = GRID // 2 - 4, GRID // 2
    expected = torch.zeros(GRID, GRID)
    expected[first : first + 8, first:middle] = 1
    expected[first:middle, first : first + 8] = 1
    assert torch.equal(cells, expected)


def test_doors_are_told_of_plans_that_have_one():
    front = {"rooms": [0, "outside"], "from": [0, 1], "to": [0, 2]}
    boxes = ((0.0, 0.0, 4.0, 4.0), (4.0, 0.0, 8.0, 4.0))
    metadata = {"unit": "metres", "doors": [front]}
    plan = BubbleDiagram((0, 2), ((0, 1, 0),), boxes, metadata)
    without = BubbleDiagram((0, 2), ((0, 1, 0),), boxes, {"unit": "metres"})
    bare = BubbleDiagram((0, 2), ((0, 1, 0),))
    facts = facts_of("front_door", "area")
    area, door = parts(facts, facts.plan_facts([plan, without, bare], "pixels"))
    assert door[0].tolist() == pytest.approx([-0.4, -0.05])
    assert door[1:].isnan().all()
    assert area[:2].tolist() == [[pytest.approx(0.32)]] * 2
    assert area[2].isnan()


def test_a_brief_tells_what_it_says_exactly():
    facts = facts_of(*ALL)
    asked = {"num_rooms": "5-7", "rooms": {"Bedroom": 3, "Kitchen": 1, "Bathroom": "at least 2"}}
    numbers = condition_of(brief_of(asked), facts)
    size, *counts = parts(facts, numbers)[: 1 + len(facts.kinds)]
    known = {
        name: int(found.argmax())
        for name, found in zip(facts.kinds, counts, strict=True)
        if not found.isnan().any()
    }
    assert known == {"Bedroom": 3, "Kitchen": 1}
    assert size.isnan().all()
    assert all(each.isnan().all() for each in parts(facts, numbers)[1 + len(facts.kinds) :])


def test_a_brief_of_a_plan_tells_what_its_data_does():
    """A plan whose outline is a polygon without a hole, as a brief gives it."""
    facts = facts_of(*ALL[:4])
    rooms = [union_all(FloorPlan.of(plan, "pixels").boxes) for plan in PLANS]
    outlines = [fill_gaps(each, _HALF_A_WALL) for each in rooms]
    plan, outline = next(
        (plan, shape)
        for plan, shape in zip(PLANS, outlines, strict=True)
        if shape.geom_type == "Polygon" and not shape.interiors
    )
    graphs = encode([plan])
    data = torch.cat(
        [facts_of(*ALL[:2]).graph_facts(graphs), facts.plan_facts([plan], "pixels")], 1
    )
    rooms = Counter(ROOM_TYPES[room] for room in plan.rooms)
    asked = {
        "num_rooms": plan.num_rooms,
        "rooms": {name: rooms.get(name, 0) for name in facts.kinds if name not in ROOM_GROUPS},
        "area": outline.area,
        "outline": [[*corner] for corner in outline.exterior.coords[:-1]],
    }
    asked["rooms"]["Bedroom"] = sum(rooms.get(name, 0) for name in ROOM_GROUPS["Bedroom"])
    torch.testing.assert_close(condition_of(brief_of(asked), facts), data)


@pytest.mark.parametrize("node_order", ["random", "canonical"])
def test_every_batch_of_a_data_set_has_them(node_order):
    facts = facts_of("num_rooms", "counts")
    graphs = encode(PLANS)
    splits = {"train": graphs[:40], "val": graphs[40:50], "test": graphs[50:]}
    data = DiagramDataset(splits, VOCAB, node_order=node_order, symmetry="mirror", facts=facts)
    examples = data.splits["train"]
    assert len(examples) > 40
    batch = data.augment(examples, torch.Generator().manual_seed(0))
    sizes = batch.conditions["condition"][:, : VOCAB.n_max + 1].argmax(dim=1)
    assert torch.equal(sizes, batch.real[:, : VOCAB.n_max].sum(dim=1))
    plain = DiagramDataset(splits, VOCAB, node_order=node_order, symmetry="mirror")
    assert data.fingerprint() != plain.fingerprint()
    assert not plain.splits["train"].conditions


def test_facts_of_plans_stay_with_their_graphs():
    facts = facts_of("area")
    graphs, numbers = encode(PLANS), facts.plan_facts(PLANS, "pixels")
    graphs = type(graphs)(graphs.x0, graphs.real, graphs.num_nodes, numbers)
    splits = {"train": graphs[:40], "val": graphs[40:50], "test": graphs[50:]}
    data = DiagramDataset(splits, VOCAB, node_order="canonical", facts=facts)
    assert torch.equal(data.splits["test"].conditions["condition"], numbers[50:])
    chosen = data.splits["train"][torch.tensor([7, 3])]
    assert torch.equal(chosen.conditions["condition"], numbers[[7, 3]])


def test_facts_of_generated_plans_are_measured_once(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path))

    def told(names):
        data = build_data(compose("train", ["data.num_plans=40", f"data.condition_on=[{names}]"]))
        return torch.cat([data.splits[k].conditions["condition"] for k in ("train", "val")])

    first, area = told("area,outline"), told("area")
    assert torch.equal(area, first[:, :1])
    monkeypatch.setattr(Facts, "plan_facts", None)
    assert torch.equal(told("area,outline"), first)


def test_a_fact_that_no_plan_has_is_refused_and_a_rare_one_counted(caplog):
    facts, graphs = facts_of("area"), encode(PLANS)
    unknown = torch.full((len(PLANS), 1), torch.nan)
    build = type(graphs)
    with pytest.raises(ValueError, match=r"data\.condition.*area"):
        facts.check_known(build(graphs.x0, graphs.real, graphs.num_nodes, unknown))
    unknown[0] = 1.0
    facts.check_known(build(graphs.x0, graphs.real, graphs.num_nodes, unknown))
    assert f"area of {len(PLANS) - 1} of {len(PLANS)} training plans" in caplog.text


HELD_OUT = generate_plans(40, seed=5)


class Knowing(nn.Module):
    """Says the first plan that has all facts it is told; of none nothing."""

    def __init__(self, x0: torch.Tensor, condition: torch.Tensor) -> None:
        super().__init__()
        self.x0, self.condition = x0, condition

    def forward(self, x_t, sigma=None, condition=None, keep=None):
        fits = (condition[:, None].isnan() | (condition[:, None] == self.condition)).all(dim=2)
        if keep is not None:
            fits = fits | ~keep[:, None]
        plan = self.x0[fits.int().argmax(dim=1)]
        said = 60.0 * nn.functional.one_hot(plan, VOCAB.vocab_size)
        return said * fits.any(dim=1)[:, None, None]


def measured(*names: str):
    facts = Facts.of({"condition_on": [*names]}, VOCAB)
    graphs = encode(HELD_OUT)
    numbers = facts.plan_facts(HELD_OUT, "pixels") if facts.plan_names else None
    graphs = type(graphs)(graphs.x0, graphs.real, graphs.num_nodes, numbers)
    data = DiagramDataset(
        {"train": graphs[:1], "val": graphs[:0], "test": graphs},
        VOCAB,
        node_order="canonical",
        facts=facts,
    )
    test = data.splits["test"]
    process = Absorbing(VOCAB.layout(), LogLinear())
    network = Knowing(test.x0, test.conditions["condition"])
    model = Model(
        MDLM(network, process, condition_dropout=0.1), build_sampler({"name": "first-hitting"})
    )
    return measure_conditioning(model, data, "test", seed=0)


@pytest.mark.slow
def test_right_facts_say_which_plan_it_is_and_wrong_ones_cost():
    found = measured("num_rooms", "counts", "area", "outline")
    assert found.num == len(HELD_OUT)
    assert [*found.more] == [
        "told nothing",
        *(
            f"{what} {name}{of}"
            for name in ("num_rooms", "counts", "area", "outline")
            for what, of in (("not told its", ""), ("told the", " of another"))
        ),
    ]
    nats = {name: mean for name, (mean, _) in found.more.items()}
    assert nats["not told its area"] == pytest.approx(0, abs=1e-3)  # the outline says it
    assert nats["told nothing"] > 5
    assert nats["told the outline of another"] > 5
    assert found.obeyed == {1.0: 1.0, 2.0: 1.0}
    assert found.as_dict()["obeyed_at_guidance_2"] == 1.0
    assert len(found.section().rows) == len(found.more) + 2


def test_a_model_that_is_told_no_counts_has_none_to_obey():
    assert measured("outline").obeyed == {}


def test_another_is_never_itself():
    for num in (2, 7, 40):
        other = _derangement(num, seed=0)
        assert (other != torch.arange(num)).all()
        assert other.sort().values.tolist() == list(range(num))
