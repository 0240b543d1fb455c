"""Perplexity of samples under a judge: by hand, by a known law, by transformers' own loss."""

from __future__ import annotations

import math
from collections import Counter
from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from discrete_diffusion.algorithms import AR, MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.judge import CheckpointJudge, Judge, SampledTexts, read_judge
from discrete_diffusion.domains.text.report import (
    TextReport,
    frequency_distance,
    mauve_scorer,
    quality_line,
    share_known,
    text_quality,
    text_variety,
    words_of,
)
from discrete_diffusion.domains.text.vocabulary import IdVocabulary, TextVocabulary
from discrete_diffusion.evaluation.bound import BoundMeter
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear

CHARACTERS = " abcé"
WINDOW = 6
TEXTS = ["ab caéab c", "a", "", "cé cab"]
OURS = TextVocabulary(CHARACTERS)
OTHER = TextVocabulary(CHARACTERS[::-1])


def checkpoint(kind=AR, *, domain: str = "text", **options) -> SimpleNamespace:
    layout = TokenLayout.flat(WINDOW, OURS.vocab_size, mask_id=OURS.mask_id, pad_id=OURS.pad_id)
    torch.manual_seed(0)
    network = DiT(
        vocab_size=OURS.vocab_size,
        hidden_size=16,
        n_blocks=1,
        n_heads=2,
        dropout=0.0,
        pad_id=OURS.pad_id,
        causal=True,
    )
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    algorithm = kind(network, Absorbing(layout, LogLinear()), **options)
    data = {"domain": domain, "token_unit": "characters", "characters": CHARACTERS}
    config = OmegaConf.create({"data": data, "algo": {"name": kind.name}})
    return SimpleNamespace(algorithm=algorithm, config=config)


def ids_of(vocabulary: TextVocabulary, text: str) -> np.ndarray:
    return np.array([vocabulary.characters.index(c) for c in text], np.int64)


def sampled(vocabulary: TextVocabulary = OURS, texts=TEXTS) -> SampledTexts:
    return SampledTexts([ids_of(vocabulary, text) for text in texts], texts)


def token_by_token(algorithm: AR, text: str) -> float:
    """-log p of a text in windows, each token from a call that sees nothing behind it."""
    total = 0.0
    for begin in range(0, len(text), WINDOW):
        ids = ids_of(OURS, text[begin : begin + WINDOW])
        for k, one in enumerate(ids):
            x = torch.full((1, WINDOW), OURS.pad_id)
            x[0, : len(ids)] = OURS.mask_id
            x[0, :k] = torch.from_numpy(ids[:k])
            real = torch.arange(WINDOW).unsqueeze(0) < len(ids)
            log_d0 = algorithm.denoise(x, torch.zeros(1), real)
            total -= float(log_d0[0, k, one])
    return total


@pytest.mark.parametrize(("of_samples", "time_conditioning"), [(OURS, True), (OTHER, False)])
@torch.no_grad()
def test_perplexity_is_that_of_single_predictions(of_samples, time_conditioning):
    """Whether the samples have the judge's vocabulary or are encoded anew."""
    found = checkpoint(time_conditioning=time_conditioning)
    judge = CheckpointJudge("judge", found, of_samples)
    assert judge.same_ids == (of_samples is OURS)
    verdict = judge.read(sampled(of_samples))
    expected = [token_by_token(found.algorithm, text) for text in TEXTS]
    expected_nats = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(verdict.nats, expected_nats, rtol=1e-5, atol=1e-5)
    numbers, whole = verdict.as_dict(), "".join(TEXTS)
    assert numbers["gen_ppl"] == pytest.approx(math.exp(sum(expected) / len(whole)))
    bits = sum(expected) / math.log(2)
    assert numbers["gen_bits_per_character"] == pytest.approx(bits / len(whole))
    assert numbers["gen_bits_per_byte"] == pytest.approx(bits / len(whole.encode()))


class Dice(Judge):
    """Every token by itself, of a law."""

    name, window, device = "dice", 4, "cpu"

    def __init__(self, law: torch.Tensor) -> None:
        self.law, self.width = law, len(law)

    def encode(self, samples):
        return list(samples.rows)

    def nats(self, ids, real):
        return -self.law.log()[ids].masked_fill(~real, 0.0).sum(dim=1)


def test_perplexity_of_many_samples_is_exp_of_the_cross_entropy():
    q = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    p = torch.tensor([0.25, 0.25, 0.4, 0.1], dtype=torch.float64)
    num, length = 2000, 9
    rows = torch.multinomial(q, num * length, True, generator=make_generator(0)).view(num, length)
    found = Dice(p).read(SampledTexts(list(rows.numpy()), None)).as_dict()
    cross_entropy = -float((q * p.log()).sum())
    variance = float((q * p.log().square()).sum()) - cross_entropy**2
    error = math.exp(cross_entropy) * math.sqrt(variance / (num * length))
    assert abs(found["gen_ppl"] - math.exp(cross_entropy)) < 4 * error
    assert found["gen_ppl_standard_error"] == pytest.approx(error, rel=0.1)
    assert "gen_bits_per_byte" not in found


def test_judges_that_cannot_be():
    for wrong in (checkpoint(MDLM), checkpoint(domain="graphs")):
        with pytest.raises(ValueError, match=r"perplexity_model=runs/x is algo=.*algo=ar of text"):
            CheckpointJudge("runs/x", wrong, OURS)
    with pytest.raises(ValueError, match=r"the model has ids without a tokenizer"):
        CheckpointJudge("runs/x", checkpoint(), IdVocabulary(9, 8))
    strange = SampledTexts([np.zeros(1, np.int64)], ["a!"])
    judge = CheckpointJudge("runs/x", checkpoint(), TextVocabulary(" !abc"))
    with pytest.raises(ValueError, match=r"sample 1.*'!'.*perplexity_model=runs/x"):
        judge.read(strange)


def test_quality_has_variety_beside_every_perplexity():
    judge = CheckpointJudge("judge", checkpoint(), OURS)
    tokens = torch.full((2, WINDOW), OURS.pad_id)
    tokens[:, :4] = torch.from_numpy(ids_of(OURS, "a ba"))
    found = text_quality(OURS, tokens, judge)
    assert found["unigram_entropy"] == pytest.approx(1.5 * math.log(2))
    assert found["distinct_1"] == found["distinct_2"] == pytest.approx(0.5)
    line = quality_line({**found, "network_calls_per_sample": 7.0})
    for word in ("gen_ppl", "entropy 1.040", "distinct-1/2/3 0.500/0.500/-", "7 network calls"):
        assert word in line
    assert text_quality(OURS, tokens).keys() < found.keys()


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A folder of a small GPT-2 with random weights and a tokenizer of words."""
    pytest.importorskip("transformers", reason="needs the extra text")
    from small_tokenizers import save_gpt2

    return save_gpt2(tmp_path_factory.mktemp("gpt2"), ["red", "blue", "house", "is", "a"])


def asked(vocabulary=None, **data) -> SimpleNamespace:
    config = {"token_unit": "characters", "characters": CHARACTERS, **data}
    return SimpleNamespace(data_config=config, device="cpu", path="runs/x", another=None)


@torch.no_grad()
def test_a_judge_of_transformers_has_the_loss_of_transformers(gpt2):
    import transformers

    judge = read_judge(f"hf:{gpt2}", asked())
    assert judge.window == 7  # and the begin of text before it
    texts = ["a red house is blue", "a house is a house is red is blue a blue", "blue"]
    verdict = judge.read(SampledTexts([], texts))
    network = transformers.GPT2LMHeadModel.from_pretrained(gpt2).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    expected = []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        total = 0.0
        for begin in range(0, len(ids), 7):
            part = ids[begin : begin + 7]
            window = torch.tensor([[tokenizer.bos_token_id, *part]])
            total += float(network(window, labels=window).loss) * len(part)
        expected.append(total)
    expected_nats = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(verdict.nats, expected_nats, rtol=1e-5, atol=1e-5)
    assert verdict.num_tokens.tolist() == [5, 11, 1]
    per_byte = sum(expected) / math.log(2) / sum(map(len, texts))
    assert verdict.as_dict()["gen_bits_per_byte"] == pytest.approx(per_byte)


def sentences(num: int, words: str, seed: int) -> list[str]:
    """Of 1 to 12 words, so that some are longer than the judge's context of 8."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words.split(), rng.integers(1, 13))) for _ in range(num)]


def test_mauve_is_that_of_the_library(gpt2):
    """Which reads texts by itself, one at a time, cut to the context."""
    library = pytest.importorskip("mauve.compute_mauve", reason="needs the extra mauve")
    texts = sentences(120, "red blue house is a", 0)
    others = sentences(120, "a is is house", 1)
    judge = read_judge(f"hf:{gpt2}", asked())
    p, q = (
        library.get_features_from_input(None, None, some, gpt2, 8, -1, name="", batch_size=1)
        for some in (texts, others)
    )
    np.testing.assert_allclose(judge.features(texts), p, atol=1e-5)
    np.testing.assert_allclose(judge.features(others), q, atol=1e-5)
    measured = mauve_scorer(judge)
    found = measured(texts, others)
    p, q = judge.features(texts), judge.features(others)
    assert found == library.compute_mauve(p_features=p, q_features=q).mauve
    alike = measured(texts, sentences(120, "red blue house is a", 2))
    assert found < 0.5 < 0.8 < alike


def test_features_of_texts_at_once_are_those_of_each_alone(gpt2):
    judge = read_judge(f"hf:{gpt2}", asked())
    texts = ["a red house", "", "blue " * 20, "is"]
    alone = np.concatenate([judge.features([text]) for text in texts])
    np.testing.assert_allclose(judge.features(texts), alone, atol=1e-5)
    assert np.abs(alone[0] - alone[1]).max() > 0.1


def test_what_a_judge_of_transformers_needs(gpt2, tmp_path):
    with pytest.raises(ValueError, match=r"perplexity_model=.*nowhere.*no folder"):
        read_judge(f"hf:{tmp_path}/nowhere", asked())
    with pytest.raises(ValueError, match=r"perplexity_model=.* cannot be read"):
        read_judge(f"hf:{tmp_path}", asked())
    with pytest.raises(ValueError, match=r"runs/x has ids without a tokenizer"):
        read_judge(f"hf:{gpt2}", asked(token_unit="ids", vocab_size=9))


LENGTH = 8
TEXT = "der Jäger und der König "


def dataset(vocabulary: TextVocabulary) -> TextDataset:
    layout = TokenLayout.flat(
        LENGTH,
        vocabulary.vocab_size,
        mask_id=vocabulary.mask_id,
        pad_id=vocabulary.pad_id,
    )
    ids = vocabulary.encode(TextSource("here", TEXT))
    return TextDataset(
        {"train": ids, "val": ids, "test": np.zeros(0, np.int64)},
        vocabulary,
        layout=layout,
        source="here",
    )


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_bits_are_the_nats_of_the_split_over_its_characters(kind):
    data = dataset(TextVocabulary.from_text(TEXT) if kind == "characters" else TextVocabulary(None))
    real = data.splits["val"].real
    nats = torch.tensor([11.0, 7.0, 13.0, 2.0])[: len(real)].double()
    meter = BoundMeter()
    meter.add(nats, real.sum(dim=1), None)
    bound = meter.estimate("plain")
    some = copy(data)  # of fewer windows the ratios of the whole are taken
    some.splits = {**data.splits, "val": data.splits["val"][:1]}
    bits = data.further_bounds("val", bound)
    total = float(nats.sum()) / math.log(2)
    assert bits["bits_per_character"] == pytest.approx(total / len(TEXT))
    expected = bound.standard_error * len(real) / math.log(2) / len(TEXT)
    assert bits["bits_per_character_standard_error"] == pytest.approx(expected)
    assert bits["bits_per_byte"] == pytest.approx(total / len(TEXT.encode()))
    per_word = math.exp(float(nats.sum()) / len(TEXT.split()))
    assert bits["perplexity_per_word"] == pytest.approx(per_word)
    assert some.further_bounds("val", bound) == bits
    sure = BoundMeter()
    sure.add(torch.zeros(len(real)), real.sum(dim=1), None)
    assert set(data.further_bounds("val", sure.estimate("plain")).values()) == {0.0, 1.0}
    assert TextReport(data).findings(bound, data.splits["val"].x0)["text"] == "here"


def test_a_report_measures_and_writes_text(tmp_path):
    data = dataset(TextVocabulary.from_text(TEXT))
    report = TextReport(data)
    windows = data.splits["val"].x0
    scores = report.measure(windows)
    assert scores["character_tv"] == 0
    assert scores["words_in_training"] == scores["words_in_training_reference"] == 1
    other = torch.full_like(windows, data.vocabulary.characters.index("ä"))
    assert report.measure(other)["character_tv"] > 0.9
    assert report.measure(windows[:0]) == {}
    report.save(windows, tmp_path / "run")
    report.plot(windows, tmp_path / "pictures" / "step_1.png")
    saved = (tmp_path / "run" / "samples.txt").read_text()
    assert saved == (tmp_path / "pictures" / "step_1.txt").read_text()
    assert saved.count("sample") == 3
    assert "".join(line for line in saved.split("\n") if "sample" not in line) == TEXT
    assert not (tmp_path / "pictures" / "step_1.png").exists()


@pytest.mark.parametrize(
    ("samples", "reference", "distance"),
    # of the last: p = (3/4, 1/4, 0), q = (1/2, 1/4, 1/4)
    [("abab", "ba", 0), ("aa", "bbb", 1), ("aaab", "aabc", 0.25), ("", "a", math.nan)],
)
def test_the_distance_of_frequencies_is_the_total_variation(samples, reference, distance):
    found = frequency_distance(Counter(samples), Counter(reference))
    assert found == pytest.approx(distance, nan_ok=True)


def test_words_that_touch_an_end_may_be_cut_off():
    assert words_of(["ther, the king's men", " all of it "]) == [
        "the",
        "king",
        "s",
        "all",
        "of",
        "it",
    ]
    assert words_of(["word"]) == []


def test_the_share_of_words_seen():
    known = {"to", "be"}
    assert share_known([" to be or not to be. "], known) == pytest.approx(4 / 6)
    assert math.isnan(share_known(["to"], known))


def test_variety_by_hand():
    rows = [[0, 1, 0, 1], [2, 2, 2, 2]]
    units = [["a", "b", "c", "d", "a", "b", "c", "d"], ["x", "y"]]
    found = text_variety(rows, units)
    assert found["unigram_entropy"] == pytest.approx(math.log(2) / 2)
    assert found["distinct_1"] == pytest.approx(6 / 10)
    assert found["distinct_2"] == pytest.approx((4 + 1) / (7 + 1))
    assert found["distinct_3"] == pytest.approx(4 / 6)
    assert found["repetition_share"] == pytest.approx(1 - 4 / 5)  # the second has no run of four
    assert all(math.isnan(value) for value in text_variety([[]], [[]]).values())
