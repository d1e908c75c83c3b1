from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG410"

FLAGGED = {
    "dicts from a file": """
        import json
        from torch.utils.data import DataLoader, Dataset

        class Captions(Dataset):
            def __init__(self, path):
                with open(path) as f:
                    self.annotations = json.load(f)  # !

            def __getitem__(self, i):
                return self.annotations[i]["caption"]

        loader = DataLoader(Captions("train.json"), batch_size=32, num_workers=4)
    """,
    "appended": """
        from torch.utils.data import DataLoader, Dataset

        class Lines(Dataset):
            def __init__(self, path):
                self.samples = []  # !
                with open(path) as f:
                    for line in f:
                        text, label = line.rstrip().split("\\t")
                        self.samples.append((text, int(label)))

        def make(path):
            dataset = Lines(path)
            return DataLoader(dataset, batch_size=8, shuffle=True, num_workers=8)
    """,
    "comprehension of tuples": """
        import os
        import torch.utils.data as data

        class Folder(data.Dataset):
            def __init__(self, root, classes):
                super().__init__()
                self.items = [(os.path.join(root, c, f), c) for c in classes for f in os.listdir(root + c)]  # !

            def __len__(self):
                return len(self.items)

        def main(root, classes):
            train_loader = data.DataLoader(dataset=Folder(root, classes), num_workers=2)
            return train_loader
    """,
    "strings": """
        class Corpus(torch.utils.data.Dataset):
            def __init__(self, path):
                self.lines = [line.strip() for line in open(path)]  # !

            def __getitem__(self, i):
                return self.lines[i]

        def train(path, model):
            for batch in torch.utils.data.DataLoader(Corpus(path), batch_size=64, num_workers=4):
                model(batch).mean().backward()
    """,
    "first a local list of dicts": """
        from torch.utils.data import DataLoader, Dataset
        import csv

        WORKERS = 6

        class Table(Dataset):
            def __init__(self, path):
                rows = []
                with open(path) as f:
                    for row in csv.reader(f):
                        rows.append({"id": row[0], "value": float(row[1])})
                self.rows = rows  # !

        class Trainer:
            def __init__(self, path):
                self.dataset = Table(path)
                self.loader = DataLoader(self.dataset, batch_size=4, num_workers=WORKERS)
    """,
    "dict of objects, class by its base": """
        from torch.utils.data import DataLoader, Dataset

        class Base(Dataset):
            def __len__(self):
                return 1000

        class Questions(Base):
            def __init__(self, records):
                self.by_id = {r["id"]: (r["question"], r["answer"]) for r in records}  # !

        def loader(records):
            ds = Questions(records)
            return DataLoader(ds, 16, num_workers=4, pin_memory=True)
    """,
    "split, in a helper of the class": """
        import json
        from torch.utils.data import DataLoader, Dataset, random_split

        class Dialogues(Dataset):
            def __init__(self, path):
                self.turns = self.read(path)  # !

            def read(self, path):
                with open(path) as f:
                    return [json.loads(line) for line in f]

        def loaders(path):
            train, val = random_split(Dialogues(path), [0.9, 0.1])
            return DataLoader(train, 8, num_workers=4), DataLoader(val, 8, num_workers=4)
    """,
}

CLEAN = {
    "no workers": """
        import json
        from torch.utils.data import DataLoader, Dataset

        class Captions(Dataset):
            def __init__(self, path):
                with open(path) as f:
                    self.annotations = json.load(f)

        loader = DataLoader(Captions("train.json"), batch_size=32, num_workers=0)
    """,
    "workers not named": """
        from torch.utils.data import DataLoader, Dataset

        class Lines(Dataset):
            def __init__(self, path):
                self.samples = []
                for line in open(path):
                    self.samples.append(line.split())

        def make(path):
            return DataLoader(Lines(path), batch_size=8, shuffle=True)
    """,
    "no loader": """
        import json
        from torch.utils.data import Dataset

        class Captions(Dataset):
            def __init__(self, path):
                self.annotations = [json.loads(line) for line in open(path)]

            def __getitem__(self, i):
                return self.annotations[i]
    """,
    "arrays": """
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Lines(Dataset):
            def __init__(self, path):
                rows = []
                for line in open(path):
                    rows.append([float(v) for v in line.split(",")])
                self.rows = np.array(rows)
                self.names = np.array([str(i) for i in range(len(rows))])

        loader = DataLoader(Lines("a.csv"), batch_size=8, num_workers=4)
    """,
    "tensors": """
        import json
        from torch.utils.data import DataLoader, Dataset

        class Pairs(Dataset):
            def __init__(self, path):
                data = json.load(open(path))
                self.x = torch.tensor([d["x"] for d in data])
                self.y = torch.stack([torch.tensor(d["y"]) for d in data])

        def main(path):
            return DataLoader(Pairs(path), batch_size=8, num_workers=4)
    """,
    "a frame": """
        import pandas as pd
        from torch.utils.data import DataLoader, Dataset

        class Table(Dataset):
            def __init__(self, path):
                self.frame = pd.read_csv(path)
                self.labels = self.frame["label"].values

            def __getitem__(self, i):
                return self.frame.iloc[i, 0], self.labels[i]

        loader = DataLoader(Table("train.csv"), num_workers=2)
    """,
    "Arrow": """
        import pyarrow as pa
        from datasets import load_dataset
        from torch.utils.data import DataLoader, Dataset

        class Texts(Dataset):
            def __init__(self, lines):
                self.lines = pa.array([line.strip() for line in lines])
                self.hub = load_dataset("imdb", split="train")

        def make(lines):
            return DataLoader(Texts(lines), batch_size=8, num_workers=4)
    """,
    "mapped from the disk": """
        import h5py
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Tokens(Dataset):
            def __init__(self, path):
                self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
                self.file = h5py.File(path + ".h5", "r")
                self.images = self.file["images"]

        loader = DataLoader(Tokens("tokens.bin"), batch_size=8, num_workers=8)
    """,
    "a few constants": """
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Digits(Dataset):
            def __init__(self, path):
                self.x = np.load(path)
                self.classes = ["cat", "dog", "bird"]
                self.mean, self.std = [0.5, 0.5, 0.5], [0.2, 0.2, 0.2]
                self.to_id = {"cat": 0, "dog": 1, "bird": 2}

        loader = DataLoader(Digits("x.npy"), batch_size=8, num_workers=4)
    """,
    "a list for one item": """
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Crops(Dataset):
            def __init__(self, path):
                self.images = np.load(path)

            def __getitem__(self, i):
                crops = []
                for k in range(4):
                    crops.append(torch.from_numpy(self.images[i, k : k + 24]))
                return {"crops": crops, "index": i}

        loader = DataLoader(Crops("x.npy"), num_workers=4)
    """,
    "a class that is no data set": """
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Vocabulary:
            def __init__(self, path):
                self.words = [w.strip() for w in open(path)]

        class Tokens(Dataset):
            def __init__(self, path):
                self.ids = np.load(path)

        vocabulary = Vocabulary("vocab.txt")
        loader = DataLoader(Tokens("ids.npy"), batch_size=8, num_workers=4)
    """,
    "another data set has the workers": """
        import json
        import numpy as np
        from torch.utils.data import DataLoader, Dataset

        class Train(Dataset):
            def __init__(self, path):
                self.x = np.load(path)

        class Val(Dataset):
            def __init__(self, path):
                self.rows = json.load(open(path))

        train_loader = DataLoader(Train("x.npy"), num_workers=8)
        val_loader = DataLoader(Val("val.json"), num_workers=0)
    """,
    "a Dataset that is not torch's": """
        from mylib import Dataset
        from torch.utils.data import DataLoader, TensorDataset

        class Records(Dataset):
            def __init__(self, path):
                self.records = [line.split() for line in open(path)]

        def main(path):
            records = Records(path)
            x = torch.tensor([[float(v) for v in r] for r in records.records])
            return DataLoader(TensorDataset(x), num_workers=4)
    """,
    "counted only": """
        import json
        from torch.utils.data import DataLoader, Dataset

        class Shards(Dataset):
            def __init__(self, path):
                with open(path) as f:
                    index = json.load(f)
                self.path = path
                self.length = len(index)
                self.offsets = torch.tensor([e["offset"] for e in index])

        loader = DataLoader(Shards("index.json"), batch_size=8, num_workers=4)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", FLAGGED)
def test_not_said_unless_asked_for(name: str) -> None:
    assert_clean(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE, Confidence.LOW)
