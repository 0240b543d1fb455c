"""Dialogues with their summaries."""

from __future__ import annotations

from discrete_diffusion.config import LazyEntry
from discrete_diffusion.domains import DATA, Domain, Option, completions, register_domain


@register_domain
class Dialogue(Domain):
    """Summaries of dialogues, through latent vectors or as ids."""

    name, title = "dialogue", "dialogues"
    data_sets = {"dialogue": "latent", "dialogue-tokens": "tokens"}
    data_files = (
        *("path", "train_path", "val_path", "test_path"),
        *("source_tokenizer", "target_tokenizer"),
    )
    streamed_file = "samples.jsonl"
    quick = {"num_held_out": 100, "num_samples": 50, "noise_samples": 1}
    options = {
        "sample": (
            Option(
                "given",
                'a file of dialogues to summarise, FILE.jsonl, a line each {"dialogue": ...}',
                is_file=True,
            ),
            completions("summaries of each dialogue; null is 1"),
        ),
        "evaluate": (DATA,),
    }
    fixed_keys = (
        *("source_length", "target_length", "source_tokenizer", "target_tokenizer"),
        *("words", "max_words", "length", "mask_id", "vocab_size", "eos_id", "pad_id"),
        *("source_vocab_size", "source_pad_id"),
    )
    remedies = {
        "data": "dialogues of your own are summarised, and scored where they have summaries, by "
        "sample given=FILE.jsonl"
    }

    complete = LazyEntry("continuous_states.dialogue.dataset:complete_dialogue")
    vocabulary = LazyEntry("continuous_states.dialogue.dataset:dialogue_vocabulary")
    build = LazyEntry("continuous_states.dialogue.dataset:build_dialogue")
    test_data = LazyEntry("continuous_states.dialogue.dataset:build_test_dialogues")
    report = LazyEntry("continuous_states.dialogue.commands:SummaryReport")
    sample = LazyEntry("continuous_states.dialogue.commands:sample_summaries")
    evaluate = LazyEntry("continuous_states.dialogue.commands:evaluate_summaries")
    cell_measurement = LazyEntry("continuous_states.dialogue.comparing:DialogueCells")
