from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG405"

TEE = """
        from itertools import islice, tee

        def pretrain(model, optimizer, stream, steps):
            batches, probes = tee(stream)  # MARK
            for i, x in enumerate(islice(batches, steps), 1):
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                USE
"""

FLAGGED = {
    "an end that is read now and then": TEE.replace("USE", "if i % 100 == 0: print(probe(model, probes))").replace(
        "MARK", "!"
    ),
    "an end that is read when all is over": TEE.replace("USE", "print(i)").replace("MARK", "!"),
    "zipped with the steps": """
        import itertools

        def train(model, loader, optimizer, steps):
            for step, (x, y) in zip(range(steps), itertools.cycle(loader)):  # !
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "next of it": """
        from itertools import cycle

        def train(model, train_loader, optimizer, max_iter):
            data_iter = iter(cycle(train_loader))  # !
            for i in range(max_iter):
                x, y = next(data_iter)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "constructed here": """
        from itertools import cycle
        from torch.utils.data import DataLoader

        def train(model, dataset, optimizer, steps):
            batches = cycle(DataLoader(dataset, batch_size=32, shuffle=True))  # !
            step = 0
            while step < steps:
                x, y = next(batches)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                step += 1
    """,
    "attribute of the trainer": """
        import itertools

        class Trainer:
            def __init__(self, net, train_set, num_steps):
                self.net, self.num_steps = net, num_steps
                self.train_loader = torch.utils.data.DataLoader(train_set, batch_size=16, shuffle=True)

            def train(self, optimizer):
                stream = itertools.cycle(self.train_loader)  # !
                for _ in range(self.num_steps):
                    x, y = next(stream)
                    optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    optimizer.step()
    """,
    "the shorter of two": """
        from itertools import cycle

        def train(model, loader_a, loader_b, optimizer):
            for (xa, ya), (xb, _) in zip(cycle(loader_a), loader_b):  # !
                loss = F.cross_entropy(model(xa), ya) + model(xb).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "dict of loaders": """
        import itertools

        def train(model, loaders, optimizer, steps):
            iters = {name: itertools.cycle(dl) for name, dl in loaders.items()}  # !
            for step in range(steps):
                for name in iters:
                    x, y = next(iters[name])
                    optimizer.zero_grad()
                    F.cross_entropy(model(x, name), y).backward()
                    optimizer.step()
    """,
    "list of loaders made here": """
        from itertools import cycle
        from torch.utils.data import DataLoader

        def train(model, domains, optimizer, steps):
            loaders = [DataLoader(d, batch_size=8, shuffle=True) for d in domains]
            streams = [cycle(l) for l in loaders]  # !
            for _ in range(steps):
                loss = sum(F.cross_entropy(model(x), y) for x, y in map(next, streams))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "around a progress bar, enumerated": """
        from itertools import cycle
        from tqdm import tqdm

        def train(model, dataloader, optimizer, steps):
            for i, (x, y) in enumerate(cycle(tqdm(dataloader))):  # !
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i >= steps:
                    break
    """,
    "tee": """
        from itertools import tee

        def normalise_then_train(model, train_loader, optimizer):
            first, second = tee(train_loader)  # !
            mean = torch.stack([x.mean() for x, _ in first]).mean()
            for x, y in second:
                optimizer.zero_grad()
                F.cross_entropy(model(x - mean), y).backward()
                optimizer.step()
    """,
    "aliases": """
        import itertools as it
        from itertools import cycle as forever

        def train(model, labeled_loader, unlabeled_loader, optimizer, steps):
            labeled = forever(labeled_loader)  # !
            unlabeled = it.cycle(iter(unlabeled_loader))  # !
            for _ in range(steps):
                (x, y), (u, _) = next(labeled), next(unlabeled)
                optimizer.zero_grad()
                (F.cross_entropy(model(x), y) + model(u).std()).backward()
                optimizer.step()
    """,
    "a helper makes it": """
        from itertools import cycle
        from torch.utils.data import DataLoader

        def infinite(dataset, batch_size):
            dl = DataLoader(dataset, batch_size, shuffle=True, drop_last=True)
            return cycle(dl)  # !

        def main(dataset, model, optimizer):
            data = infinite(dataset, 64)
            for _ in range(10_000):
                x, y = next(data)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "script, only when it is the shorter": """
        from itertools import cycle
        from torch.utils.data import DataLoader, TensorDataset

        a = DataLoader(TensorDataset(torch.randn(100, 8)), batch_size=4)
        b = DataLoader(TensorDataset(torch.randn(900, 8)), batch_size=4)
        net = nn.Linear(8, 8)
        opt = torch.optim.Adam(net.parameters())
        pairs = zip(cycle(a), b) if len(a) < len(b) else zip(a, b)  # !
        for (x,), (z,) in pairs:
            opt.zero_grad()
            F.mse_loss(net(x), z).backward()
            opt.step()
    """,
}

CLEAN = {
    "both ends in each step": TEE.replace("USE", "print(probe(model, next(probes)))"),
    "both ends at once": TEE.replace("islice(batches, steps)", "zip(batches, probes)").replace("USE", "pass"),
    "the other end is dropped": TEE.replace("            for i", "            del probes\n            for i").replace(
        "USE", "pass"
    ),
    "nothing is trained": TEE.replace("model(x).mean().backward()", "print(len(x))").replace(
        "USE", "if i % 100 == 0: print(next(probes))"
    ),
    "an end that is dropped": """
        import itertools

        def train(model, loader, optimizer):
            head, stream = itertools.tee(loader)
            model.prepare(next(head))
            del head
            for x, y in stream:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "names": """
        from itertools import cycle

        def train(model, loader, optimizer):
            tasks = cycle(["cls", "seg", "depth"])
            for x, y in loader:
                task = next(tasks)
                optimizer.zero_grad()
                F.cross_entropy(model(x, task), y[task]).backward()
                optimizer.step()
    """,
    "colours": """
        import itertools
        import matplotlib.pyplot as plt

        def plot(model, loader):
            colors = itertools.cycle("bgrcmyk")
            markers = itertools.cycle(("o", "s", "^"))
            with torch.no_grad():
                for x, y in loader:
                    plt.scatter(*model(x).T.tolist(), c=next(colors), marker=next(markers))
    """,
    "devices": """
        from itertools import cycle
        from torch.utils.data import DataLoader

        def run(models, dataset):
            devices = cycle([f"cuda:{i}" for i in range(torch.cuda.device_count())])
            placed = [m.to(next(devices)) for m in models]
            with torch.no_grad():
                for x in DataLoader(dataset, batch_size=8):
                    for m, d in zip(placed, cycle(range(4))):
                        m(x).sum().item()
    """,
    "optimizers": """
        import itertools

        class Trainer:
            def __init__(self, gen, disc, train_loader):
                self.gen, self.disc, self.train_loader = gen, disc, train_loader
                self.opts = [torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())]

            def train(self):
                turns = itertools.cycle(self.opts)
                for x, _ in self.train_loader:
                    opt = next(turns)
                    opt.zero_grad()
                    self.disc(self.gen(x)).mean().backward()
                    opt.step()
    """,
    "a generator of the project": """
        def cycle(dl):
            while True:
                for batch in dl:
                    yield batch

        def train(model, loader, optimizer, steps):
            data = cycle(loader)
            for _ in range(steps):
                x, y = next(data)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "a generator of the project, elsewhere": """
        from .utils import cycle

        class Trainer:
            def __init__(self, model, dataset):
                self.model = model
                self.dl = cycle(torch.utils.data.DataLoader(dataset, batch_size=16))
                self.opt = torch.optim.Adam(model.parameters())

            def train(self):
                for step in range(1000):
                    loss = self.model(next(self.dl)).mean()
                    loss.backward()
                    self.opt.step()
                    self.opt.zero_grad()
    """,
    "begun anew when it is exhausted": """
        def train(model, loader, optimizer, steps):
            it = iter(loader)
            for _ in range(steps):
                try:
                    x, y = next(it)
                except StopIteration:
                    it = iter(loader)
                    x, y = next(it)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "repeat and chain make new iterators": """
        import itertools

        def train(model, train_loader, optimizer, steps):
            stream = itertools.chain.from_iterable(itertools.repeat(train_loader))
            for x, y in itertools.islice(stream, steps):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "between loaders, in turn": """
        from itertools import cycle
        from torch.utils.data import DataLoader

        def train(model, source, target, optimizer, rounds):
            loaders = [DataLoader(source, batch_size=8), DataLoader(target, batch_size=8)]
            for r, loader in zip(range(rounds), cycle(loaders)):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "names of the loaders": """
        import itertools

        def train(model, loaders, optimizer, steps):
            iters = {k: iter(v) for k, v in loaders.items()}
            order = itertools.cycle(loaders.keys())
            for _ in range(steps):
                name = next(order)
                x, y = next(iters[name])
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "one batch, to overfit": """
        from itertools import cycle

        def overfit(model, loader, optimizer, steps):
            batch = next(iter(loader))
            for _, (x, y) in zip(range(steps), cycle([batch])):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "classes of the loader's data set": """
        import itertools

        def preview(model, train_loader, fig):
            labels = itertools.cycle(train_loader.dataset.classes)
            with torch.no_grad():
                for x, _ in train_loader:
                    fig.add(model(x).argmax(1).tolist(), next(labels))
    """,
    "tee of lines": """
        import itertools

        def pairs(path, model, loader):
            with open(path) as lines:
                a, b = itertools.tee(lines)
                next(b, None)
                words = list(zip(a, b))
            with torch.no_grad():
                for x in loader:
                    model(x, words)
    """,
    "values of a schedule": """
        from itertools import cycle, islice

        def train(model, loader, optimizer):
            rates = cycle(torch.linspace(1e-4, 1e-2, 10).tolist())
            for (x, y), lr in zip(loader, rates):
                optimizer.param_groups[0]["lr"] = lr
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            return list(islice(cycle((0, 1)), 10))
    """,
    "a method of that name": """
        class Stream:
            def __init__(self, loader):
                self.loader = loader

            def cycle(self, loader):
                while True:
                    yield from loader

            def train(self, model, optimizer, steps):
                for _, (x, y) in zip(range(steps), self.cycle(self.loader)):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "one loader after the other": """
        import itertools

        def train(model, train_loader, steps):
            loaders = itertools.cycle(train_loader)
            for _ in range(steps):
                for batch in next(loaders):
                    print(model(batch))
    """,
    "waypoints that are looked ahead at": """
        from itertools import tee

        class Trajectory:
            def __init__(self, iterator):
                _, self.original, self.iterator = tee(iterator, 3)

            def ahead(self, n):
                self.iterator, trial = tee(self.iterator, 2)
                return [next(trial) for _ in range(n)]
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


OBJECT = """
        import itertools

        class Source:
            def __init__(self, stream):
                self._batches, self._first = itertools.tee(stream)  # !

            def describe(self):
                x, y = next(self._first)
                return x.size(1)

            def __iter__(self):
                return self._batches

        class Trainer:
            def __init__(self, stream):
                self.source = Source(stream)
                self.net = nn.Linear(self.source.describe(), 1)
                self.opt = torch.optim.Adam(self.net.parameters())

            def fit(self):
                for x, y in self.source:
                    self.opt.zero_grad()
                    F.mse_loss(self.net(x), y).backward()
                    self.opt.step()
"""
NEXT = "\n                "
DEEPER = NEXT + "    "
SPELLINGS = {
    "returned": OBJECT,
    "gone through": OBJECT.replace("return self._batches", f"for batch in self._batches:{DEEPER}yield batch"),
    "yielded from": OBJECT.replace("return self._batches", "yield from self._batches"),
    "one by one": OBJECT.replace(
        "return self._batches", f"return self{NEXT[:-4]}def __next__(self):{NEXT}return next(self._batches)"
    ),
    "read in the constructor": OBJECT.replace(
        "tee(stream)  # !", f"tee(stream)  # !{NEXT}self.size = next(self._first)[0].size(1)"
    ).replace(f"x, y = next(self._first){NEXT}return x.size(1)", "return self.size"),
    "in a property that is computed once": OBJECT.replace("import itertools", "import itertools, functools")
    .replace("def describe", "@functools.cached_property" + NEXT[:-4] + "def describe")
    .replace("describe()", "describe"),
    "the other way about": OBJECT.replace("self._batches, self._first =", "self._first, self._batches ="),
}
IN_LOOP = "for x, y in self.source:"
READ = "x, y = next(self._first)"
ALIKE = {
    "the first is put back": ("itertools.tee(stream)", f"itertools.tee(stream){NEXT}del self._first"),
    "what reads it is called in the loop": (IN_LOOP, f"{IN_LOOP}{DEEPER}self.source.describe()"),
    "both are gone through": (READ, f"for x, y in self._first:{DEEPER}break{NEXT}{READ}"),
    "it is used elsewhere": ("def fit(self):", f"def fit(self):{NEXT}self.source._first = None"),
    "nothing trains": (".backward()", ".item()"),
    "each step reads both": (
        "return self._batches",
        f"for batch, _ in zip(self._batches, self._first):{DEEPER}yield batch",
    ),
    "it is given up": ("return x.size(1)", f"self._first = None{NEXT}return x.size(1)"),
    "put in front again": (
        "self._batches, self._first = itertools.tee(stream)",
        "self._batches = iter(stream); self._first = iter([next(self._batches)])",
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_an_object_that_keeps_both_ends(name: str) -> None:
    assert_flagged(SPELLINGS[name], CODE)


@pytest.mark.parametrize("name", ALIKE)
def test_an_object_whose_ends_keep_up(name: str) -> None:
    assert_clean(twin(OBJECT, ALIKE[name]), CODE)


ENDLESS = """
        import itertools
        import random

        def feed(source, size):
            FEED

        class Draws:
            def __init__(self, source):
                self.source = source

            def __iter__(self):
                while True:
                    yield self.source.sample(16)

        def train(model, optimizer, source, labelled):
            stream = GIVEN
            for x, u in zip(labelled, stream):
                optimizer.zero_grad()
                (model(x).mean() + model(u).std()).backward()
                optimizer.step()
"""

SAMPLES = "while True:\n                yield source.sample(size)"
CYCLED = "itertools.cycle(feed(source, 16))"

ENDS_NEVER = {
    "a call": (SAMPLES, CYCLED),
    "with a name": ("while 1:\n                x, _ = source.sample(size)\n                yield x", CYCLED),
    "counted": ("for step in itertools.count():\n                yield source.sample(step)", CYCLED),
    "a break of an inner loop": (
        "while True:\n                for x in source.draw(size):\n                    if x is None:\n"
        "                        break\n                    yield x.clone()",
        CYCLED,
    ),
    "an iterator of it": (SAMPLES, "itertools.cycle(iter(feed(source, 16)))"),
    "an object": ("yield 1", "itertools.cycle(Draws(source))"),
}

ENDS = {
    "taken as it is": (SAMPLES, "feed(source, 16)"),
    "a part of it": (SAMPLES, "itertools.cycle(list(itertools.islice(feed(source, 16), 8)))"),
    "each epoch": ("for _ in range(size):\n                yield source.sample(size)", CYCLED),
    "while there is more": ("while source.more():\n                yield source.sample(size)", CYCLED),
    "a break": (
        "while True:\n                x = source.sample(size)\n                if x is None:\n"
        "                    break\n                yield x",
        CYCLED,
    ),
    "a return": (
        "while True:\n                if source.empty():\n                    return\n"
        "                yield source.sample(size)",
        CYCLED,
    ),
    "numbers": ("while True:\n                yield random.random()", CYCLED),
    "what there is, again and again": ("while True:\n                yield from source", CYCLED),
    "names, in turn": (
        "names = ['a', 'b']\n            while True:\n                for name in names:\n"
        "                    yield name",
        CYCLED,
    ),
    "no generator": ("return [source.sample(size) for _ in range(4)]", CYCLED),
}


@pytest.mark.parametrize("name", ENDS_NEVER)
def test_a_generator_that_never_ends(name: str) -> None:
    body, given = ENDS_NEVER[name]
    assert_flagged(ENDLESS.replace("FEED", body).replace("GIVEN", f"{given}  # !"), CODE)


@pytest.mark.parametrize("name", ENDS)
def test_a_generator_that_ends_or_makes_nothing(name: str) -> None:
    body, given = ENDS[name]
    assert_clean(ENDLESS.replace("FEED", body).replace("GIVEN", given), CODE)


STARTED = """
        import itertools

        def graphs(count):
            for _ in range(count):
                nodes = torch.randn(16, 8)
                yield nodes, nodes.sum(1)

        def fit(net, optimizer, stream):
            for x, y in stream:
                optimizer.zero_grad()
                F.mse_loss(net(x).squeeze(1), y).backward()
                optimizer.step()

        def main(count):
            stream = graphs(count)
            head, stream = itertools.tee(stream)  # !
            x, y = next(head)
            net = nn.Linear(x.size(1), 1)
            optimizer = torch.optim.Adam(net.parameters())
            fit(net, optimizer, stream)
"""
STARTED_IN_SCRIPT = """
        from itertools import tee

        def scaled(samples):
            for x in samples:
                yield x / x.norm(), x.mean()

        batches, example = tee(scaled(torch.randn(64, 4) for _ in range(100_000)))  # !
        model = nn.Linear(next(example)[0].shape[1], 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in batches:
            optimizer.zero_grad()
            (model(x) - y).pow(2).mean().backward()
            optimizer.step()
"""
ALONE = " " * 12
FIT = ALONE + "fit(net, optimizer, stream)"
TEE_OF_STREAM = "head, stream = itertools.tee(stream)"
FIRST = "head = [next(stream)]; stream = itertools.chain(head, stream)"
YIELDS = "for _ in range(count):\n                nodes = torch.randn(16, 8)\n                yield nodes, nodes.sum(1)"
PART = "fit(net, optimizer, part)"
STARTED_FLAGGED = {
    "in a function": STARTED,
    "in a script": STARTED_IN_SCRIPT,
    "in a loop over chunks": STARTED.replace(FIT, f"{ALONE}for part in chunks(stream): {PART}"),
    "for each of some parts": STARTED.replace(FIT, f"{ALONE}print([{PART} for part in chunks(stream, 30)])"),
    "the generator is given": STARTED.replace("main(count)", "train(stream)").replace(
        "            stream = graphs(count)\n", ""
    )
    + "\n        train(graphs(10_000))\n",
}
STARTED_CLEAN = {
    "put in front again": twin(STARTED, (TEE_OF_STREAM, FIRST), ("next(head)", "head[0]")),
    "dropped": twin(STARTED, ("net = nn.Linear", "del head; net = nn.Linear")),
    "bound to something else": twin(STARTED, ("net = nn.Linear", "head = None; net = nn.Linear")),
    "both are gone through": twin(STARTED, (FIT, f"{ALONE}for part in zip(head, stream): {PART}")),
    "a list": twin(STARTED, ("stream = graphs(count)", "stream = list(graphs(count))")),
    "the items of a list": twin(STARTED, (YIELDS, "for row in DATA: yield row")),
    "given back with the other end": twin(STARTED, (FIT, ALONE + "return net, stream")),
    "a helper reads the rest": twin(STARTED, (FIT, f"{ALONE}watch(head)\n{FIT}")),
    "nothing trains": twin(STARTED, (".backward()", ".item()")),
}


@pytest.mark.parametrize("name", STARTED_FLAGGED)
def test_an_end_that_is_only_started(name: str) -> None:
    assert_flagged(STARTED_FLAGGED[name], CODE)


@pytest.mark.parametrize("name", STARTED_CLEAN)
def test_an_end_that_keeps_nothing_waiting(name: str) -> None:
    assert_clean(STARTED_CLEAN[name], CODE)
