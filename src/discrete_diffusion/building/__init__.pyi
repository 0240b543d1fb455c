from .backbones import model_options as model_options
