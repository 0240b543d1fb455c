from .api.loading import evaluate as evaluate
from .api.loading import from_pretrained as from_pretrained
from .api.loading import load as load
from .runs import compare as compare
from .runs import train as train
from .runtime.package import __version__ as __version__
