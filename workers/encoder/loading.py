"""Loading a pair: the encoder's GGUF and the head's file, checked against each other, and warmed up."""

from contextlib import ExitStack
from pathlib import Path

from workers.backend import BackendError
from workers.build import UnusableBuild
from workers.encoder.classifier import Classifier
from workers.encoder.config import Config, open_tensors
from workers.encoder.errors import UnusableModel
from workers.encoder.head import Head
from workers.encoder.layout import Layout
from workers.encoder.model import Encoder
from workers.llama import check_build
from workers.question import WARM_UP


def load_pair(gguf: Path, head_file: Path, threads: int) -> Classifier:
    """Load a model and return it warm.

    The head comes first: it is small, and what is wrong with it is found at once.

    Args:
        gguf: The encoder.
        head_file: The head, safetensors or npz.
        threads: Processor threads for the encoder.

    Raises:
        BackendError: A file cannot be used, the two are no pair, or the installed build would crash.
    """
    tensors = open_tensors(head_file)
    config = Config.read(tensors)
    head = Head.read(tensors, layers=config.layers)
    try:
        check_build()
    except UnusableBuild as error:
        raise BackendError(str(error)) from error
    encoder = Encoder(gguf, max_len=config.limits.max_len, threads=threads)
    with ExitStack() as stack:
        stack.callback(encoder.close)
        if encoder.width != head.width:
            reason = f"rows of {head.width} numbers; those of {gguf} have {encoder.width}"
            raise UnusableModel(head_file, reason)
        layout = Layout(encoder.tokenize, encoder.special, config.limits)
        classifier = Classifier(encoder, head, layout, config.calibration)
        classifier.classify(WARM_UP)
        stack.pop_all()
    return classifier
