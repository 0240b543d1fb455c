from .callbacks import EMA as EMA
from .loggers import MetricsLog as MetricsLog
from .loggers import TrackioLogger as TrackioLogger
from .module import DiffusionModule as DiffusionModule
from .optimizers import MuonAdamW as MuonAdamW
