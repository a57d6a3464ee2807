"""What Gloo and torch's store raise, in one sentence that names the worker."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from inalab.hosts.collective import Membership
from inalab.hosts.gloo import explain
from inalab.hosts.place import Place
from inalab.schemes.gloo import SCHEME

PLACE = Place(
    SCHEME, SCHEME.Settings(), Membership(0, 1, 3, [[0, 1, 2]]), ["10.0.0.1", "10.0.0.2", "10.0.0.3"], [], [],
    ["192.168.0.2", "192.168.0.3", "192.168.0.4"], [],
)  # fmt: skip
PAIR = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
ADVICE = (
    ". This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! 🏖️"
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (f"{PAIR}Connection closed by peer [10.0.0.3]:51616{ADVICE}", "worker 2 has closed its connection"),
        (f"{PAIR}Read error [192.168.0.2]:4507: Connection reset by peer{ADVICE}", "worker 0 has closed its connection"),
        (f"{PAIR}writev [::ffff:10.0.0.1]:4507: Broken pipe", "worker 0 has closed its connection"),
        (f"{PAIR}Connection closed by peer [10.9.9.9]:1{ADVICE}", "another worker has closed its connection"),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4500ms for recv operation to complete",
            "Gloo has waited 4.5 s for another worker",
        ),
        (f"{PAIR}op.preamble.length <= op.nbytes. 4 vs 2", "Gloo failed: op.preamble.length <= op.nbytes"),
    ],
)
def test_a_failure_of_gloo_is_one_sentence(text: str, sentences: str) -> None:
    assert explain(RuntimeError(text), PLACE) == sentences


def test_a_store_that_is_gone_is_one_sentence_without_its_forty_lines() -> None:
    text = "[c10d] recv failed: Connection reset by peer\nException raised from recvBytes at x.hpp:672\nframe #0: c10::Error"
    sentences = explain(dist.DistNetworkError(text), PLACE)
    assert sentences == "the store on worker 0, where the workers meet, does not answer: recv failed: Connection reset by peer"


def test_other_errors_are_not_explained() -> None:
    assert explain(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), PLACE) is None
    assert explain(ValueError(f"{PAIR}Connection closed by peer"), PLACE) is None
