from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG412"


def counting(*lines: str, made: str = "counts = {}") -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, loader, optimizer):
            {made}
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                {body}
            return counts
    """


COUNTER = "from collections import Counter\n            counts = Counter()"

FLAGGED = {
    "a count": counting("for label in y:", "    counts[label] = counts.get(label, 0) + 1  # !"),
    "of a Counter": counting("for label in y:", "    counts[label] += 1  # !", made=COUNTER),
    "of a defaultdict": counting(
        "for label, value in zip(y, loss.tolist()):",
        "    counts[label].append(value)  # !",
        made="counts = defaultdict(list)",
    ),
    "a plain dict that gets an entry first": counting(
        "for label in y:",
        "    if label not in counts:",
        "        counts[label] = []  # !",
        "    counts[label].append(1)",
    ),
    "an order of its own": counting(
        "for label in y:", "    counts[label] += 1  # !", made="counts = collections.defaultdict(int)"
    ),
    "by position": counting("for i in range(len(y)):", "    counts[y[i]] = i  # !"),
    "by position, with a name": counting("for i in range(len(y)):", "    label = y[i]", "    counts[label] = i  # !"),
    "what was predicted": counting("pred = out.argmax(1)", "for p in pred:", "    counts[p] = 1  # !"),
    "the labels of a batch, once each": counting(
        "found = torch.unique(y)", "for f in found:", "    counts[f] = 1  # !"
    ),
    "numbered": counting("for i, label in enumerate(y):", "    counts.setdefault(label, i)  # !"),
    "a half of the labels": counting("first, second = y.chunk(2)", "for label in first:", "    counts[label] = 1  # !"),
    "a set": counting("for label in y:", "    counts.add(label)  # !", made="counts = set()"),
    "an attribute that is taken from, and never is": """
        class Open:
            def __init__(self):
                self.states = {}

            def close(self, sessions: torch.Tensor):
                for session in sessions:
                    self.states.pop(session, None)  # !
    """,
    "in an evaluation": """
        @torch.no_grad()
        def evaluate(model, test_loader, device):
            model.eval()
            right = dict()
            for x, y in test_loader:
                y = y.to(device)
                hit = model(x.to(device)).argmax(dim=1) == y
                for label, ok in zip(y, hit):
                    right[label] = right.get(label, 0) + int(ok)  # !
            return right
    """,
}

CLEAN = {
    "what is looked up in a plain dict, which raises": counting(
        "for label in y:", "    counts[label].append(1)", made="counts = {0: [], 1: []}"
    ),
    "a sum in a plain dict": counting("for label in y:", "    counts[label] += 1", made="counts = {0: 0, 1: 0}"),
    "sets in a plain dict": counting(
        "for label in y:", "    counts[label].add(1)", made="counts = {k: set() for k in KEYS}"
    ),
    "what is looked up in a dict of pairs": counting(
        "for label in y:", "    counts[label].extend([1])", made="counts = dict(a=[], b=[])"
    ),
    "a defaultdict that makes nothing": counting(
        "for label in y:", "    counts[label] += 1", made="counts = defaultdict()"
    ),
    "numbers": counting("for label in y.tolist():", "    counts[label] = counts.get(label, 0) + 1"),
    "numbers of each": counting("for label in y:", "    counts[label.item()] = 1"),
    "made a number": counting("for label in y:", "    label = int(label)", "    counts[label] = 1"),
    "arrays": counting("for label in y.cpu().numpy():", "    counts[label] = 1"),
    "a list, which takes the number": counting("for label in y:", "    counts[label] += 1", made="counts = [0] * 10"),
    "a tensor": counting("for label in y:", "    counts[label] += 1", made="counts = torch.zeros(10)"),
    "made bare before": counting("labels = y.tolist()", "for label in labels:", "    counts[label] = 1"),
    "rebound to numbers": counting("y = y.tolist()", "for label in y:", "    counts[label] = 1"),
    "an array of numpy": counting("for label in y:", "    counts[label] += 1", made="counts = np.zeros(10)"),
    "what may be no dict": counting("for label in y:", "    counts[label] = 1", made="counts = make_counts()"),
    "by the place": counting("for i, label in enumerate(y):", "    counts[i] = label.item()"),
    "a part of a batch": """
        def train(model, loader, optimizer):
            seen = {}
            for batch in loader:
                loss = model(batch["x"]).mean()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                for name in batch["names"]:
                    seen[name] = 1
    """,
    "names beside tensors": """
        def train(model, loader, optimizer):
            seen = {}
            for x, y, names in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                for name, label in zip(names, y):
                    seen[name] = label.item()
    """,
    "words that something gives": """
        def train(model, loader, optimizer, tokenizer):
            seen = {}
            for x, y, meta in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                words, texts, paths = next(meta), tokenizer.decode(y), meta.pop("path")
                for word in words: seen[word] = 1
                for text in texts: seen[text] = 1
                for path in paths: seen[path] = 1
    """,
    "parameters": """
        def train(model, loader, optimizer):
            momentum = {}
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                for p in model.parameters():
                    momentum[p] = 0.9 * momentum.get(p, 0.0) + p.grad.norm().item()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "parts that a tuple holds": counting(
        "parts = y.chunk(4)",
        "for part in parts:",
        "    counts[part] = part.sum().item()",
        "total = sum(counts[part] for part in parts)",
    ),
    "parts by their place": counting("rows = torch.unbind(x)", "for i in range(4):", "    counts[rows[i]] = i"),
    "keys of a dict": counting("for key in counts:", "    counts[key] = 0"),
}


COLLATED = """
from torch.utils.data import DataLoader

def collate(rows):
    xs, ys = zip(*rows)
    return torch.stack(xs), torch.tensor(ys)

def train(model, data, optimizer):
    loader = DataLoader(data, 32, collate_fn=collate)
    counts = {}
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for label in y:
            counts[label] = counts.get(label, 0) + 1  # !
    return counts
"""
GIVEN_LOSS = ("F.cross_entropy(out, y)", "criterion(out, y)")
OWN_LOSS = twin(COLLATED, ("def train", "criterion = nn.NLLLoss()\n\ndef train"), GIVEN_LOSS).replace(
    "label, 0) + 1", "label, 0) + 1  # !"
)
OF_OBJECT = """
class Trainer:
    def __init__(self, model):
        self.model, self.counts = model, {}
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(model.parameters())

    def fit(self, loader):
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for label in y:
                self.counts[label] = self.counts.get(label, 0) + 1  # !
"""
OF_CALLER = ("DataLoader(data, 32, collate_fn=collate)", "data")
CALLERS_LOSS = (GIVEN_LOSS, ("optimizer):", "optimizer, criterion):"))
NO_TENSORS = {
    "a list": twin(COLLATED, ("torch.tensor(ys)", "list(ys)")),
    "a tuple": twin(COLLATED, ("torch.tensor(ys)", "ys")),
    "a comprehension": twin(COLLATED, ("torch.tensor(ys)", "[int(y) for y in ys]")),
    "a list in a variable": twin(
        COLLATED, ("    return", "    ys = sorted(ys)\n    return"), ("torch.tensor(ys)", "ys")
    ),
    "an array": twin(COLLATED, ("torch.tensor(ys)", "np.array(ys)"), ("counts = {}", "counts = {}; y.max()")),
    "by a method": twin(
        COLLATED,
        ("def collate(rows):", "class Batches:\n  @staticmethod\n  def collate(rows):"),
        ("torch.tensor(ys)", "list(ys)"),
        ("collate_fn=collate", "collate_fn=Batches.collate"),
    ),
    "for the criterion of a caller": twin(COLLATED, ("torch.tensor(ys)", "list(ys)"), *CALLERS_LOSS),
    "for a scorer of captions": twin(
        COLLATED,
        OF_CALLER,
        CALLERS_LOSS[0],
        CALLERS_LOSS[1],
    ),
    "for the loss of the model": twin(COLLATED, OF_CALLER, ("F.cross_entropy(out", "model.loss(out")),
    "lengths to pack": twin(
        COLLATED,
        OF_CALLER,
        ("F.cross_entropy(out, y)", "model(nn.utils.rnn.pack_padded_sequence(x, y)).mean()"),
    ),
    "made a tensor first": twin(
        COLLATED,
        OF_CALLER,
        ("F.cross_entropy(out, y)", "F.cross_entropy(out, torch.tensor(y))"),
    ),
}


@pytest.mark.parametrize("snippet", [COLLATED, OWN_LOSS, OF_OBJECT])
def test_labels_of_a_loader(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", NO_TENSORS.values(), ids=NO_TENSORS)
def test_what_a_loader_gives_as_it_is(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_collated_in_another_file(tmp_path: Path) -> None:
    """The function that makes the batches is imported, or that which makes the loader."""
    collating, training = NO_TENSORS["a list"].split("def train")
    head = "import torch\nimport torch.nn.functional as F\n"
    imported = f"{head}from torch.utils.data import DataLoader\nfrom batches import collate\n\ndef train{training}"
    given = training.replace(
        "    loader = DataLoader(data, 32, collate_fn=collate)\n", "    loader = loader_of(data)\n"
    )
    making = "\ndef loader_of(data):\n    return DataLoader(data, 32, collate_fn=collate)\n"
    for folder, main in (("one", imported), ("two", f"{head}from batches import loader_of\n\ndef train{given}")):
        (tmp_path / folder).mkdir()
        files = {"batches.py": f"{head}{collating}{making}", "main.py": main}
        assert lines_in_files(tmp_path / folder, files, CODE) == []
        files["batches.py"] = files["batches.py"].replace("list(ys)", "torch.tensor(ys)")
        assert [name for name, _ in lines_in_files(tmp_path / folder, files, CODE)] == ["main.py"]


ATTENTION = """
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.tables = {}

    def table(self, width):
        made = self.tables.get(width)
        if made is None:
            made = torch.arange(width).float()
            self.tables[width] = made  # !
        return made

    def forward(self, x, lengths):
        width = lengths.max()
        keep = torch.arange(x.shape[1]) < lengths[:, None]
        return self.proj(x * keep.unsqueeze(-1)) + self.table(width)[:, None]
"""

RAGGED = """
MASKS = dict()

def mask_for(longest, device):
    key = (longest, device)
    if key not in MASKS:
        MASKS[key] = torch.ones(longest, longest, device=device).tril()  # !
    return MASKS[key]

def train(model, optimizer, loader):
    for x, y, sizes in loader:
        sizes = torch.tensor(sizes)
        out = model(x, mask_for(torch.max(sizes) + 1, x.device))
        optimizer.zero_grad()
        F.cross_entropy(out, y).backward()
        optimizer.step()
"""

TABLES = """
class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.known = {}

    def angles(self, n):
        try:
            return self.known[n]
        except KeyError:
            found = self.known[n] = torch.arange(n)[:, None] / 10  # !
            return found

    def forward(self, x, mask):
        longest = mask.sum(1).max().long()
        return x[:, :longest] + self.angles(longest) * self.scale.unsqueeze(0) + mask.unsqueeze(1)
"""

GIVEN = {"a method": ATTENTION, "a function with a dict of the file": RAGGED, "what raises where it has none": TABLES}

GIVEN_NUMBERS = {
    "a number": twin(ATTENTION, ("lengths.max()", "lengths.max().item()")),
    "the length of a list": twin(ATTENTION, ("lengths.max()", "max(lengths.tolist())")),
    "made a number where it is used": twin(
        ATTENTION, ("made = self.tables.get", "width = int(width); made = self.tables.get")
    ),
    "by its value": twin(
        ATTENTION,
        ("self.tables.get(width)", "self.tables.get(int(width))"),
        ("self.tables[width]", "self.tables[int(width)]"),
    ),
    "a shape": twin(ATTENTION, ("lengths.max()", "x.shape[1]")),
    "what may be of numpy": twin(
        ATTENTION, ("keep = torch.arange(x.shape[1]) < lengths[:, None]", "keep = self.mask(x)")
    ),
    "of an array": twin(ATTENTION, ("width = lengths.max()", "lengths = lengths.cpu().numpy(); width = lengths.max()")),
    "made a number afterwards": twin(
        ATTENTION, ("width = lengths.max()", "width = lengths.max()\n        width = width.item()")
    ),
    "names that go round": twin(
        ATTENTION, ("width = lengths.max()", "width = other.max()\n        other = width.max()")
    ),
    "what is given itself": twin(ATTENTION, ("self.table(width)", "self.table(lengths)")),
    "emptied": ATTENTION.replace("  # !", "") + """
    def reset(self):
        self.tables.clear()
""",
    "taken out": twin(ATTENTION, ("return made", "return self.tables.pop(width)")),
    "weak keys": twin(ATTENTION, ("self.tables = {}", "self.tables = WeakKeyDictionary()")),
    "a list": twin(ATTENTION, ("self.tables = {}", "self.tables = [None] * 512")),
    "once, for a script": twin(RAGGED, ("    for x, y, sizes in loader:", "    if True:")),
    "a dict for each call": twin(RAGGED, ("    key =", "    MASKS = {}; key =")),
    "numbers of several": twin(RAGGED, ("torch.max(sizes) + 1", "int(torch.max(sizes)) + 1")),
    "of the list": twin(RAGGED, ("        sizes = torch.tensor(sizes)", ""), ("torch.max(sizes)", "max(sizes)")),
    "a place": twin(RAGGED, ("torch.max(sizes) + 1", "torch.device(x)")),
    "nothing of the mask": twin(TABLES, (".max().long()", ".max().long().item()")),
    "the parameter, one object": twin(TABLES, ("self.angles(longest)", "self.angles(self.scale)")),
}  # fmt: skip


@pytest.mark.parametrize("snippet", GIVEN.values(), ids=GIVEN)
def test_given_as_an_argument(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", GIVEN_NUMBERS.values(), ids=GIVEN_NUMBERS)
def test_given_something_else(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_given_by_another_file(tmp_path: Path) -> None:
    """The finding is in the file of what keeps them."""
    kept, given = RAGGED.replace("  # !", "").split("def train")
    files = {
        "masks.py": f"import torch\n{kept}",
        "main.py": "import torch\nimport torch.nn.functional as F\nfrom masks import mask_for\n\ndef train" + given,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("masks.py", 8)]
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("torch.max(sizes) + 1", "int(torch.max(sizes)) + 1")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


HISTORY = """
history = defaultdict(list)

def remember(users, items):
    for u, i in zip(users, items.tolist()):
        clicks = history[u]  # !
        clicks.append(i)

def train(model, log, optimizer, steps):
    for step in range(steps):
        users, items = log.next_batch()
        loss = F.cross_entropy(model(users), items)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        remember(users, items)

class Log:
    def next_batch(self):
        users = torch.randint(0, 200, (8,))
        return users, torch.randint(0, 500, (8,))

train(nn.Linear(1, 1), Log(), None, 9)
"""

METER = """
from collections import Counter

class Meter:
    def __init__(self):
        self.right, self.total = Counter(), Counter()

    def update(self, guesses, labels):
        for guess, label in zip(guesses, labels):
            self.right[label] += int(guess == label)  # !
            self.total[label] += 1  # !

def train(model, loader, optimizer, meter: Meter):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(out.argmax(1), y)
"""

READ = {
    "of the file": HISTORY,
    "of a meter": METER,
    "in the loop": counting("for label in y:", "    seen = counts[label]  # !", made="counts = defaultdict(list)"),
    "what is made in the call": twin(HISTORY, ("remember(users, items)\n\nc", "remember(torch.arange(9), items)\n\nc")),
    "what is chosen by hand": twin(METER, ("out.argmax(1), y", "out.argmax(1), y.cpu()")),
}
READ["what is made in the call"] = READ["what is made in the call"].replace("history[u]", "history[u]  # !")
READ["what is chosen by hand"] = READ["what is chosen by hand"].replace("(guess == label)", "(guess == label)  # !")
READ["what is chosen by hand"] = READ["what is chosen by hand"].replace("[label] += 1", "[label] += 1  # !")


@pytest.mark.parametrize("snippet", READ.values(), ids=READ)
def test_what_callers_give_and_what_is_read(snippet: str) -> None:
    assert_flagged(snippet, CODE)


NOT_GIVEN = {
    "numbers": twin(HISTORY, ("zip(users,", "zip(users.tolist(),")),
    "numbers of the caller": twin(HISTORY, ("remember(users, items)\n\nc", "remember(users.tolist(), items)\n\nc")),
    "a list of the program's": twin(HISTORY, ("users = torch.randint(0, 200, (8,))", "users = sample(200)")),
    "no tensor at this place": twin(HISTORY, ("return users, torch", "return list(users), torch")),
    "one of two callers gives numbers": twin(
        HISTORY, ("train(nn", "def replay(rows):\n    remember(rows, torch.zeros(9))\n\ntrain(nn")
    ),
    "a plain dict, which raises": twin(HISTORY, ("defaultdict(list)", "{}")),
    "what may be anything": twin(HISTORY, ("defaultdict(list)", "open_history()")),
    "asked for first": twin(HISTORY, ("        clicks =", "        if u not in history: continue\n        clicks =")),
    "nobody calls it": twin(HISTORY, ("        remember(users, items)\n", "")),
    "the number of each": twin(METER, ("[label]", "[label.item()]")),
    "arrays": twin(METER, ("out.argmax(1), y", "out.argmax(1), y.numpy()")),
    "names": twin(METER, ("for x, y in loader", "for x, y, names in loader"), ("out.argmax(1), y", "names, names")),
    "lists": twin(METER, ("Counter(), Counter()", "[0] * 9, [0] * 9")),
    "another one of each sort": twin(METER, ("out.argmax(1), y", "out.argmax(1), [*y]")),
}


@pytest.mark.parametrize("snippet", NOT_GIVEN.values(), ids=NOT_GIVEN)
def test_callers_that_give_no_tensor(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_callers_in_another_file(tmp_path: Path) -> None:
    meter, training = METER.split("def train")
    head = "import torch.nn.functional as F\n"
    files = {"meters.py": meter, "main.py": f"{head}from meters import Meter\n\ndef train{training}"}
    assert {name for name, _ in lines_in_files(tmp_path, files, CODE)} == {"meters.py"}
    files["main.py"] = files["main.py"].replace("out.argmax(1), y", "out.argmax(1).tolist(), y.tolist()")
    assert lines_in_files(tmp_path, files, CODE) == []
