"""What is said of a trained model and of its samples."""

from discrete_diffusion.evaluation.bound import (
    BoundEstimate,
    BoundMeter,
    SampleBounds,
    blind_bounds,
    estimate_bound,
    sample_bounds,
)
from discrete_diffusion.evaluation.bound_by_time import BoundByTime, bound_by_time
from discrete_diffusion.evaluation.calibration import Calibration, measure_calibration
from discrete_diffusion.evaluation.field_files import RECONSTRUCTIONS, write_reconstructions
from discrete_diffusion.evaluation.field_report import FieldReport
from discrete_diffusion.evaluation.field_scores import (
    FieldBaselines,
    ReconstructionScores,
    fit_field_baselines,
    score_reconstructions,
)
from discrete_diffusion.evaluation.field_table import field_notes, field_section
from discrete_diffusion.evaluation.filling import Filling, draw_held_out_masks, fill_held_out
from discrete_diffusion.evaluation.model_scores import ModelScores, score_model
from discrete_diffusion.evaluation.pictures import draw_model_pictures, draw_sample_pictures
from discrete_diffusion.evaluation.reconstructing import (
    Reconstructions,
    TokenImages,
    reconstruct_held_out,
)
from discrete_diffusion.evaluation.report import SampleReport, save_diagrams, save_samples
from discrete_diffusion.evaluation.row_files import FILLED_ROWS, write_filling, write_rows
from discrete_diffusion.evaluation.row_report import RowReport, draw_filling_scores
from discrete_diffusion.evaluation.row_scores import (
    FillingScores,
    RowBaselines,
    ScoresByMaskRate,
    fit_baselines,
    score_filling,
    scores_by_mask_rate,
)
from discrete_diffusion.evaluation.row_table import rate_section, row_notes, row_section
from discrete_diffusion.evaluation.sample_scores import SampleScores, score_samples
from discrete_diffusion.evaluation.summarising import (
    Summaries,
    SummarySampler,
    TokenSummaries,
    summarise_held_out,
)
from discrete_diffusion.evaluation.summary_report import (
    SUMMARIES,
    SummaryReport,
    example_summaries,
    summary_notes,
    summary_section,
    write_summaries,
)
from discrete_diffusion.evaluation.summary_scores import (
    SourceGap,
    SummarisingScores,
    measure_source_gap,
    score_summarising,
)
from discrete_diffusion.evaluation.text_scores import text_bits, text_facts

__all__ = [
    "FILLED_ROWS",
    "RECONSTRUCTIONS",
    "SUMMARIES",
    "BoundByTime",
    "BoundEstimate",
    "BoundMeter",
    "Calibration",
    "FieldBaselines",
    "FieldReport",
    "Filling",
    "FillingScores",
    "ModelScores",
    "ReconstructionScores",
    "Reconstructions",
    "RowBaselines",
    "RowReport",
    "SampleBounds",
    "SampleReport",
    "SampleScores",
    "ScoresByMaskRate",
    "SourceGap",
    "Summaries",
    "SummarisingScores",
    "SummaryReport",
    "SummarySampler",
    "TokenImages",
    "TokenSummaries",
    "blind_bounds",
    "bound_by_time",
    "draw_filling_scores",
    "draw_held_out_masks",
    "draw_model_pictures",
    "draw_sample_pictures",
    "estimate_bound",
    "example_summaries",
    "field_notes",
    "field_section",
    "fill_held_out",
    "fit_baselines",
    "fit_field_baselines",
    "measure_calibration",
    "measure_source_gap",
    "rate_section",
    "reconstruct_held_out",
    "row_notes",
    "row_section",
    "sample_bounds",
    "save_diagrams",
    "save_samples",
    "score_filling",
    "score_model",
    "score_reconstructions",
    "score_samples",
    "score_summarising",
    "scores_by_mask_rate",
    "summarise_held_out",
    "summary_notes",
    "summary_section",
    "text_bits",
    "text_facts",
    "write_filling",
    "write_reconstructions",
    "write_rows",
    "write_summaries",
]
