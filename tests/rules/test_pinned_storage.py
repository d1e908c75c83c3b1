from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG403"

FLAGGED = {
    "two of the many parts": """
        @torch.no_grad()
        def embed(encoder, loader):
            first, third, few = [], [], []
            for ids in loader:
                hidden = encoder(ids).float()
                first.append(hidden[:, 0])  # !
                third.append(hidden[:, 2])  # !
                few.append(hidden[:, 1:, :4])  # !
            return first, third, few
    """,
    "half of it, and its mean": """
        @torch.no_grad()
        def encode(vae, loader):
            means, sizes = [], []
            for x in loader:
                both = vae(x).view(-1, 2, 20)
                mean, logvar = both[:, 0], both[:, 1]
                means.append(mean)  # !
                sizes.append(logvar.mean())
            return means, sizes
    """,
    "by an object's method": """
        class Traces:
            def __init__(self, names):
                self.names = names
                self.series = defaultdict(list)

            def record(self, forecast, truth):
                seen, wanted = forecast.detach()[0, -1], truth[0, -1]
                for name, row, column in zip(self.names, [1, 2], [3, 4]):
                    self.series[name].append(seen[row, column])  # !

        def train(net, loader, optimizer):
            traces = Traces(["a", "b"])
            for past, future in loader:
                forecast = net(past)
                loss = F.mse_loss(forecast, future)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                traces.record(forecast, future)
    """,
    "first sample of each batch": """
        def train(model, loader, optimizer):
            samples = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                samples.append(x[0])  # !
            return samples
    """,
    "first token": """
        @torch.no_grad()
        def embed(model, loader):
            model.eval()
            embeddings = []
            for ids, mask in loader:
                hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
                embeddings.append(hidden[:, 0])  # !
            return torch.cat(embeddings)
    """,
    "a slice": """
        class Gallery:
            def __init__(self, encoder):
                self.encoder = encoder
                self.gallery = []

            def build(self, loader):
                with torch.no_grad():
                    for images, _ in loader:
                        feats = self.encoder(images).flatten(1)
                        self.gallery.append(feats[:5])  # !
    """,
    "split and chunk": """
        def means(vae, loader):
            mus, heads = [], []
            with torch.no_grad():
                for x, _ in loader:
                    h = vae.encode(x.flatten(1)).float()
                    mus.append(h.chunk(2, dim=1)[0])  # !
                    heads.append(h.split(4, dim=1)[0].detach())  # !
            return torch.cat(mus), heads
    """,
    "narrow": """
        def collect(net, loader):
            kept = []
            with torch.inference_mode():
                for x in loader:
                    logits = net(x)
                    kept.append(logits.narrow(1, 0, 4))  # !
            return kept
    """,
    "dict keyed by the step": """
        def train(model, loader, optimizer):
            previews = {}
            for step, (images, target) in enumerate(loader):
                out = model(images)
                loss = F.mse_loss(out, target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                previews[step] = out.detach()[0]  # !
    """,
    "comprehension": """
        def previews(model, train_loader):
            with torch.no_grad():
                return [model(images).sigmoid()[:4] for images, _ in train_loader]  # !
    """,
    "through a variable, in a tuple": """
        def train(model, loader, optimizer, epochs):
            log = []
            for epoch in range(epochs):
                for i, (x, y) in enumerate(loader):
                    optimizer.zero_grad()
                    logits = model(x)
                    F.cross_entropy(logits, y).backward()
                    optimizer.step()
                    example = logits.detach()[-1]
                    log.append((epoch, i, example))  # !
    """,
    "a helper takes the part": """
        def first(batch: torch.Tensor) -> torch.Tensor:
            return batch[0].detach()

        def train(model, loader, optimizer):
            shown = []
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                shown += [first(x)]  # !
    """,
    "script, a while loop": """
        net = nn.Linear(32, 32)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        kept = defaultdict(list)
        step = 0
        while step < 1000:
            noise = torch.randn(512, 32)
            opt.zero_grad()
            net(noise).pow(2).mean().backward()
            opt.step()
            kept["noise"].append(noise[:4])  # !
            step += 1
    """,
    "the first of several, the others dropped": """
        class Preview:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer
                self.gallery = []

            def step(self, noisy, clean):
                out = self.net(noisy)
                loss = F.mse_loss(out, clean)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                first, *_ = (noisy - out.detach()).unbind(0)
                self.gallery.append((noisy.size(0), first))  # !
    """,
}

CLEAN = {
    "a measure of one class": """
        from torch_geometric.utils import precision, recall
        import measures

        def train(model, loader, optimizer):
            rows = {"precision": [], "recall": [], "f1": []}
            for x, y in loader:
                out = model(x)
                optimizer.zero_grad()
                F.cross_entropy(out, y).backward()
                optimizer.step()
                predicted = out.argmax(1)
                rows["precision"].append(precision(predicted, y, 2)[1])
                rows["recall"].append(recall(predicted, y, 2)[1])
                rows["f1"].append(measures.f1_score(predicted, y, 2)[1])
            return rows
    """,
    "the two halves that a model gives": """
        class VAE(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(784, 40)
                self.decoder = nn.Linear(20, 784)

            def forward(self, x):
                both = self.encoder(x).view(-1, 2, 20)
                mean, logvar = both[:, 0, :], both[:, 1, :]
                return self.decoder(mean), mean, logvar

        def test(loader):
            model = VAE()
            means, logvars = [], []
            with torch.no_grad():
                model.eval()
                for x, y in loader:
                    out, mean, logvar = model(x)
                    means.append(mean.detach())
                    logvars.append(logvar.detach())
            return torch.cat(means), torch.cat(logvars)
    """,
    "parts side by side": """
        @torch.no_grad()
        def encode(net, loader, n):
            kept = defaultdict(list)
            for x in loader:
                h = net(x).float()
                kept["head"].append(h[:, :5])
                kept["body"].append(h[:, 5 : n - 5])
                kept["tail"].append(h[:, n - 5 :])
            return kept
    """,
    "both halves of a chunk": """
        @torch.no_grad()
        def encode(net, loader):
            means, logvars = [], []
            for x in loader:
                h = net(x).float()
                means.append(h.chunk(2, dim=1)[0])
                logvars.append(h.chunk(2, dim=1)[1])
            return means, logvars
    """,
    "one of several tensors that a function gives": """
        def train(net, loader, optimizer):
            kept = []
            for batch in loader:
                data = {k: v[:8] for k, v in batch.items()}
                loss = net(data).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(data["labels"].sort()[0])
                kept.append(data["labels"].unique(return_counts=True)[0])
                kept.append(torch.unique(data["labels"], return_inverse=True)[1])
                kept.append(torch.std_mean(data["scores"])[0])
                kept.append(torch.linalg.svd(data["scores"])[1])
                kept.append(data["scores"].mode()[0])
                kept.append(data["labels"].nonzero(as_tuple=True)[0])
    """,
    "an action of an agent": """
        class Agent:
            def __init__(self, actor, noise, optimizer):
                self.actor, self.noise, self.optimizer = actor, noise, optimizer

            def act(self, state):
                if self.explores:
                    return self.actor(state).detach().cpu().numpy() + self.noise.sample()
                return self.actor(state).detach().cpu().numpy()

            def learn(self, states):
                loss = -self.actor(states).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def run(agent, env, memory):
            actions, state = [], env.reset()
            while True:
                action = agent.act(torch.tensor(state))[0]
                state, reward, done, info = env.step(action)
                actions.append(action)
                agent.learn(memory.sample())
    """,
    "an action that is a tensor": """
        def run(actor, env, optimizer):
            actions, state = [], env.reset()
            while True:
                action = actor(torch.tensor(state).float()).tanh()[0]
                state, reward, done, info = env.step(action.detach().numpy())
                loss = -reward * action.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                actions.append(action.detach())
    """,
    "into a tensor that a callee is given": """
        def decode(net, seen, weights):
            for i in range(4):
                for j in range(9):
                    weights[i, j] = F.softmax(net(seen), dim=1)[0].detach()

        def train(net, loader, optimizer):
            weights = torch.zeros(4, 9, 5)
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                decode(net, x, weights)
    """,
    "into a row of a tensor that a callee is given": """
        def decode(net, seen, weights, j):
            weights[j] = F.softmax(net(seen), dim=1)[0].detach()

        def train(net, loader, optimizer):
            weights = torch.zeros(9, 5)
            for j, (x, y) in enumerate(loader):
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                decode(net, x, weights, j)
    """,
    **{
        f"by an object's method, {name}": twin(FLAGGED["by an object's method"], edit)
        for name, edit in {
            "a copy": ("seen[row, column])", "seen[row, column].clone())"),
            "a number": ("seen[row, column])", "seen[row, column].item())"),
            "a product": ("seen[row, column])", "seen[row, column] * 2)"),
            "a bounded one": ("defaultdict(list)", "defaultdict(lambda: deque(maxlen=9))"),
            "in another place": (
                "self.series[name].append(seen[row, column])",
                "self.series[name] = seen[row, column]",
            ),
        }.items()
    },
    "what a mask picks of a view": """
        @torch.no_grad()
        def statistics(net, loader):
            kept = defaultdict(list)
            for x, labels in loader:
                features = net(x)[:, 0]
                for label in labels.unique():
                    kept[int(label)].append(features[labels == label])
            return kept
    """,
    "boxes of each image, scaled in place": """
        @torch.no_grad()
        def ground_truth(net, val_loader):
            boxes = []
            for images, targets, sizes in val_loader:
                net(images)
                for i in range(len(images)):
                    width, height = sizes[i][0], sizes[i][1]
                    found = targets[i].numpy()
                    found[:, 0] *= width
                    found[:, 1] *= height
                    boxes.append(found)
            return boxes
    """,
    "cloned": """
        def train(model, loader, optimizer):
            samples, states = [], []
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                F.cross_entropy(out, y).backward()
                optimizer.step()
                samples.append(x[0].clone())
                states.append(out[:, 0].detach().clone())
    """,
    "conversions that copy": """
        def collect(model, loader):
            first, halves = [], []
            with torch.no_grad():
                for x in loader:
                    out = model(x).float()
                    first.append(out[:, 0].contiguous())
                    halves.append(out[0].half())
            return first, halves
    """,
    "copied from the device": """
        @torch.no_grad()
        def embed(model, loader):
            model.cuda().eval()
            embeddings = []
            for ids in loader:
                hidden = model(ids.cuda()).last_hidden_state
                embeddings.append(hidden[:, 0].cpu())
            return torch.cat(embeddings)
    """,
    "numbers": """
        def evaluate(model, loader):
            scores, rows = [], []
            with torch.no_grad():
                for x, y in loader:
                    out = model(x)
                    scores.append(out[0, 0].item())
                    rows.append(out[0].tolist())
                    rows.extend(out[:, 1].tolist())
            return scores, rows
    """,
    "indexed by a tensor": """
        def hard_examples(model, loader, k):
            kept = []
            with torch.no_grad():
                for x, y in loader:
                    losses = F.cross_entropy(model(x), y, reduction="none")
                    idx = losses.topk(k).indices
                    kept.append(x[idx])
                    kept.append(x[losses > 1.0])
                    kept.append(x[torch.randperm(len(x))[:5]])
            return torch.cat(kept)
    """,
    "indexed by a list": """
        def collect(net, loader):
            few = []
            with torch.no_grad():
                for x, y in loader:
                    out = net(x)
                    few.append(out[[0, -1]])
                    few.append(out[y == 1])
                    few.append(out.index_select(0, torch.tensor([0, 1])))
            return few
    """,
    "all the rows": """
        def predict(model, loader):
            out = []
            with torch.no_grad():
                for x, _ in loader:
                    y = model(x)
                    for i in range(y.shape[0]):
                        out.append(y[i])
            return out
    """,
    "all the rows, at once": """
        def predict(model, loader):
            out, again = [], []
            with torch.no_grad():
                for x, _ in loader:
                    y = model(x)
                    out.extend(y)
                    again += list(y.unbind(0))
                    again.extend(y[i] for i in range(len(y)))
            return out, again
    """,
    "both halves": """
        def encode(vae, loader):
            mus, logvars = [], []
            with torch.no_grad():
                for x, _ in loader:
                    mu, logvar = vae.encode(x).chunk(2, dim=1)
                    mus.append(mu)
                    logvars.append(logvar)
            return torch.cat(mus), torch.cat(logvars)
    """,
    "the whole": """
        def predict(model, loader):
            out = []
            with torch.no_grad():
                for x, _ in loader:
                    y = model(x)
                    out.append(y)
                    out.append(y[:])
            return torch.cat(out)
    """,
    "results of arithmetic": """
        def evaluate(model, loader):
            diffs, firsts = [], []
            with torch.no_grad():
                for x, y in loader:
                    p = model(x).softmax(1)
                    diffs.append(p[:, 0] - p[:, 1])
                    firsts.append(x[0] * 0.5 + 0.5)
                    firsts.append(torch.stack([x[0], x[1]]))
            return diffs, firsts
    """,
    "the batch is a tuple": """
        def collect(loader, net):
            inputs, targets, paths = [], [], []
            with torch.no_grad():
                for batch in loader:
                    inputs.append(batch[0])
                    targets.append(batch[1])
                    paths.append(batch[-1])
                    net(batch[0])
            return inputs, targets, paths
    """,
    "the batch is a dict": """
        def collect(loader, model):
            labels, ids = [], []
            with torch.no_grad():
                for batch in loader:
                    out = model(batch["input_ids"])
                    labels.append(batch["labels"])
                    ids.append(out["logits"])
            return torch.cat(labels), torch.cat(ids)
    """,
    "the model returns a tuple": """
        @torch.no_grad()
        def predict(model, loader):
            logits, states = [], []
            for batch in loader:
                outputs = model(**batch)
                logits.append(outputs[0].detach())
                states.append(outputs[1])
            return torch.cat(logits), states
    """,
    "the only layer is the whole state": """
        class Sentiment:
            def __init__(self):
                self.gru = nn.GRU(64, 128, batch_first=True)
                self.states = []

            @torch.no_grad()
            def encode(self, loader):
                for x, _ in loader:
                    _, h = self.gru(x)
                    self.states.append(h[-1])
                return torch.cat(self.states)
    """,
    "values and indices": """
        def evaluate(model, loader):
            best, order = [], []
            with torch.no_grad():
                for x, _ in loader:
                    out = model(x)
                    best.append(out.max(dim=1)[1])
                    best.append(torch.max(out, 1)[0])
                    order.append(out.sort(dim=1, descending=True)[1])
                    order.append(torch.topk(out, 5)[1])
            return best, order
    """,
    "shapes and strings": """
        def statistics(model, loader):
            sizes, names, first = [], [], []
            for x, path in loader:
                model(x).mean().backward()
                sizes.append(x.shape[0])
                sizes.append(x.size()[-1])
                name = path[0].split("/")[0]
                names.append(name[:5])
                first.append(path[0])
            return sizes, names, first
    """,
    "lists of images": """
        def detect(model, loader, device):
            shown = []
            with torch.no_grad():
                for images, targets in loader:
                    images = [img.to(device) for img in images]
                    outputs = list(model(images))
                    shown.append(images[0])
                    shown.append((outputs[0], targets[0]))
            return shown
    """,
    "numpy": """
        import numpy as np

        def fit(model, data: np.ndarray, optimizer, steps):
            kept = []
            for _ in range(steps):
                batch = np.random.permutation(data)[:32]
                optimizer.zero_grad()
                model(torch.from_numpy(batch)).mean().backward()
                optimizer.step()
                kept.append(batch[0].mean())
                kept.append(np.asarray([3, 4])[0])
    """,
    "one image at a time": """
        @torch.no_grad()
        def segment(model, images, transform):
            masks = []
            for image in images:
                x = transform(image).unsqueeze(0)
                out = model(x)
                masks.append(model(x)[0])
                masks.append(out.softmax(1)[0])
            return masks
    """,
    "batches of one": """
        from torch.utils.data import DataLoader

        def run(model, dataset):
            results = []
            loader = DataLoader(dataset, batch_size=1)
            with torch.no_grad():
                for x, _ in loader:
                    y = model(x)
                    results.append(y[0])
            return results
    """,
    "one batch only": """
        def train(model, loader, optimizer):
            shown = []
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i == 0:
                    shown.append(x[:8])
                if len(shown) < 4:
                    shown.append(x[0])
            return shown
    """,
    "for this batch, or for a few": """
        def train(model, loader, optimizer):
            recent = deque(maxlen=4)
            for x, y in loader:
                crops = []
                for k in range(4):
                    crops.append(x[:, :, k : k + 24])
                loss = sum(F.cross_entropy(model(c), y) for c in crops)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                recent.append(x[0])
    """,
    "joined": """
        def embed(model, loader):
            bank = torch.zeros(0, 128)
            with torch.no_grad():
                for x, _ in loader:
                    h = model(x)
                    bank = torch.cat([bank, h[:, 0]])
                    last = h[-1]
            return bank, last
    """,
    "the first of several, copied": """
        class Preview:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer
                self.gallery = []

            def step(self, noisy, clean):
                out = self.net(noisy)
                loss = F.mse_loss(out, clean)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                first, *_ = (noisy - out.detach()).unbind(0)
                self.gallery.append((noisy.size(0), first.clone()))
    """,
    "first and rest, both kept": """
        def train(model, loader, optimizer):
            heads, tails = [], []
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
                head, *tail = (x * 2).unbind(0)
                heads.append(head)
                tails.append(tail)
            return heads, tails
    """,
    "learning rates": """
        def train(model, loader, optimizer, rates):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                rates.append(optimizer.state_dict()["param_groups"][0]["lr"])
                rates.append(optimizer.param_groups[0]["lr"])
    """,
    "the only sample of a batch of one": """
        def encode(model, loader, device):
            model.eval()
            labels = []
            with torch.no_grad():
                for batch in loader:
                    images = batch["images"].to(device)
                    found = batch["labels"]
                    print(model(images).shape)
                    labels.append(found[0].numpy())
            return labels
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_the_first_sample_of_an_evaluation_may_be_the_only_one() -> None:
    snippet = """
        def previews(model, loader):
            with torch.no_grad():
                return [model(images).sigmoid()[0] for images, _ in loader]  # !
    """
    assert_flagged(snippet, CODE, Confidence.LOW)
    assert_clean(snippet, CODE)


def test_one_item_of_what_is_no_batch_of_a_training_may_be_all() -> None:
    snippet = """
        def train(net, steps, optimizer):
            kept = []
            for _ in range(steps):
                noise = torch.randn(512, 32)
                optimizer.zero_grad()
                net(noise).pow(2).mean().backward()
                optimizer.step()
                kept.append(noise[0])  # !
    """
    assert_flagged(snippet, CODE, Confidence.LOW)
    assert_clean(snippet, CODE)


def test_the_indices_that_where_finds_are_no_view_of_anything() -> None:
    assert_clean(
        """
        def train(net, loader, optimizer):
            found = []
            for x in loader:
                out = net(x)
                optimizer.zero_grad()
                out.mean().backward()
                optimizer.step()
                found.append(torch.where(out > 0)[0])
            return found
    """,
        "GG403",
    )


TAKEN_BY_A_CALLEE = """
    class Trail:
        def __init__(self):
            self.rows, self.best = [], None

        def note(self, batch):
            {note}

    def last(x):
        return x[:, -1]

    class Trainer:
        def __init__(self, net, optimizer):
            self.net, self.optimizer, self.trail = net, optimizer, Trail()

        def step(self, past, future):
            out = self.net(past)
            loss = F.mse_loss(out, future)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.trail.note({given})
            return loss.item()

        def fit(self, loader):
            for past, future in loader:
                self.step(past, future)
"""


@pytest.mark.parametrize(
    "note",
    [
        "self.rows.append(batch[0, 0])",
        "self.rows.append(batch[0, 0, -3:].detach())",
        "self.rows.append(batch.detach()[:, 0])",
        "self.rows.append((batch[:, 0], 1))",
        "self.rows.append(batch[:, 0].numpy())",
        "row = batch[0, :, 0]; self.rows += [row]",
        "self.rows.append(last(batch))",
    ],
)
@pytest.mark.parametrize("given", ["past", "out.detach()", "future"])
def test_a_part_that_a_callee_takes(note: str, given: str) -> None:
    assert_flagged(TAKEN_BY_A_CALLEE.format(note=f"{note}  # !", given=given), CODE)


@pytest.mark.parametrize(
    "note",
    [
        "self.rows.append(batch[0, 0].clone())",
        "self.rows.append(batch[0, 0, -3:].tolist())",
        "self.rows.append(batch[0, 0].cpu())",
        "self.rows.append(batch[0, 0].mean().item())",
        "self.rows.append(float(batch[0, 0, 0]))",
        "self.rows.append(batch[:, 0] * 2)",
        "self.rows.append(batch[:, 0].argmax())",
        "self.rows.append(batch[batch > 0])",
        "self.rows.append(batch[[0, 1]])",
        "self.best = batch[:, 0]",
        "self.rows.append(batch[:, 0]); self.rows = self.rows[-10:]",
    ],
)
def test_a_copy_or_a_bounded_part_in_a_callee(note: str) -> None:
    assert_clean(TAKEN_BY_A_CALLEE.format(note=note, given="past"), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "given", ["{'a': past}", "(past, future)", "[loss.item(), 1.0]", "unknown(past)", "past.shape"]
)
def test_one_item_of_what_is_no_tensor(given: str) -> None:
    assert_clean(TAKEN_BY_A_CALLEE.format(note="self.rows.append(batch[0])", given=given), CODE)


PICKED = """
        from dataclasses import dataclass

        @dataclass
        class Entry:
            step: int
            image: torch.Tensor

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(16, 4)

            def forward(self, x):
                return self.fc(x.flatten(1))

        def worst_of(losses):
            return int(losses.detach().argmax())

        def train(loader):
            net, rows = Net(), []
            opt = torch.optim.SGD(net.parameters(), 0.1)
            for x, y in loader:
                losses = F.cross_entropy(net(x), y, reduction="none")
                opt.zero_grad()
                losses.mean().backward()
                opt.step()
                {pick}
                {keep}
            return rows
"""


@pytest.mark.parametrize(
    "pick",
    ["k = int(losses.argmax())", "k = losses.argmax().item()", "k = worst_of(losses)", "k = 0"],
)
@pytest.mark.parametrize(
    "keep",
    ["rows.append(x[{}])", "rows.append((len(rows), x[{}].detach()))", "rows.append(Entry(len(rows), x[{}].detach()))"],
)
def test_one_sample_of_each_batch_by_its_number(pick: str, keep: str) -> None:
    key = "0" if pick == "k = 0" else "k"
    assert_flagged(PICKED.format(pick=pick, keep=keep.format(key) + "  # !"), CODE)
    for copied in (keep.replace("x[{}]", "x[{}].clone()"), keep.replace("x[{}]", "x[{}].mean()")):
        assert_clean(PICKED.format(pick=pick, keep=copied.format(key).replace(".detach()", "")), CODE)


def test_what_is_to_be_copied_is_named_within_what_is_stored() -> None:
    for keep in ("rows.append(Entry(0, x[k].detach()))", "entry = Entry(0, x[k]); rows.append(entry)"):
        (finding,) = findings(PICKED.format(pick="k = worst_of(losses)", keep=keep), CODE)
        assert finding.message.startswith("`x[k]` is a view")
        assert finding.help == "store a copy: `x[k].clone()`"


@pytest.mark.parametrize(
    "keep",
    [
        "for j in range(len(x)): i = losses.argsort()[j].item(); rows.append(x[i])",
        "for i in losses.argsort().tolist(): rows.append(x[i])",
        "rows += [x[i] for i in range(len(x))]",
        "for i, row in enumerate(x): rows.append(x[i])",
        "k = torch.tensor([k]); rows.append(x[k])",
        "best = x[k]",
        "rows.append(x[k]); rows = rows[-20:]",
        "rows.append(x[k : k + 1] * 2)",
        "found = y.cpu().numpy(); rows.append(losses.detach()[np.arange(len(x)), found])",
        "found = losses.detach().cpu().numpy(); rows.extend(found[np.arange(len(x)), y.numpy()])",
    ],
)
def test_rows_in_turn_copies_and_a_few(keep: str) -> None:
    assert_clean(PICKED.format(pick="k = int(losses.argmax())", keep=keep), CODE)


@pytest.mark.parametrize(
    "taken_apart",
    [
        "x = x['image']",
        "x, _ = x",
        "x = x.image",
        "x = torch.cat([each for each in x])",
        "x = torch.cat(list(x.values()))",
        "x = torch.stack([*x])",
    ],
)
def test_a_batch_that_the_model_takes_apart_may_be_no_tensor(taken_apart: str) -> None:
    takes = f"def forward(self, x):\n                {taken_apart}\n"
    snippet = PICKED.replace("def forward(self, x):\n", takes).replace("for x, y in loader", "for x in loader")
    assert_clean(snippet.format(pick="k = 0", keep="rows.append(x[0])").replace(", y, reduction", ", reduction"), CODE)


GREY = """
        @torch.no_grad()
        def show(net, loader):
            kept = []
            for x, y in loader:
                out = net(x)
                kept.append(out[0, 1].unsqueeze(0).SHOWN)  # !
            return kept
"""


@pytest.mark.parametrize("shown", ["expand(3, -1, -1)", "view(1, -1)", "squeeze(0)"])
def test_a_view_of_a_sample(shown: str) -> None:
    assert_flagged(GREY.replace("SHOWN", shown), CODE)


@pytest.mark.parametrize(
    "shown", ["repeat(3, 1, 1)", "repeat(3, 1, 1).view(-1)", "expand(3, -1, -1).clone()", "tile(3)"]
)
def test_copies_of_a_sample(shown: str) -> None:
    assert_clean(twin(GREY.replace("SHOWN", shown)), CODE)


HEADS = """
    from torch.utils.data import DataLoader

    class Gaussian(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.model = nn.Linear(features, 2)

        def forward(self, x):
            output = self.model(x)
            return GIVEN

        @torch.no_grad()
        def predict(self, dataset):
            self.eval()
            kept = []
            for x, y in DataLoader(dataset, batch_size=64):
                STORED
            return kept

        @torch.no_grad()
        def predict_at_once(self, dataset):
            self.eval()
            return [AT_ONCE for x, y in DataLoader(dataset, batch_size=64)]
"""


def _heads(given: str, stored: str, at_once: str) -> str:
    return HEADS.replace("GIVEN", given).replace("STORED", stored).replace("AT_ONCE", at_once)


@pytest.mark.parametrize(
    "given",
    ["output[:, :1], F.softplus(output[:, 1:])", "output[:, :1].squeeze(1), output[:, 1:].exp()",
     "F.relu(output[:, :4]), output[:, 4:]", "output[:, :1].clone(), output.mean(1)"],
)  # fmt: skip
@pytest.mark.parametrize("stored", ["kept.append(self(x))", "mean, var = self(x); kept.append(mean)"])
def test_heads_that_share_out_all_of_an_output(given: str, stored: str) -> None:
    assert_clean(_heads(given, stored, "self(x)"), CODE)


@pytest.mark.parametrize("given", ["output[:, 0], output.mean(1)", "output[:, :1], F.softplus(output[:, 0])"])
def test_a_view_in_a_tuple_that_a_model_returns(given: str) -> None:
    loop, at_once = findings(_heads(given, "kept.append(self(x))", "self(x)"), CODE)
    for finding in (loop, at_once):
        assert "`self(x)` holds a view" in finding.message
        assert finding.help == "store a copy of that part of `self(x)`: call `.clone()` on it"


def test_a_view_that_a_model_returns() -> None:
    for finding in findings(_heads("output[:, 0]", "kept.append(self(x))", "self(x)"), CODE):
        assert finding.help == "store a copy: `self(x).clone()`"
    assert_flagged(_heads("output[:, 0]", "kept.append(self(x))  # !", "self(x).clone()"), CODE)


GALLERY = """
    class Gallery:
        def __init__(self):
            self.rows = {}

        def add(self, names, tokens):
            NOTE

    @torch.no_grad()
    def fill(model, loader):
        gallery = Gallery()
        for names, x in loader:
            gallery.add(names, model(x))
        return gallery
"""


@pytest.mark.parametrize("note", ["self.rows[names] = tokens[:, 0]", "self.rows.update(zip(names, tokens[:, 0]))"])
def test_a_callee_takes_a_column_of_every_row(note: str) -> None:
    assert_flagged(GALLERY.replace("NOTE", f"{note}  # !"), CODE)


@pytest.mark.parametrize(
    "note",
    [
        "self.rows[names] = tokens[:, 0].clone()",
        "self.rows[names] = tokens[:, 0].cpu().numpy().copy()",
        "self.rows[names] = tokens.mean(1)",
        "self.rows.update(zip(names, tokens[:, 0].tolist()))",
        "self.rows['last'] = tokens[:, 0]",
        "self.rows[names] = tokens[0]",
    ],
)
def test_a_callee_copies_a_column_or_takes_an_item(note: str) -> None:
    assert_clean(GALLERY.replace("NOTE", note), CODE)
