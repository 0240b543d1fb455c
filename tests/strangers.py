"""Networks of tokens as strangers write them, right and wrong, for any vocabulary and length."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

PAD = 14
"""Of bubble diagrams."""


class Their(nn.Module):
    """One layer of attention that keeps PAD out."""

    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__()
        self.vocab_size, self.length = vocab_size, length
        self.embedding = nn.Embedding(vocab_size, width)
        self.places = nn.Parameter(0.1 * torch.randn(length, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.time = nn.Linear(1, width)
        self.head = nn.Linear(width, vocab_size)

    def embedded(self, x: Tensor, sigma: Tensor | None = None) -> Tensor:
        h = self.embedding(x) + self.places[: x.shape[1]]
        return h if sigma is None else h + self.time(sigma.view(-1, 1, 1))

    def mixed(self, h: Tensor, hidden: Tensor | None, mask: Tensor | None = None) -> Tensor:
        options = {"key_padding_mask": hidden, "attn_mask": mask, "need_weights": False}
        return h + self.attention(h, h, h, **options)[0]

    def logits(self, x: Tensor, sigma: Tensor | None) -> Tensor:
        return self.head(self.mixed(self.embedded(x, sigma), x == PAD))

    def forward(self, x, sigma):
        return self.logits(x, sigma)


# What is refused.


class OneIdShort(Their):
    def forward(self, x, sigma):
        return self.logits(x, sigma)[..., :-1]


class Transposed(Their):
    def forward(self, x, sigma):
        return self.logits(x, sigma).transpose(1, 2)


class SamplesSecond(Their):
    def forward(self, x, sigma):
        return self.logits(x, sigma).transpose(0, 1)


class OneScore(Their):
    def forward(self, x, sigma):
        return self.logits(x, sigma).amax(dim=-1)


class Nan(Their):
    def forward(self, x, sigma):
        logits = self.logits(x, sigma)
        logits[1, 2, 5:8] = torch.nan
        return logits


class Integers(Their):
    def forward(self, x, sigma):
        return (100 * self.logits(x, sigma)).long()


class Named(Their):
    def forward(self, x, sigma):
        return {"logits": self.logits(x, sigma), "loss": None}


class Pair(Their):
    def forward(self, x, sigma):
        logits = self.logits(x, sigma)
        return logits, logits.mean()


class BothWays(Their):
    """A recurrent network that is said to be causal and reads from both ends."""

    directions = 2

    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__(vocab_size, length, width)
        both = self.directions == 2
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=both)
        self.head = nn.Linear(self.directions * width, vocab_size)

    def forward(self, x, sigma):
        return self.head(self.gru(self.embedded(x, sigma))[0])


class BothWaysFromZero(BothWays):
    """The same, as the function 0."""

    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__(vocab_size, length, width)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


class ReadsItsOwnContext(Their):
    """Block-wise, but the clean tokens that it attends to are those up to its own block."""

    last = 0

    def attended(self, groups: Tensor) -> Tensor:
        """Bool[2L, 2L]: what is hidden, noisy positions first, clean ones behind."""
        query, key = groups[:, None], groups[None, :]
        noisy = torch.cat([key == query, key <= query + self.last], dim=1)
        clean = torch.cat([torch.zeros_like(key == query), key <= query], dim=1)
        return ~torch.cat([noisy, clean])

    def forward(self, x_t, group_idxs, sigma, context=None):
        context = x_t if context is None else context
        both = torch.cat([self.embedded(x_t, sigma), self.embedded(context, sigma)], dim=1)
        hidden = torch.cat([x_t == PAD, context == PAD], dim=1)
        # its own column is always seen, or a row of PAD would attend to nothing
        mask = self.attended(group_idxs[0]).float().masked_fill(self.attended(group_idxs[0]), -1e9)
        hidden = hidden.float() * -1e9
        return self.head(self.mixed(both, hidden, mask)[:, : x_t.shape[1]])


class ReadsOtherNoise(ReadsItsOwnContext):
    last = -1

    def attended(self, groups: Tensor) -> Tensor:
        hidden = super().attended(groups)
        hidden[: len(groups), : len(groups)] = False
        return hidden


# What works.


class Causal(BothWays):
    directions = 1


class KeepsToItsBlocks(ReadsItsOwnContext):
    last = -1


class Blockwise(Their):
    """In the order of the arguments that block-wise networks have elsewhere."""

    def forward(self, x_t, group_idxs, sigma):
        return self.head(self.mixed(self.embedded(x_t, sigma), x_t == PAD) + group_idxs[..., None])


class Object(Their):
    def forward(self, x, sigma):
        return SimpleNamespace(logits=self.logits(x, sigma), loss=None)


class Single(Their):
    def forward(self, x, sigma):
        return (self.logits(x, sigma),)


class Encoder(Their):
    """PyTorch's own encoder, wrapped."""

    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__(vocab_size, length, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, indices, timesteps):
        h = self.encoder(self.embedded(indices, timesteps), src_key_padding_mask=indices == PAD)
        return self.head(h)


class Timeless(Their):
    def forward(self, x):
        return self.logits(x, None)


class FixedLength(Their):
    def forward(self, x, sigma):
        if x.shape[1] != self.length:
            raise ValueError(f"made for {self.length} tokens")
        return self.logits(x, sigma)


class Normalised(Their):
    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__(vocab_size, length, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x, sigma):
        h = self.mixed(self.embedded(x, sigma), x == PAD)
        return self.head(self.norm(h.transpose(1, 2)).transpose(1, 2))


class Compiled(Their):
    """Its builder compiles it."""


# What is warned of.


class Probabilities(Their):
    def forward(self, x, sigma):
        return self.logits(x, sigma).softmax(dim=-1)


class SeesPad(Their):
    def forward(self, x, sigma):
        return self.head(self.mixed(self.embedded(x, sigma), None))


class CountsPad(Their):
    """PAD is nothing, but the mean is over it too."""

    def forward(self, x, sigma):
        h = self.embedded(x, sigma) * (x != PAD).unsqueeze(-1)
        return self.head(h + h.mean(dim=1, keepdim=True))


class UNet(Their):
    """Convolutions along the sequence, half as long in the middle."""

    def __init__(self, vocab_size: int, length: int, width: int = 16) -> None:
        super().__init__(vocab_size, length, width)
        self.down = nn.Conv1d(width, width, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose1d(width, width, 4, stride=2, padding=1)

    def forward(self, x, sigma):
        h = self.embedded(x, sigma).transpose(1, 2)
        return self.head((h + self.up(self.down(h).relu())).transpose(1, 2))
