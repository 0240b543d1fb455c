import random

import torch

LETTERS = "([)]"
MASK, PAD = len(LETTERS), len(LETTERS) + 1  # ids behind those of the letters


def generate(num, length, seed):
    """Strings of at most ``length`` letters, each bracket closed by one of its kind."""
    rng = random.Random(seed)
    for _ in range(num):
        text = ""
        for _ in range(rng.randint(1, length // 2)):
            place = rng.randint(0, len(text))
            text = text[:place] + rng.choice(["()", "[]"]) + text[place:]
        yield text


def encode(texts, length):
    """Int[M, length]: ids of letters, -1 for "_", which is not known, PAD behind them."""
    ids = torch.full((len(texts), length), PAD)
    for row, text in zip(ids, texts, strict=True):
        if not 0 < len(text) <= length or {*text} - {*LETTERS, "_"}:
            raise ValueError(f"{text!r} is not 1 to {length} of {LETTERS}_")
        row[: len(text)] = torch.tensor([LETTERS.find(letter) for letter in text])
    return ids


def decode(tokens):
    return ["".join(LETTERS[k] for k in row if k != PAD) for row in tokens.tolist()]


def is_closed(text):
    shorter = text.replace("()", "").replace("[]", "")
    return not text if shorter == text else is_closed(shorter)
