from .backbones import backbone_name as backbone_name
from .backbones import lacks as lacks
from .backbones import model_options as model_options
from .backbones import section as section
