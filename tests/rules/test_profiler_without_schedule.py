from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG503"

FLAGGED = {
    "around the loop": """
        def train(model, loader, optimizer):
            with torch.profiler.profile() as prof:  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            print(prof.key_averages().table())
    """,
    "stepped, but no schedule": """
        from torch.profiler import ProfilerActivity, profile

        def train(model, loader, optimizer):
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as prof:  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    prof.step()
            prof.export_chrome_trace("trace.json")
    """,
    "epochs": """
        with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:  # !
            for epoch in range(10):
                for inputs, labels in train_loader:
                    opt.zero_grad()
                    loss = F.cross_entropy(net(inputs), labels)
                    loss.backward()
                    opt.step()
    """,
    "old profiler": """
        class Trainer:
            def fit(self, loader):
                with torch.autograd.profiler.profile(use_cuda=True) as prof:  # !
                    for step, (x, y) in enumerate(loader):
                        self.optimizer.zero_grad()
                        loss = F.cross_entropy(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()
                print(prof)
    """,
    "started and stopped": """
        def train(model, loader, optimizer):
            prof = torch.profiler.profile(record_shapes=True)  # !
            prof.start()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            prof.stop()
    """,
    "handler without a schedule": """
        import torch.profiler as profiler

        def train(model, loader, optimizer, logdir):
            with profiler.profile(  # !
                activities=[profiler.ProfilerActivity.CPU],
                on_trace_ready=profiler.tensorboard_trace_handler(logdir),
            ) as p:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    p.step()
    """,
    "validation": """
        def evaluate(model, val_loader):
            model.eval()
            with torch.no_grad(), torch.autograd.profiler.profile() as prof:  # !
                for x, y in val_loader:
                    model(x)
            print(prof.key_averages())
    """,
    "the loop in a function": """
        def train_epoch(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        def main(model, loader, optimizer):
            with torch.profiler.profile() as prof:  # !
                train_epoch(model, loader, optimizer)
            prof.export_chrome_trace("trace.json")
    """,
    "through an exit stack": """
        from contextlib import ExitStack
        from torch.profiler import profile, ProfilerActivity

        def run(model, optimizer, loader, wanted):
            with ExitStack() as stack:
                prof = stack.enter_context(profile(activities=[ProfilerActivity.CPU])) if wanted else None  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            return prof
    """,
}

CLEAN = {
    "schedule": """
        def train(model, loader, optimizer):
            with torch.profiler.profile(
                schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2),
                on_trace_ready=torch.profiler.tensorboard_trace_handler("./log"),
            ) as prof:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    prof.step()
    """,
    "schedule made before": """
        from torch.profiler import profile, schedule

        def train(model, loader, optimizer):
            my_schedule = schedule(skip_first=10, wait=5, warmup=1, active=3)
            prof = profile(schedule=my_schedule)
            prof.start()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                prof.step()
            prof.stop()
    """,
    "one step": """
        def profile_step(model, x, y, optimizer):
            with torch.profiler.profile(profile_memory=True) as prof:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    """,
    "one forward": """
        def main(model, loader, optimizer):
            x, y = next(iter(loader))
            with torch.autograd.profiler.profile() as prof:
                model(x)
            print(prof)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a few steps": """
        def main(model, x, y, optimizer):
            with torch.profiler.profile() as prof:
                for _ in range(5):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            prof.export_chrome_trace("trace.json")
    """,
    "stops early": """
        def main(model, loader, optimizer):
            with torch.profiler.profile() as prof:
                for step, (x, y) in enumerate(loader):
                    if step >= 10:
                        break
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            print(prof.key_averages().table())
    """,
    "stops early, at the end": """
        def main(model, loader, optimizer):
            steps = 0
            with torch.profiler.profile(record_shapes=True) as prof:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    steps += 1
                    if steps == 3:
                        break
    """,
    "a slice of the loader": """
        from itertools import islice

        def main(model, loader, optimizer):
            with torch.profiler.profile() as prof:
                for x, y in islice(loader, 10):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            with torch.profiler.profile() as prof:
                for _, (x, y) in zip(range(10), loader):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "one step of the loop": """
        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                if step == 20:
                    with torch.profiler.profile() as prof:
                        F.cross_entropy(model(x), y).backward()
                    prof.export_chrome_trace("step20.json")
                else:
                    F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "options from elsewhere": """
        def train(model, loader, optimizer, options):
            with torch.profiler.profile(**options) as prof:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    prof.step()
    """,
    "switched off": """
        from contextlib import nullcontext

        def train(args, model, loader, optimizer):
            with torch.autograd.profiler.profile(enabled=args.profile) as prof:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            with torch.autograd.profiler.profile(enabled=False):
                for x, y in loader:
                    model(x)
    """,
    "named ranges": """
        def train(model, loader, optimizer):
            with torch.autograd.profiler.emit_nvtx():
                for x, y in loader:
                    with torch.profiler.record_function("step"):
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
    """,
    "another profiler": """
        import cProfile

        from line_profiler import profile

        @profile
        def train(model, loader, optimizer):
            with cProfile.Profile() as pr:
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            pr.print_stats()
    """,
    "stopped in the loop": """
        def train(model, loader, optimizer):
            prof = torch.profiler.profile()
            prof.start()
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step == 10:
                    prof.stop()
                    prof.export_chrome_trace("trace.json")
    """,
    "through an exit stack, with a schedule": """
        from contextlib import ExitStack
        from torch.profiler import profile, schedule

        def run(model, optimizer, loader):
            with ExitStack() as stack:
                prof = stack.enter_context(profile(schedule=schedule(wait=1, warmup=1, active=3)))
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    prof.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


MADE = """
from torch.profiler import profile, schedule

def make_profiler(args):
    plan = schedule(wait=1, warmup=3, active=args.steps, repeat=1)  # !
    return profile(record_shapes=True, schedule=plan)

def train(model, loader, optimizer, options):
    with make_profiler(options) as prof:
        for step in range(options.steps):
            x, y = next(loader)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            prof.step()

parser.add_argument("--steps", type=int, default=2000)
"""
OF_LOADER = """
import torch.profiler

def train(model, loader, optimizer):
    prof = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=len(loader) - 2),  # !
    )
    prof.start()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        prof.step()
    prof.stop()
"""
PLAIN = """
def make_profiler(shapes):
    return torch.profiler.profile(record_shapes=shapes)

def train(model, loader, optimizer):
    with make_profiler(True) as prof:  # !
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            prof.step()
"""
PARAM = twin(
    MADE,
    ("def make_profiler(args)", "def make_profiler(steps)"),
    ("active=args.steps", "active=steps"),
    ("make_profiler(options)", "make_profiler(options.steps)"),
).replace("repeat=1)", "repeat=1)  # !")
IN_PLACE = """
from torch import profiler

def train(model, loader, optimizer, iterations=500):
    window = iterations
    with profiler.profile(schedule=profiler.schedule(wait=0, warmup=0, active=window)) as prof:  # !
        for step in tqdm(range(iterations)):
            x, y = next(loader)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            prof.step()
"""
CONSTANT = (
    twin(IN_PLACE, (", iterations=500", ""), ("def train", "STEPS = int(os.environ.get('STEPS', 800))\n\ndef train"))
    .replace("iterations", "STEPS")
    .replace("active=window)) as prof:", "active=window)) as prof:  # !")
)
WHOLE = {
    "made by a helper": MADE,
    "as the loader is long": OF_LOADER,
    "without a schedule, made by a helper": PLAIN,
    "of a number that is given": PARAM,
    "of a parameter": IN_PLACE,
    "of a constant": CONSTANT,
    "of a setting": MADE.replace(
        'parser.add_argument("--steps", type=int, default=2000)', "class Options:\n    steps: int = 5_000"
    ),
    "zipped": MADE.replace("for step in range(options.steps):", "for step, _ in zip(range(options.steps), loader):"),
}
FEW = {
    "a few steps": twin(MADE, ("active=args.steps", "active=5")),
    "steps of their own": twin(MADE, ("active=args.steps", "active=args.profile_steps")),
    "the loop goes over those": MADE.replace("args.steps", "args.active_steps").replace(
        "options.steps", "options.active_steps"
    ),
    "few by default": twin(MADE, ("default=2000", "default=20")),
    "two defaults": MADE + '\nparser.add_argument("--steps", type=int, default=8)\n',
    "no default": twin(MADE, ("default=2000", "required=True")),
    "another number": twin(MADE, ("range(options.steps)", "range(options.steps * options.epochs)")),
    "the number of epochs": twin(MADE, ("active=args.steps", "active=args.epochs")),
    "never stepped": twin(MADE, ("            prof.step()\n", "")),
    "stepped once in a while": twin(
        MADE, ("            prof.step()\n", "            if step % 100 == 0:\n                prof.step()\n")
    ),
    "left early": twin(
        MADE,
        ("            prof.step()\n", "            prof.step()\n            if step > 9:\n                break\n"),
    ),
    "nothing is trained": twin(MADE, (".backward()", ".item()")),
    "of another loader": twin(OF_LOADER, ("len(loader)", "len(val_loader)")),
    "an epoch of ten": twin(OF_LOADER, ("len(loader) - 2", "len(loader) // 10")),
    "a schedule that nothing gets": twin(MADE, (", schedule=plan", ", schedule=other")),
    "another schedule": twin(MADE, ("import profile, schedule", "import profile\nfrom plans import schedule")),
    "without a schedule, for one step": twin(
        PLAIN, ("        for x, y in loader:\n", "        if True:\n            x, y = next(loader)\n")
    ),
    "a profiler that a helper keeps to itself": twin(
        PLAIN,
        (
            "    return torch.profiler.profile(record_shapes=shapes)",
            "    with torch.profiler.profile(record_shapes=shapes) as prof:\n"
            "        model(x)\n    return contextlib.nullcontext(prof)",
        ),
    ),
    "made with a schedule": twin(
        PLAIN, ("record_shapes=shapes", "schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)")
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_window_is_the_whole_run(name: str) -> None:
    assert_flagged(WHOLE[name], CODE)


@pytest.mark.parametrize("name", FEW)
def test_a_window_of_a_few_steps(name: str) -> None:
    assert_clean(FEW[name], CODE)
