"""Lightning loads two classes of torchmetrics; a user of it finds all."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from discrete_diffusion.cli.process_setup import defer_torchmetrics

defer_torchmetrics()
import lightning.pytorch

parts = ("torchmetrics.functional", "torchmetrics.text", "transformers")
assert not set(parts) & set(sys.modules), sorted(set(parts) & set(sys.modules))

import torch
import torchmetrics
from torchmetrics import MeanMetric, Metric
from torchmetrics.classification import MulticlassAccuracy

mean = MeanMetric()
mean.update(torch.tensor([1.0, 3.0]))
assert mean.compute() == 2
assert isinstance(mean, Metric) and isinstance(MulticlassAccuracy(3), torchmetrics.Metric)
assert torchmetrics.functional.accuracy and torchmetrics.__version__
print("whole")
"""


@pytest.mark.slow
def test_torchmetrics_is_whole_for_those_who_use_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n", done.stderr
