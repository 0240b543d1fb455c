from .pretrained import read_pretrained as read_pretrained
from .pretrained import transformers_library as transformers_library
