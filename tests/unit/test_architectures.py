"""Published models as tables: their sizes and multiply-adds, what GPUs take, and what a workload makes of them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from inalab.hosts.training.architectures import catalog
from inalab.hosts.training.architectures.architecture import Architecture, LayerShape, Timing
from inalab.hosts.training.architectures.catalog import ARCHITECTURES, find
from inalab.hosts.training.layers import outline
from inalab.hosts.training.pipeline import BARRIER
from inalab.hosts.training.workloads import MOST_ELEMENTS
from inalab.hosts.training.workloads import find as workload
from inalab.testbed.campaign.identity import foreign_files, identity
from inalab.testbed.plan.effect import refuse_idle
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from tests.command_line import inalab

PARAMETERS = {  # as torchvision's and Hugging Face's model cards have them
    "alexnet": 61_100_840, "vgg11": 132_863_336, "vgg16": 138_357_544, "vgg19": 143_667_240, "resnet50": 25_557_032,
    "resnet101": 44_549_160, "resnet152": 60_192_808, "bert-large": 336_226_108, "gpt2": 124_439_808,
}  # fmt: skip
OWN = """
from inalab.hosts.training.architectures.architecture import Architecture, Timing, linear

ARCHITECTURE = Architecture("mine", (linear("one", 10, 20), linear("two", 20, 5)), {"here": Timing(7.0, 2, "a stopwatch")}, 0.25)
"""


def test_sizes_are_the_published_ones() -> None:
    assert {name: its.elements for name, its in ARCHITECTURES.items()} == PARAMETERS


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for stage, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, stage, 3, padding=1), nn.ReLU()]
            inputs = stage
        layers.append(nn.MaxPool2d(2))
    classifier = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *classifier)


def test_layers_are_what_torch_makes_of_them() -> None:
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model = vgg16()
        model(torch.empty(1, 3, 224, 224))
    modules = {name: m for name, m in model.named_modules() if list(m.parameters(recurse=False))}
    counts = [sum(counter.get_flop_counts()[f"Sequential.{name}"].values()) // 2 for name in modules]
    expected = [(sum(p.numel() for p in m.parameters()), count) for m, count in zip(modules.values(), counts, strict=True)]
    assert [(layer.elements, layer.multiply_adds) for layer in ARCHITECTURES["vgg16"].layers] == expected


@pytest.mark.parametrize(("name", "width", "tokens"), [("bert-large", 1024, 128), ("gpt2", 768, 512)])
def test_blocks_are_what_torch_makes_of_them(name: str, width: int, tokens: int) -> None:
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        block = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True).train()
        block(torch.empty(1, tokens, width))
    attention, forward = ARCHITECTURES[name].layers[1:3]
    assert attention.elements + forward.elements == sum(p.numel() for p in block.parameters())
    assert attention.multiply_adds + forward.multiply_adds == counter.get_total_flops() / 2


def test_a_step_takes_what_was_measured_in_proportion_to_the_batch() -> None:
    its = ARCHITECTURES["vgg16"]
    assert its.step("p100") == pytest.approx(1000 * 64 / 154) and its.step("p100", 16) == pytest.approx(its.step("p100") / 4)
    with pytest.raises(ValueError, match=r"no time of resnet101 on gpu p100 is known: choose one of v100"):
        ARCHITECTURES["resnet101"].step("p100")
    with pytest.raises(ValueError, match="the batch of vgg11 on gpu v100 is not stated: leave batch out"):
        ARCHITECTURES["vgg11"].step("v100", 64)


def test_a_part_has_as_many_layers() -> None:
    whole, part = ARCHITECTURES["resnet50"], find("resnet50/64")
    assert part is not None and len(part.layers) == len(whole.layers)
    assert part.elements == pytest.approx(whole.elements / 64, rel=1e-3)
    assert find("resnet50/0") is None and find("resnet") is None


def test_a_workload_has_an_architectures_layers_and_is_not_in_memory_for_that() -> None:
    shares = [n for _, n in outline(workload("vgg16"), layered=True)]
    products = [layer.multiply_adds for layer in ARCHITECTURES["vgg16"].layers]
    assert shares == pytest.approx([n / sum(products) for n in products])
    assert outline(workload("vgg16"), layered=False) == [(PARAMETERS["vgg16"], 1.0)]


def test_an_architecture_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    settings = make_settings(TrialSettings, {"workload": str(path), "gpu": "here", "batch": 4, "pipeline": BARRIER})
    assert (settings.compute_ms, settings.forward_share) == (14.0, 0.25)
    settings.check()
    assert [n for n, _ in outline(workload(str(path)), layered=True)] == [220, 105]
    path.write_text("ARCHITECTURE = 5")
    with pytest.raises(SettingsError, match=r"ARCHITECTURE in .*other.py is no hosts"):
        make_settings(TrialSettings, {"workload": str(path.rename(tmp_path / "other.py"))}).check()


@pytest.mark.parametrize(
    ("values", "wording"),
    [
        ({"gpu": "v100"}, "gpu is v100: workload digits-mlp is no architecture; choose one of alexnet, vgg11"),
        ({"gpu": "k80", "workload": "vgg16"}, "no time of vgg16 on gpu k80 is known: choose one of p100, v100"),
        ({"gpu": "v100", "workload": "vgg11", "batch": "8"}, "the batch of vgg11 on gpu v100 is not stated"),
        ({"gpu": "v100", "workload": "vgg16", "batch": "x"}, "batch"),
        ({"workload": "./nosuch.py"}, "there is no file ./nosuch.py"),
    ],
)
def test_what_a_gpu_is_not_known_to_take_is_one_sentence(values: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        make_settings(TrialSettings, values).check()


def test_a_gpu_and_a_time_are_not_both_set() -> None:
    settings = make_settings(TrialSettings, {"workload": "vgg16", "gpu": "p100", "compute_ms": 3.0})
    with pytest.raises(SettingsError, match="a step takes what it takes on gpu p100; leave gpu out"):
        refuse_idle(settings, ["gpu", "compute_ms"])
    refuse_idle(settings, ["gpu"])
    other = settings.changed(workload="resnet50")
    assert other.compute_ms == ARCHITECTURES["resnet50"].step("p100")


def test_what_workers_do_not_hold_is_simulated_or_cut(tmp_path: Path) -> None:
    settings = make_settings(TrialSettings, {"workload": "vgg16"})
    settings.check()
    with pytest.raises(SettingsError, match=r"set workload=vgg16/8 and divide the links' rates by 8, or choose target simulated"):
        settings.check_emulated()
    make_settings(TrialSettings, {"workload": "vgg16/8"}).check_emulated()
    assert PARAMETERS["vgg16"] / 8 < MOST_ELEMENTS < PARAMETERS["vgg16"] / 4
    done = inalab("run", "workers", "--set", "workload=vgg16", "--target", "virtual", "--results", str(tmp_path))
    assert done.returncode != 0 and "workload vgg16 has 138,357,544 elements" in done.stderr and not list(tmp_path.iterdir())


# --- profiles

SCRIPT = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

folder = sys.argv[1]
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 2000), nn.ReLU(), nn.Linear(2000, 10))
parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
observer = ExecutionTraceObserver().register_callback(folder + "/chakra.json")
observer.start()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
    for _ in range(4):
        optimizer.zero_grad()
        parallel(torch.randn(16, 64)).sum().backward()
        optimizer.step()
observer.stop()
profiled.export_chrome_trace(folder + "/profile.json")
"""


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what PyTorch writes of a script."""
    folder = tmp_path_factory.mktemp("profiles")
    done = subprocess.run([sys.executable, "-c", SCRIPT, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_profile_has_the_buckets_of_its_script_and_their_times(profiles: Path) -> None:
    found = find(f"{profiles}/profile.json")
    assert found is not None
    assert [layer.elements for layer in found.layers] == [300 * 64 + 300, 2000 * 300 + 2000 + 2000 * 10 + 10]
    assert all(layer.multiply_adds > 0 for layer in found.layers) and found.forward is not None and 0 <= found.forward < 1
    backward = sum(layer.multiply_adds for layer in found.layers)
    assert found.step("profile") * (1 - found.forward) == pytest.approx(backward, rel=1e-3)
    settings = make_settings(TrialSettings, {"workload": f"{profiles}/profile.json", "gpu": "profile", "pipeline": BARRIER})
    settings.check()
    assert (settings.compute_ms, settings.forward_share) == (found.step("profile"), found.forward)


def test_a_chakra_trace_has_the_buckets_and_no_times(profiles: Path) -> None:
    found, timed = find(f"{profiles}/chakra.json"), find(f"{profiles}/profile.json")
    assert found is not None and timed is not None
    assert [layer.elements for layer in found.layers] == [layer.elements for layer in timed.layers]
    with pytest.raises(ValueError, match=r"no time of chakra.json on gpu profile is known: set compute_ms"):
        found.step("profile")


SUM = {"ph": "X", "name": "c10d::allreduce_", "ts": 30, "dur": 1, "args": {"Input Dims": [[[7], [2, 3]]]}}
STEP, BACKWARD = (
    {"ph": "X", "name": name, "ts": 0, "dur": 10} for name in ("Optimizer.step#SGD", "autograd::engine::evaluate_function")
)


def at(event: dict[str, Any], when: int) -> dict[str, Any]:
    return event | {"ts": when}


def test_a_step_is_what_lies_between_two_of_the_optimizer(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    earlier = [at(STEP, 1000), at(SUM, 1300)]  # of a step with other sizes
    events = [*earlier, at(STEP, 2000), at(BACKWARD, 2110), at(SUM, 2310), at(SUM, 2410), at(STEP, 2500), at(SUM, 2600)]
    path.write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "a label"}, *events]}))
    found = find(str(path))
    assert found is not None and [(la.name, la.elements) for la in found.layers] == [("bucket 1", 13), ("bucket 0", 13)]
    assert [la.multiply_adds for la in found.layers] == pytest.approx([0.1, 0.2])
    assert found.step("profile") == pytest.approx(0.4) and found.forward == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "is neither torch.profiler's file"),
        ("{}", "is neither torch.profiler's file"),
        ('{"nodes": [{"id": 1}]}', "is neither torch.profiler's file"),
        (json.dumps({"traceEvents": [{**SUM, "args": {}}]}), "is neither torch.profiler's file"),
        (json.dumps({"traceEvents": [SUM, STEP]}), "has no all-reduce between two steps of an optimizer"),
        (json.dumps({"traceEvents": [STEP, SUM, at(STEP, 50)]}), "has no backward pass before a step's first sum"),
        (json.dumps({"traceEvents": [STEP, SUM, at(STEP, 50), {**STEP, "cat": "kernel"}]}), "has what a GPU does"),
    ],
)
def test_what_is_no_profile_is_one_sentence(text: str, wording: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=wording) as caught:
        make_settings(TrialSettings, {"workload": str(path)}).check()
    assert "\n" not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read as JSON"):
        make_settings(TrialSettings, {"workload": f"{tmp_path}/other.json", "gpu": "profile"})


def test_a_file_is_part_of_what_a_trial_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    trial = Trial("mine", {}, make_settings(TrialSettings, {"workload": f"{path}/2", "gpu": "here"}), 1)
    before = identity(trial, "simulated")
    assert list(foreign_files(trial)) == [str(path)]
    path.write_text(OWN.replace("20", "21"))
    assert identity(trial, "simulated") != before


LAYER = LayerShape("a", 5, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ()}, {"layers": (replace(LAYER, elements=0),)}, {"layers": (replace(LAYER, elements=1.5),)},
        {"layers": (replace(LAYER, multiply_adds=0.0),)}, {"layers": (LAYER, replace(LAYER, multiply_adds=math.nan))},
        {"layers": (LAYER, replace(LAYER, multiply_adds=-1.0))}, {"layers": (LAYER,) * 1001}, {"layers": (5,)},
        {"timings": {"here": Timing(0.0, 1, "")}}, {"timings": {"here": Timing(1.0, 0, "")}}, {"timings": None},
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_one_sentence(change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    its = Architecture("mine", (LAYER,), {"here": Timing(1.0, 1, "")})
    monkeypatch.setattr(catalog, "load", lambda source, name: replace(its, **change))
    with pytest.raises(SettingsError) as caught:
        make_settings(TrialSettings, {"workload": str(path), "gpu": "here"}).check()
    assert "\n" not in str(caught.value)


def test_a_smaller_part_of_a_part_is_offered() -> None:
    with pytest.raises(SettingsError, match="set workload=vgg16/8 and divide the links' rates by 4"):
        make_settings(TrialSettings, {"workload": "vgg16/2"}).check_emulated()
    assert catalog.divided("./mine.py/3", 2) == "./mine.py/6" and catalog.divided("vgg16", 1) == "vgg16"


def test_models_that_nothing_was_reported_of_have_no_line(tmp_path: Path) -> None:
    words = ["run", "models", "--quick", "--set", "workers=6", "--set", "part=1024", "--set", "pipeline=blocking"]
    done = inalab(*words, "--results", str(tmp_path))
    assert done.returncode == 0 and "Traceback" not in done.stderr + done.stdout
