"""``sample`` of a model of images with maps: held-out images sampled given their maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuous_states.eit.image_report import ImageReport
from continuous_states.eit.reconstructing import DRAWS
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import Samples, SavedSamples, measured_data

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel

NUM_IMAGES = 64


def sample_images(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Draw ``draws`` images from the map of each of the first ``num_samples`` held-out images, or
    of those that keys under ``data`` make: ``Reconstructions``, written as ``samples.npz`` and
    ``samples.png``.
    """
    measured = measured_data(request, trained, needs_training=True)
    split = measured.split
    num = NUM_IMAGES if request.num_samples is None else request.num_samples
    draws = DRAWS if request.draws is None else request.draws
    report = ImageReport(measured.data, split, draws=draws, trained_on=measured.trained_on)
    with trained.sharing() as shard:
        found = report.sample(trained.on(shard), num, request.seed)

    def write() -> SavedSamples:
        folder, scores = request.out, report.measure(found)
        found.write(folder)
        report.plot(found, folder / request.picture)
        facts = {
            "sampling": trained.sampling,
            "split": split,
            **measured.facts(request),
            "num_samples": len(found),
            "network_calls_per_sample": scores["network_calls_per_draw"],
            "seconds": found.seconds,
            **scores,
        }
        return SavedSamples(
            facts,
            f"{counted(len(found), 'image')} of {measured.name}, "
            f"{counted(found.draws, 'sample')} each, in "
            f"{found.seconds:.1f} s: relative L2 {scores['relative_l2']:.3f} (mean image "
            f"{scores['mean_image_relative_l2']:.3f}); {folder / request.picture}",
        )

    return Samples(found, write)
