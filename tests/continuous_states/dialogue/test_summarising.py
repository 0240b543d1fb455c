"""Held-out dialogues summarised by a model that knows every summary, and by one that knows none."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from continuous_states.dialogue.dataset import DialogueTokens
from continuous_states.dialogue.summaries import (
    SUMMARIES,
    Summaries,
    most_frequent_summary,
    read_summaries,
    score_summaries,
    score_summarising,
    source_gap,
    summarise_held_out,
)
from continuous_states.dialogue.texts import SLOTS
from dialogue_configs import dialogue_data
from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, build_sampler
from fake_processes import in_processes

S, T = 52, 16


class Knowing(nn.Module):
    """Gives the id of the true summary of a dialogue log odds ``certainty``."""

    def __init__(self, data: DialogueTokens, certainty: float) -> None:
        super().__init__()
        self.vocab_size, self.certainty = data.layout.vocab_size, certainty
        self.summaries = {
            tuple(row[:S]): row[S:] for name in data.splits for row in data.splits[name].x0.tolist()
        }

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        logits = torch.zeros(*x_t.shape, self.vocab_size)
        for k, row in enumerate(x_t.tolist()):
            answer = torch.tensor(self.summaries[tuple(row[:S])])
            logits[k, torch.arange(S, S + T), answer] = self.certainty
        return logits


@pytest.fixture(scope="module")
def data() -> DialogueTokens:
    found = dialogue_data("dialogue-tokens", split=[0.6, 0.2, 0.2])
    assert isinstance(found, DialogueTokens)
    return found


def model(data: DialogueTokens, certainty: float = 60.0) -> MDLM:
    return MDLM(Knowing(data, certainty), Absorbing(data.layout, LogLinear()))


def summarised(data, num=None, **parts):
    sampler = build_sampler({"name": "first-hitting"})
    return summarise_held_out(
        Model(model(data), sampler, batch_size=3, **parts), data, "test", num=num, seed=0
    )


def summarised_by(sampler, data, num=None, batch_size=5):
    drawn_by = Model(nn.Identity(), sampler, batch_size=batch_size)
    return summarise_held_out(drawn_by, data, "test", num=num, seed=0)


def test_what_is_known_of_a_dialogue_is_said_of_it(data):
    found = summarised(data)
    texts = [pair.summary.lower() for pair in data.pairs["test"]]
    assert list(found.generated) == texts
    assert list(found.shuffled) == [texts[-1], *texts[:-1]]  # of the dialogue before
    assert found.nfe.tolist() == [T] * 8
    values = score_summarising(found, data)
    for name in ("rouge_l", "exact_match", "slot_accuracy", "slot_who", "distinct"):
        assert values[name] == 1
    assert values["shuffled_exact_match"] == values["another_exact_match"] == 0
    assert values["shuffled_rouge_l"] == values["another_rouge_l"] < 0.8
    assert values["most_frequent_distinct"] == 1 / 8
    assert (values["num_summaries"], values["network_calls_per_summary"]) == (8, T)
    assert {"most_frequent_slot_accuracy", "slot_when"} <= values.keys()


class LookUp:
    """A sampler of summaries that reads the sources itself: says the true one."""

    state = "latent"

    def __init__(self, data, split="test"):
        self.ids = data.ids[split]

    def sample(self, algorithm, real, *, generator, steps=None, conditions=None):
        same = (conditions["source"].unsqueeze(1) == self.ids.sources).all(dim=-1)
        targets = self.ids.targets[same.long().argmax(dim=1), : real.shape[1]]
        return SampleOutput(targets, torch.ones(len(real)).long(), torch.zeros(len(real)))


def test_another_pair_has_another_dialogue(tmp_path):
    words = [(a, b) for a in "abcd" for b in "abcd"]
    pairs = [(f"say {a} {b}", f"{a} {b} {3 * f'{a}{b} '} {c}") for a, b in words for c in "xyz"]
    lines = [json.dumps({"dialogue": d, "summary": s}) for d, s in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    texts = dialogue_data(path=str(tmp_path / "pairs.jsonl"), split=[0.5, 0.25, 0.25])

    def scored(num):
        found = summarised_by(LookUp(texts), texts, num)
        return found, score_summarising(found, texts)

    found, values = scored(None)
    assert len(found) == len(found.shuffled) == 12
    said = [[text.split()[:2] for text in texts] for texts in (found.generated, found.shuffled)]
    assert all(own != other for own, other in zip(*said, strict=True))
    assert values["another_rouge_l"] <= 1 / 3  # of the same dialogue: 5 / 6
    for num in (3, 1, 0):  # of the same dialogue; one pair has no other
        found = summarised_by(LookUp(texts), texts, num)
        assert (len(found), found.shuffled) == (num, ())
    _, values = scored(1)
    assert {name for name in values if name.startswith(("shuffled", "another"))} == set()


def test_processes_together_make_what_one_makes(data):
    alone = summarised(data)
    for found in in_processes(2, lambda shard: summarised(data, shard=shard)):
        assert (found.generated, found.shuffled) == (alone.generated, alone.shuffled)
        assert torch.equal(found.nfe, alone.nfe)


@pytest.mark.slow
def test_the_gap_is_what_the_dialogue_is_worth(data):
    certainty, unsure = 5.0, math.log(math.exp(5.0) + 72)  # 73 legal ids
    knowing = Model(model(data, certainty), None)
    gap = source_gap(knowing, data, "test", torch.arange(8), draws=40, entropy=(0,))
    own = unsure - certainty
    ids = data.ids["test"].targets.masked_fill(data.ids["test"].targets == 74, 71)
    wrong = (ids != ids.roll(1, dims=0)).double()
    assert (gap.shuffled.nelbo - gap.own.nelbo).mean() == pytest.approx(
        float(certainty * wrong.sum(dim=1).mean()), rel=0.1
    )
    values = gap.as_dict()
    assert values["nelbo_own_source_per_token"] == pytest.approx(own, abs=1e-5)
    assert values["nelbo_own_source"] == pytest.approx(T * own, abs=1e-4)
    with pytest.raises(ValueError, match="1 pairs of the test split; expected at least 2"):
        source_gap(knowing, data, "test", torch.arange(1), draws=1, entropy=(0,))


def test_summaries_are_written_and_shown(data, tmp_path):
    found = summarised(data)
    found.write(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [line["summary"] for line in lines] == list(found.generated)
    assert lines[0]["reference"] == data.pairs["test"][0].summary
    dialogue = "Ann: one\u2028two\x85three\rfour"  # a separator inside a dialogue ends no line
    Summaries((dialogue,), ("",), ("Yes.",), (), torch.ones(1)).write(tmp_path)
    assert read_summaries(tmp_path / SUMMARIES) == [{"dialogue": dialogue, "summary": "Yes."}]
    shown = found.examples(num=2)
    assert shown.count("reference: ") == shown.count("generated: ") == 2
    assert data.pairs["test"][1].dialogue in shown


@given(*[st.text(st.characters(codec="ascii"), max_size=30)] * 2)
@example("don't go_now, it's 5!", "Dont go now its 5")
def test_rouge_l_of_ascii_is_that_of_torchmetrics(generated, reference):
    from torchmetrics.functional.text.rouge import rouge_score

    expected = rouge_score(generated, reference, rouge_keys="rougeL")["rougeL_fmeasure"]
    assert score_summaries([generated], [reference]).rouge_l.tolist() == [float(expected)]


@pytest.mark.parametrize(
    ("generated", "reference", "f1"),
    [
        ("Привет, мир!", "привет мир", 1),
        ("привет мир", "Привет, Анна", 1 / 2),
        ("你好 世界", "你好", 2 / 3),
        ("crème brûlée", "creme brulee", 0),
    ],
)
def test_words_are_of_any_script(generated, reference, f1):
    assert score_summaries([generated], [reference]).rouge_l.item() == pytest.approx(f1)


def test_slots_are_right_where_their_words_are():
    reference = "Anna will buy the tent from Ben on Friday evening at the park."
    generated = [
        reference.lower().replace(".", " ."),  # all right
        "Ben will buy the tent from Anna on Friday evening at the park.",  # who
        "Anna will lend the tent to Ben on Friday at the park.",  # what, when
        "anna anna ben buy tent friday evening gym park",  # who, where
    ]
    alike = score_summaries(["A b!", "a  B !", "a b", "c"], ["a b"] * 4)
    assert alike.distinct == 0.75  # by words
    assert not any(name.startswith("slot") for name in alike.as_dict())
    assert most_frequent_summary(["x", "A b!", "c", "a b !", "c"]) == "A b!"
    scores = score_summaries(generated, [reference] * 4, SLOTS)
    assert scores.exact.tolist() == [1, 0, 0, 0]
    assert {name: right.tolist() for name, right in scores.slots.items()} == {
        "who": [1, 0, 1, 0],
        "what": [1, 1, 0, 1],
        "when": [1, 1, 0, 1],
        "where": [1, 1, 1, 0],
    }
    assert scores.slot_accuracy.tolist() == [1, 0.75, 0.5, 0.5]
    values = scores.as_dict("of_model_")
    assert values["of_model_slot_accuracy"] == pytest.approx(11 / 16)
    assert values["of_model_slot_who"] == 0.5
    assert values["of_model_exact_match"] == 0.25
    error = math.sqrt(0.25 * 0.75 * 4 + 0.25) / 5  # half of Wilson's interval
    assert values["of_model_exact_match_standard_error"] == pytest.approx(error)
