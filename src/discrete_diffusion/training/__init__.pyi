from .callbacks import EMA as EMA
from .module import DiffusionModule as DiffusionModule
from .optimizers import MuonAdamW as MuonAdamW
from .trainer import MetricsLog as MetricsLog
from .trainer import TrackioLogger as TrackioLogger
