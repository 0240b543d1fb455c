from .ema import EMA as EMA
from .metrics_log import MetricsLog as MetricsLog
from .module import DiffusionModule as DiffusionModule
from .optimizers import MuonAdamW as MuonAdamW
from .trackio_logger import TrackioLogger as TrackioLogger
