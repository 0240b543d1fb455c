"""Tokenizers of ``transformers`` in folders, of a few words each; needs the extra ``text``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def save_tokenizer(
    folder: Path,
    words: Sequence[str],
    *,
    pad: str | None = "<pad>",
    eos: str | None = "<eos>",
    more: Sequence[str] = (),
    letters: bool = False,
) -> str:
    """Write a tokenizer that begins and ends what it encodes unless told not to, and return its
    folder. ``more``: special tokens behind the words. ``letters``: ``words`` are letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: k for k, word in enumerate(dict.fromkeys(words))}
    inner = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    split = pre_tokenizers.Split("", "isolated") if letters else pre_tokenizers.Whitespace()
    inner.pre_tokenizer = split
    names = {"pad_token": pad, "eos_token": eos, "unk_token": "<unk>"}
    if "<start>" in ids:
        ends = [(name, ids[name]) for name in ("<start>", "<eos>")]
        inner.post_processor = processors.TemplateProcessing(
            single="<start> $A <eos>", special_tokens=ends
        )
        names["bos_token"] = "<start>"
    network = PreTrainedTokenizerFast(
        tokenizer_object=inner, **{key: name for key, name in names.items() if name is not None}
    )
    network.add_tokens(list(more), special_tokens=True)
    network.save_pretrained(folder)
    return str(folder)


def save_gpt2(folder: Path, words: Sequence[str]) -> str:
    """Write a GPT-2 of random weights and 8 positions, with a tokenizer of words, and return its
    folder; ``words``: beside the special tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    words = ["<pad>", "<eos>", "<unk>", "<start>", *words]
    save_tokenizer(folder, words)
    torch.manual_seed(0)
    sizes = {"n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = GPT2Config(vocab_size=len(words), **sizes, bos_token_id=3, eos_token_id=1)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)
