from .contents import Checkpoint as Checkpoint
from .contents import checkpoint_info as checkpoint_info
from .contents import read_checkpoint as read_checkpoint
from .sharing import export_onnx as export_onnx
from .sharing import push_to_hub as push_to_hub
from .sharing import save_pretrained as save_pretrained
