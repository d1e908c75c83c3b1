from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG505"

FLAGGED = {
    "in the first iteration of each epoch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for i, (x, y) in enumerate(loader):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    if i == 0:
                        fig = plt.figure()  # !
                        fig.gca().imshow(x[0])
                        fig.savefig(f"{epoch}.png")
    """,
    "in the first iteration of each call": """
        import matplotlib.pyplot as plt

        def train_epoch(model, loader, optimizer, epoch):
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i == 0:
                    show(x, epoch)

        def show(x, epoch):
            fig = plt.figure()  # !
            fig.gca().imshow(x[0])
            fig.savefig(f"{epoch}.png")

        def train(model, loader, optimizer):
            for epoch in range(100):
                train_epoch(model, loader, optimizer, epoch)
    """,
    "where a counter that is set back has a number": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            since = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                since += 1
                if since == 10:
                    since = 0
                    fig = plt.figure()  # !
                    fig.gca().imshow(x[0])
                    fig.savefig("now.png")
    """,
    "where a counter of some iterations has a number": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            kept = 0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                if loss < 0.1:
                    kept += 1
                if kept == 0:
                    fig = plt.figure()  # !
                    fig.gca().imshow(x[0])
                    fig.savefig("now.png")
    """,
    "saved each epoch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            history = []
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    history.append(loss.item())
                plt.figure()  # !
                plt.plot(history)
                plt.savefig(f"loss_{epoch}.png")
    """,
    "subplots each batch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                out = model(x)
                loss = F.mse_loss(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                fig, axes = plt.subplots(1, 2, figsize=(8, 4))  # !
                axes[0].imshow(x[0, 0].cpu())
                axes[1].imshow(out[0, 0].detach().cpu())
                fig.savefig(f"samples/{step:06d}.png")
    """,
    "script": """
        from matplotlib import pyplot

        for epoch in range(100):
            for real in train_loader:
                opt.zero_grad()
                loss = net(real).mean()
                loss.backward()
                opt.step()
            fig = pyplot.figure(figsize=(4, 4))  # !
            ax = fig.add_subplot(111)
            ax.scatter(*net.sample(500).detach().numpy().T)
            fig.savefig(f"out/epoch{epoch}.pdf", bbox_inches="tight")
    """,
    "logged as an image": """
        import matplotlib.pyplot as plt
        import wandb

        class Trainer:
            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        loss = F.cross_entropy(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()
                    fig, ax = plt.subplots()  # !
                    ax.hist(self.model.fc.weight.detach().flatten().numpy())
                    wandb.log({"weights": wandb.Image(fig), "epoch": epoch})
    """,
    "axes cleared, figure kept": """
        import matplotlib.pyplot as plt

        def fit(net, batches, opt, max_steps):
            losses, step = [], 0
            while step < max_steps:
                x, y = next(batches)
                opt.zero_grad()
                loss = F.mse_loss(net(x), y)
                loss.backward()
                opt.step()
                losses.append(loss.item())
                fig, ax = plt.subplots()  # !
                ax.plot(losses)
                fig.savefig("loss.png")
                ax.cla()
                step += 1
    """,
    "deleted, not closed": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig = plt.figure()  # !
                plt.bar(range(3), model(torch.zeros(1, 4)).softmax(-1)[0].tolist())
                fig.savefig("probs.png")
                del fig
    """,
    "in a helper": """
        import matplotlib.pyplot as plt

        def save_samples(images, path):
            fig, axes = plt.subplots(4, 4)  # !
            for ax, image in zip(axes.flat, images):
                ax.imshow(image.permute(1, 2, 0))
                ax.axis("off")
            fig.savefig(path)

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    loss = F.mse_loss(model(x), x)
                    loss.backward()
                    optimizer.step()
                save_samples(model(x).detach().cpu(), f"epoch{epoch}.png")
    """,
    "every tenth epoch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs, losses):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                if epoch % 10 == 9:
                    fig = plt.figure()  # !
                    fig.add_subplot(1, 1, 1).plot(losses)
                    fig.savefig("losses.png")
    """,
}

CLEAN = {
    "in the first iteration, by a counter": """
        import matplotlib.pyplot as plt

        def show(values):
            plt.figure(dpi=300)
            plt.plot(values)
            plt.savefig("start.png")

        def fit(model, x, y, optimizer, n):
            step = 1
            for _ in range(n):
                optimizer.zero_grad()
                out = model(x)
                F.mse_loss(out, y).backward()
                if step == 1:
                    show(out.detach().numpy())
                optimizer.step()
                step += 1
    """,
    "in one epoch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            for epoch in range(100):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                if epoch == 0 and model.shows:
                    fig = plt.figure()
                    fig.gca().imshow(x[0])
                    fig.savefig("first.png")
    """,
    "in one step of all epochs": """
        import matplotlib.pyplot as plt

        class Trainer:
            def fit(self, loader, epochs):
                total = 0
                for epoch in range(epochs):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()
                        if 100 == total:
                            fig = plt.figure()
                            fig.gca().imshow(x[0])
                            fig.savefig("early.png")
                        total += 1
    """,
    "of the first batch": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if i == 0:
                    fig, ax = plt.subplots()
                    ax.imshow(x[0])
                    fig.savefig("first.png")
    """,
    "while a condition holds": """
        import matplotlib.pyplot as plt

        def train(model, batches, optimizer, steps):
            step = 0
            while step < steps:
                x, y = next(batches)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if step == 5:
                    plt.figure()
                    plt.imshow(x[0])
                    plt.savefig("fifth.png")
                step += 1
    """,
    "the same figure again": """
        import matplotlib.pyplot as plt

        def train(net, opt, loader):
            for step, (x, y) in enumerate(loader):
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                fig, ax = plt.subplots(num=1, clear=True)
                ax.plot([loss.item()])
                fig.savefig(f"{step}.png")
    """,
    "closed": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                fig, ax = plt.subplots()
                ax.imshow(model.fc.weight.detach())
                fig.savefig(f"{epoch}.png")
                plt.close(fig)
    """,
    "the current one is closed": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            losses = []
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                plt.figure()
                plt.plot(losses)
                plt.savefig("loss.png")
                plt.close()
    """,
    "all closed": """
        import matplotlib.pyplot as plt

        class Trainer:
            def fit(self, loader, epochs):
                for epoch in range(epochs):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()
                    for name, p in self.model.named_parameters():
                        fig = plt.figure()
                        plt.hist(p.detach().flatten().numpy())
                        fig.savefig(f"{epoch}_{name}.png")
                    plt.close("all")
    """,
    "closed whatever happens": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                fig = plt.figure()
                try:
                    fig.gca().imshow(x[0, 0])
                    fig.savefig(f"{step}.png")
                finally:
                    plt.close(fig)
    """,
    "the same number": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                plt.figure(1)
                plt.clf()
                plt.plot(losses)
                plt.pause(0.001)
    """,
    "the same name": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                fig = plt.figure("weights")
                fig.clf()
                fig.gca().imshow(model.fc.weight.detach())
                fig, ax = plt.subplots(num=2, clear=True)
                ax.imshow(x[0])
                fig.savefig("x.png")
    """,
    "made before the loop": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            fig, ax = plt.subplots()
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                ax.clear()
                ax.plot(losses)
                fig.savefig("loss.png")
    """,
    "after the loop": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            plt.figure(figsize=(6, 4))
            plt.plot(losses)
            plt.savefig("loss.png")
    """,
    "shown": """
        import matplotlib.pyplot as plt

        for epoch in range(10):
            for x, y in train_loader:
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
            plt.figure()
            plt.imshow(net.fc.weight.detach())
            plt.show()
    """,
    "returned": """
        import matplotlib.pyplot as plt

        def plot_weights(model):
            fig, ax = plt.subplots()
            ax.imshow(model.fc.weight.detach())
            return fig

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig = plot_weights(model)
                fig.savefig("weights.png")
                plt.close(fig)
    """,
    "TensorBoard closes it": """
        import matplotlib.pyplot as plt
        from torch.utils.tensorboard import SummaryWriter

        def train(model, loader, optimizer, epochs):
            writer = SummaryWriter()
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig = plt.figure()
                plt.imshow(model.fc.weight.detach())
                writer.add_figure("weights", fig, epoch)
    """,
    "no pyplot": """
        from matplotlib.figure import Figure

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig = Figure(figsize=(4, 4))
                fig.subplots().imshow(model.fc.weight.detach())
                fig.savefig(f"{epoch}.png")
    """,
    "no new figure": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs):
            losses = []
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                plt.subplot(1, 2, 1)
                plt.plot(losses)
                plt.savefig("loss.png")
                plt.clf()
    """,
    "another figure": """
        import plotly.graph_objects as go

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig = go.Figure()
                fig.add_heatmap(z=model.fc.weight.detach())
                fig.write_html(f"{epoch}.html")
    """,
    "closed by a helper": """
        import matplotlib.pyplot as plt

        def save_and_close(fig, path):
            fig.tight_layout()
            fig.savefig(path)
            plt.close(fig)

        def train(model, loader, optimizer, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                fig, ax = plt.subplots()
                ax.imshow(model.fc.weight.detach())
                save_and_close(fig, f"{epoch}.png")
    """,
    "given to somebody": """
        import matplotlib.pyplot as plt
        from utils import finish

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                fig = plt.figure()
                fig.gca().imshow(x[0])
                finish(fig)
    """,
    "in the last epoch only": """
        import matplotlib.pyplot as plt

        def train(model, loader, optimizer, epochs, losses):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                if epoch == epochs - 1:
                    fig = plt.figure()
                    fig.add_subplot(1, 1, 1).plot(losses)
                    fig.savefig("losses.png")
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


ASKED = """
        import matplotlib.pyplot as plt

        def draw(precision, recall):
            fig, ax = plt.subplots(1, 1)  # !
            ax.plot(recall, precision)
            fig.savefig("curve.png")

        def measure(precision, recall, plot=DEFAULT, folder="."):
            if plot:
                draw(precision, recall)
            return (precision * recall).sum()

        def train(model, loader, optimizer, epochs, options):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                stats = evaluate(model, loader)
                print(measure(CALL))
"""


@pytest.mark.parametrize(
    "call",
    [
        "*stats, plot=False",
        "plot=False, *stats",
        "*stats, folder='out', plot=False",
        "*stats, plot=False, **options",
        "stats[0], *stats[1:], plot=False",
        "stats[0], stats[1], False",
        "stats[0], stats[1], False, **options",
    ],
)
@pytest.mark.parametrize("default", ["False", "True"])
def test_a_figure_that_no_call_asks_for(call: str, default: str) -> None:
    snippet = ASKED.replace("  # !", "").replace("DEFAULT", default)
    assert_clean(snippet.replace("CALL", call), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "call",
    ["*stats, plot=True", "*stats, plot=options.plot", "*stats", "*stats, **options", "stats[0], *stats[1:], False"],
)
@pytest.mark.parametrize("default", ["False", "True"])
def test_a_figure_that_a_call_may_ask_for(call: str, default: str) -> None:
    assert_flagged(ASKED.replace("DEFAULT", default).replace("CALL", call), CODE, Confidence.LOW)


NAMED = """
    import matplotlib.pyplot as plt

    def train(self, model, loader, optimizer, figures):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            {made}
            plt.imshow(x[0])
            plt.savefig(f"{{i}}.png")
"""


@pytest.mark.parametrize(
    ("made", "closes"),
    [
        ("fig = plt.figure()", "plt.close(fig)"),
        ("canvas, axes = plt.subplots(2)", "plt.close(canvas)"),
        ("self.fig, _ = plt.subplots()", "plt.close(self.fig)"),
        ("_, ax = plt.subplots(figsize=(4, 5))", "plt.close()"),
        ("plt.figure(figsize=(10, 4))", "plt.close()"),
        ("ax = plt.figure().gca()", "plt.close()"),
        ("figures[i] = plt.figure()", "plt.close()"),
    ],
)
def test_the_help_names_the_figure(made: str, closes: str) -> None:
    (finding,) = findings(NAMED.format(made=made), CODE, Confidence.LOW)
    assert finding.help == f"call `{closes}` when it is saved"


DRAWN = """
    {imports}

    def train(model, loader, optimizer):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            fig, ax = {plt}.subplots()
            ax.plot(range(9))
            fig.savefig(f"{{i}}.png")
            {end}
"""


@pytest.mark.parametrize(
    ("imports", "plt"),
    [
        ("import matplotlib.pylab as plt", "plt"),
        ("from matplotlib import pylab", "pylab"),
        ("import pylab as pl", "pl"),
    ],
)
def test_by_the_names_of_pylab(imports: str, plt: str) -> None:
    open_one = DRAWN.format(imports=imports, plt=plt, end="pass").replace("subplots()", "subplots()  # !")
    assert_flagged(open_one, CODE)
    assert_clean(DRAWN.format(imports=imports, plt=plt, end=f"{plt}.close(fig)"), CODE)


TWO = """
    import matplotlib.pyplot as plt

    def as_array(figure):
        return np.asarray(figure.canvas.buffer_rgba())

    def alignment(found):
        fig, ax = plt.subplots(){mark}
        ax.imshow(found)
        {first}
        return as_array(fig)

    def spectrogram(found):
        fig, ax = plt.subplots()
        ax.imshow(found)
        image = as_array(fig)
        {second}
        return image

    class Logger:
        def sample(self, out):
            self.add_image("alignment", alignment(out[0]))
            self.add_image("mel", spectrogram(out[1]))

    def train(model, loader, optimizer, logger):
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = F.mse_loss(out, y)
            loss.backward()
            optimizer.step()
            logger.sample(out)
            {end}
"""


@pytest.mark.parametrize("second", ["plt.close(fig)", "plt.close()"])
def test_a_helper_closes_its_own_figure_alone(second: str) -> None:
    assert_flagged(TWO.format(first="pass", second=second, end="pass", mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        ("plt.close(fig)", "plt.close(fig)", "pass"),
        ("plt.close()", "plt.close()", "pass"),
        ("pass", "plt.close('all')", "pass"),
        ("pass", "plt.close(fig)", "plt.close('all')"),
        ("pass", "pass", "plt.close('all')"),
    ],
)
def test_figures_that_are_all_closed(first: str, second: str, end: str) -> None:
    assert_clean(TWO.format(first=first, second=second, end=end, mark=""), CODE)


PLOTTED = """
    import matplotlib.pyplot as plt

    epochs = 500

    def plot(epoch):
        fig = plt.figure()  # !
        fig.gca().plot(model(x).detach())
        fig.savefig(f"{epoch}.png")

    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if epoch % 50 == 9:
            plot(epoch)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("epoch % 50 == 9", "epoch % 25 == 0"),
        ("epoch % 50 == 9", "not (epoch + 1) % 50"),
        ("epochs = 500", "epochs = 5000\n    every = 500"),
        ("range(epochs)", "range(500)"),
        ("range(epochs)", "tqdm(range(epochs))"),
    ],
)
def test_few_figures_as_numbers_say(before: str, after: str) -> None:
    edits = [(before, after)] if before else []
    edits += [("epoch % 50", "epoch % 500")] if "5000" in after else []
    assert_clean(twin(PLOTTED, *edits), CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("epoch % 50 == 9", "epoch % 5 == 0"),
        ("epoch % 50 == 9", "True"),
        ("epoch % 50 == 9", "epoch % every == 0"),
        ("epochs = 500", "epochs = 50000"),
        ("epochs = 500", "epochs = int(sys.argv[1])"),
        ("epochs = 500", "epochs = 500\n    if full: epochs = 9000"),
        ("range(epochs)", "itertools.count()"),
    ],
)
def test_many_figures(before: str, after: str) -> None:
    assert_flagged(PLOTTED.replace(before, after), CODE)


NOW_AND_THEN = """
    import matplotlib.pyplot as plt

    def show(out, path):
        plt.figure(figsize=(8, 8))  # !
        plt.imshow(out)
        plt.savefig(path)

    def draw_losses(losses, path):
        fig = plt.figure()
        plt.plot(losses)
        plt.savefig(path)
        CLOSED

    def train_epoch(model, loader, optimizer, epoch):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            out = model(x)
            loss = F.mse_loss(out, y)
            loss.backward()
            optimizer.step()
            if i % 500 == 0:
                show(out[0].detach(), f"{epoch}.png")
        return loss.item()

    def main(model, loader, optimizer):
        losses = []
        for epoch in range(1000):
            losses.append(train_epoch(model, loader, optimizer, epoch))
            draw_losses(losses, "losses.png")
"""


@pytest.mark.parametrize(
    "edits",
    [
        [("CLOSED", 'plt.close("all")')],
        [("CLOSED", "plt.close(fig='all')")],
        [("CLOSED", "pass"), ('draw_losses(losses, "losses.png")', 'plt.close("all")')],
        [("CLOSED", "plt.close('all')"), ("def main(model, loader, optimizer)", "if __name__ == '__main__'")],
        [("CLOSED", "plt.close('all')"), ("losses.append(train_epoch(", "losses.append(run_epoch(")],
    ],
)
def test_each_caller_closes_what_is_made_now_and_then(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(NOW_AND_THEN, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("CLOSED", "plt.close()")],
        [("CLOSED", "plt.close(fig)")],
        [("CLOSED", 'plt.close("all")'), ('draw_losses(losses, "losses.png")', "print(losses)")],
        [("CLOSED", 'plt.close("all")'), ("if i % 500 == 0", "with plt.style.context('dark')")],
        [
            ("CLOSED", 'plt.close("all")'),
            (
                "    def main(",
                "    def quick(model, loader, optimizer):\n        for epoch in range(1000):\n"
                "            train_epoch(model, loader, optimizer, epoch)\n\n    def main(",
            ),
        ],
    ],
)
def test_a_caller_leaves_the_figures(edits: list[tuple[str, str]]) -> None:
    snippet = NOW_AND_THEN
    for edit in edits:
        snippet = snippet.replace(*edit)
    assert_flagged(snippet, CODE)
