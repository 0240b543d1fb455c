"""Summaries of models on equal terms: the same pairs, what their dialogues are worth, baselines."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from continuous_states.dialogue.comparing import (
    DialogueCells,
    held_out_summary_bounds,
    score_summaries_of,
    summaries_side_by_side,
)
from continuous_states.dialogue.dataset import DialogueData, Pairs
from continuous_states.dialogue.summaries import score_summaries
from continuous_states.dialogue.texts import WordVocabulary
from dialogue_configs import dialogue_data
from discrete_diffusion.algorithms import MDLM, Algorithm
from discrete_diffusion.contracts import LossOutput, SampleOutput
from discrete_diffusion.evaluation import EvaluationProtocol
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model

SPLIT = [0.6, 0.2, 0.2]
TERMS = EvaluationProtocol(num_samples=5, bound_samples=6, bound_draws=3, batch_size=4)


@pytest.fixture(scope="module")
def both():
    """The same pairs in two forms."""
    return [dialogue_data(name, split=SPLIT) for name in ("dialogue", "dialogue-tokens")]


class Sources(Algorithm):
    """A summary costs its place in the split, and 100 more where the dialogue is not its own."""

    name, evaluation_draw = "sources", "exact"

    def __init__(self, data, split="test") -> None:
        super().__init__(nn.Identity(), time_conditioning=False)
        self.number = {tuple(row): k for k, row in enumerate(data.ids[split].targets.tolist())}
        self.own = data.ids[split].sources
        self.calls = 0

    def loss(self, batch, generator, draw=None):
        self.calls += 1
        number = torch.tensor([self.number[tuple(row)] for row in batch.x0.tolist()])
        strange = (batch.conditions["source"] != self.own[number]).any(dim=1)
        nelbo = number.double() + 100 * strange
        return LossOutput(nelbo.mean(), nelbo, batch.real.sum(dim=1))


class Blind(nn.Module):
    """Another guess at every noise level and summary, whatever the dialogue."""

    def __init__(self, vocab_size: int, num_given: int) -> None:
        super().__init__()
        self.vocab_size, self.num_given = vocab_size, num_given

    def forward(self, x_t, sigma=None):
        seen = x_t[:, self.num_given :].sum(dim=1) + sigma
        return torch.sin(seen[:, None, None] + torch.arange(self.vocab_size)).expand(*x_t.shape, -1)


def test_bounds_and_their_rise_are_of_the_same_rows(both):
    algorithm = Sources(both[0])
    bounds, rise = held_out_summary_bounds(Model(algorithm, None), both[0], TERMS)
    rows = bounds.rows
    assert len(rows.unique()) == 6
    assert torch.equal(bounds.values, rows.double())
    assert rise == {"nelbo_source_gap": 100, "nelbo_source_gap_standard_error": 0}
    assert algorithm.calls == 2 * 2  # two batches of either; an exact bound is not drawn again
    of_ids, _ = held_out_summary_bounds(Model(blind(both[1]), None), both[1], TERMS)
    assert torch.equal(of_ids.rows, rows)
    assert of_ids.uniform == bounds.uniform == pytest.approx(16 * math.log(75))


def blind(data) -> MDLM:
    network = Blind(data.layout.vocab_size, data.source_length)
    return MDLM(network, Absorbing(data.layout, LogLinear()))


def test_a_model_that_does_not_see_the_dialogue_has_no_rise(both):
    bounds, rise = held_out_summary_bounds(Model(blind(both[1]), None), both[1], TERMS)
    assert bounds.values.std() > 0
    assert rise == {"nelbo_source_gap": 0, "nelbo_source_gap_standard_error": 0}


class Repeating:
    """Writes the reference of a dialogue, but for some pairs that of another."""

    state = "latent"

    def __init__(self, data, wrong=()) -> None:
        self.ids, self.wrong = data.ids["test"], torch.tensor(wrong)

    def sample(self, algorithm, real, *, generator, steps=None, conditions=None):
        rows = (
            (conditions["source"].unsqueeze(1) == self.ids.sources).all(dim=-1).long().argmax(dim=1)
        )
        rows = torch.where(torch.isin(rows, self.wrong), (rows + 1) % 8, rows)
        calls = torch.full((len(real),), 7)
        return SampleOutput(self.ids.targets[rows], calls, torch.zeros(len(real)))


def test_scores_are_those_of_the_summaries_drawn(both, tmp_path):
    for data in both:  # in either form
        model = Model(nn.Identity(), Repeating(data, wrong=[2]))
        found = score_summaries_of(model, data, TERMS, tmp_path)
        pairs = data.pairs["test"]
        assert [score == 1 for score in found["rouge_l"]] == [True, True, False, True, True]
        numbers = found["metrics"]
        assert numbers["exact_match"] == 0.8
        assert (numbers["num_summaries"], numbers["network_calls"]) == (5, 7)
        assert numbers["seconds_per_1000_samples"] > 0
        assert "rouge_l" not in numbers  # of each
        of_others = [pairs[k].summary for k in (4, 0, 1, 3, 3)]  # 2 is that of 3
        expected = score_summaries(of_others, [p.summary for p in pairs[:5]])
        assert numbers["shuffled_rouge_l"] == pytest.approx(float(expected.rouge_l.mean()))
        lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
        assert [line["reference"] for line in lines] == [p.summary for p in pairs[:5]]


def test_baselines_read_no_dialogue(both):
    frequent, another = DialogueCells().baselines(both[0], 4)
    references = [pair.summary for pair in both[0].pairs["test"][:4]]
    scores = score_summaries([references[-1], *references[:-1]], references, both[0].slots)
    assert torch.equal(another.values["rouge_l"], scores.rouge_l)
    assert another.metrics["slot_accuracy"] == float(scores.slot_accuracy.mean())
    assert {"rouge_l", "rouge_l_standard_error"}.isdisjoint(another.metrics)
    assert frequent.values["rouge_l"].shape == (4,)
    assert [baseline.name for baseline in DialogueCells().baselines(both[1], 1)] == [frequent.name]


def test_other_pairs_are_refused(both):
    DialogueCells().check_same(*both)
    other = dialogue_data("dialogue-tokens", split=SPLIT, generator_seed=1)
    with pytest.raises(ValueError, match=r"the train split differs: .*expected the same dialogues"):
        DialogueCells().check_same(both[0], other)


def test_other_ids_of_the_same_summaries_are_refused(both):
    """Their probabilities are of other events: here of classes of words."""
    data = both[0]
    coarse = WordVocabulary(("will", "the"))
    pairs = Pairs(data.pairs, "coarse")
    changed = DialogueData(pairs, (data.source_tokenizer, coarse), (52, 16))
    with pytest.raises(ValueError, match="summaries of the train split are not the same ids"):
        DialogueCells().check_same(changed, both[1])


def test_five_dialogues_are_shown_with_what_everybody_wrote():
    def lines(said):
        return [
            {"dialogue": f"Ann: {k}?\nBob: Yes.", "reference": f"It is {k}.", "summary": said}
            for k in range(7)
        ]

    text = summaries_side_by_side({"latent": lines("a | <b> *c*"), "ids": lines("")})
    assert text.count("\n## ") == 5
    assert "> Ann: 4?  \n> Bob: Yes." in text
    assert "| *reference* | It is 4. |\n| latent | a \\| \\<b\\> \\*c\\* |\n| ids |" in text
