"""What watching costs: GradGuard's own microseconds in a step, and the ratio of a step with it to one without.

    python benchmarks/own_work.py [--steps N] [--device cuda]

Four loops: three models, and 200 operations on eight elements. Own work is counted by the watch itself; the ratio comes
from stretches with and without a watch in turn, in one process. Then a long run, a diagnosis beside a large data set,
and, each in a process of its own, the start of a watch and what it holds after N steps (a million takes two minutes).
Prints Markdown for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import gradguard
from gradguard.runtime.watch import Watch

STEADY = 4_500
"""Steps after which the sensors have found their pace."""

STRETCH, STRETCHES = 1_024, 8
"""One step in 128 has work at its end, and after one in some hundreds is judged: in so many steps all of it happens."""

TURNS = 16
SECONDS_OF_A_TURN = 0.5


def mlp(device: str = "cpu") -> Callable[[], None]:
    """Three layers of 512: 2 ms a step."""
    return training(
        nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)),
        (32, 512),
        device,
    )


def convnet(device: str = "cpu") -> Callable[[], None]:
    """A small convolutional network."""
    layers = [
        nn.Conv2d(3, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(10),
    ]
    return training(nn.Sequential(*layers), (8, 3, 24, 24), device)


def transformer(device: str = "cpu") -> Callable[[], None]:
    """Two encoder layers: 60 modules."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return training(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (4, 16, 64), device)


def training(model: nn.Module, shape: tuple[int, ...], device: str) -> Callable[[], None]:
    """One step of training ``model`` on noise of ``shape``."""
    model.to(device)
    model(torch.randn(*shape, device=device))  # lazy layers get their size
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(*shape, device=device)).square().mean().backward()
        optimizer.step()

    return step


def tiny_operations(device: str = "cpu") -> Callable[[], None]:
    """200 operations on eight elements, and a step of an optimizer: 1 ms."""
    parameter = nn.Parameter(torch.zeros(8, device=device))
    parameter.grad = torch.zeros(8, device=device)
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def step() -> None:
        value = torch.ones(8, device=device)
        for _ in range(200):
            value = value * 1.0001
        optimizer.step()

    return step


def own_microseconds(step: Callable[[], None]) -> tuple[float, float, float]:
    """Own work: over the first 200 steps, in the steady state (median and mean over stretches of 1,024 steps)."""
    watch = Watch()
    with watch:
        for _ in range(200):
            step()
        first = watch.own_nanoseconds / 1000 / 200
        for _ in range(STEADY - 200):
            step()
        stretches = []
        for _ in range(STRETCHES):
            before = watch.own_nanoseconds
            for _ in range(STRETCH):
                step()
            stretches.append((watch.own_nanoseconds - before) / 1000 / STRETCH)
    return first, statistics.median(stretches), statistics.mean(stretches)


def nothing() -> Callable[[], None]:
    """A step of an optimizer that has hardly anything to do: so a watch comes to its steady state in half a second."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    return torch.optim.SGD([parameter], lr=0.1).step


def ratio(step: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds of a step without, and how many times that it takes with a watch; medians of stretches in turn.

    The watch is in its steady state, as after so many steps of a training. Each stretch with it is compared with those
    before and after it: a shared machine becomes faster and slower by more than a watch costs.
    """
    began = time.perf_counter()
    for _ in range(20):
        step()
    count = max(int(SECONDS_OF_A_TURN / ((time.perf_counter() - began) / 20)), 1)
    without, ratios = [timed(step, count)], []
    for _ in range(TURNS):
        with gradguard.watch(report=False):
            warm_up = nothing()
            for _ in range(STEADY):
                warm_up()
            for _ in range(200):
                step()
            watched = timed(step, count)
        without.append(timed(step, count))
        ratios.append(2 * watched / (without[-2] + without[-1]))
    return statistics.median(without) * 1000, statistics.median(ratios)


def late_microseconds(steps: int) -> float:
    """Own work over the last eighth of a run of ``steps`` steps."""
    step = tiny_operations()
    watch = Watch()
    with watch:
        for _ in range(steps * 7 // 8):
            step()
        before = watch.own_nanoseconds
        for _ in range(steps // 8):
            step()
        return (watch.own_nanoseconds - before) / 1000 / (steps // 8)


class Sample:
    """A sample of a data set that is held in Python objects."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.labels = {"first": number, "both": [number, number + 1]}


def diagnosis_seconds(samples: int) -> tuple[str, float]:
    """The verdict on a leaking loop beside ``samples`` samples, and the time that the close look took."""
    data = [Sample(number) for number in range(samples)]
    parameter = nn.Parameter(torch.ones(8))
    optimizer = torch.optim.SGD([parameter], lr=1e-3)
    losses = []
    with gradguard.watch(report=False) as guard:
        for sample in data[:100]:
            loss = (parameter * sample.number).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    assert guard.report is not None
    return guard.report.verdict, guard.report.diagnosis_seconds or 0.0


ALONE = """
import time, torch
from torch import nn

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

torch.set_num_threads(1)
model, x = nn.Linear(4, 4), torch.randn(2, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step():
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()

for _ in range(2_000):
    step()
before, began = resident(), time.process_time()
import gradguard
with gradguard.watch(report=False):
    step()
    started = time.process_time() - began
    for _ in range({steps}):
        step()
    print(started, resident() - before)
"""
"""A program that watches itself, and prints how long it took to its first step and how much more memory it has."""


def alone(steps: int) -> tuple[float, float]:
    """CPU seconds from `import gradguard` (torch is there) to the end of the first step, and bytes after ``steps``."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE.replace("{steps}", str(steps))], capture_output=True, text=True, check=True
    )
    started, held = done.stdout.split()
    return float(started), float(held)


def timed(step: Callable[[], None], count: int) -> float:
    """Seconds of a step, over ``count`` steps."""
    began = time.perf_counter()
    for _ in range(count):
        step()
    if torch.cuda.is_initialized():  # what was launched is not done yet
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what watching costs.")
    parser.add_argument("--steps", type=int, default=100_000, help="of the long run (default: 100,000)")
    parser.add_argument("--device", default="cpu", help="where the models of the first table are (default: cpu)")
    arguments = parser.parse_args()
    steps, device = arguments.steps, arguments.device
    torch.manual_seed(0)
    torch.set_num_threads(1)
    where = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {where}\n")
    print("| loop | ms a step | own us, first 200 steps | own us, steady (median) | (mean) | ratio with / without |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for loop in (mlp, convnet, transformer, tiny_operations):
        step = loop(device)
        first, median, mean = own_microseconds(step)
        milliseconds, times = ratio(step)
        name = loop.__name__.replace("_", " ")
        print(f"| {name} | {milliseconds:.2f} | {first:.1f} | {median:.1f} | {mean:.1f} | {times:.3f} |", flush=True)
    print(f"\nOwn microseconds at the end of 16,000 steps: {late_microseconds(16_000):.1f}.")
    for samples in (1_000, 400_000):
        verdict, seconds = diagnosis_seconds(samples)
        print(f"Diagnosis beside {samples:,} samples of 4 objects: {seconds:.2f} s, verdict {verdict}.")
    starts = sorted(alone(0)[0] for _ in range(5))
    print(f"From import to the end of the first step: {statistics.median(starts) * 1000:.0f} ms of CPU time.")
    print(f"Resident memory after {steps:,} steps: {alone(steps)[1] / 1e6:.1f} MB more.")


if __name__ == "__main__":
    main()
