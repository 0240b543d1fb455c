"""Parts that every data set shares: samples in splits, batches of them, a cache."""

from discrete_diffusion.data.base import Dataset, Examples, TokenDataset, sample_sizes
from discrete_diffusion.data.batches import BatchStream, SplitBatches, bucket_batches, with_fewer

__all__ = [
    "BatchStream",
    "Dataset",
    "Examples",
    "SplitBatches",
    "TokenDataset",
    "bucket_batches",
    "sample_sizes",
    "with_fewer",
]
