from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG401"

FLAGGED = {
    "a handle in the place of the one before": """
        class Probe:
            def __init__(self, net, names):
                self.net, self.acts, self.grads, self.handles = net, {}, {}, {}
                for name in names:
                    layer = net.get_submodule(name)
                    self.handles[name] = layer.register_forward_hook(self.keep_act)  # !
                    self.handles[name] = layer.register_full_backward_hook(self.keep_grad)

            def keep_act(self, layer, given, output):
                self.acts[layer] = output.detach()

            def keep_grad(self, layer, grad_in, grad_out):
                self.grads[layer] = grad_out[0].detach()

            def __call__(self, x):
                self.net(x).max(1).values.sum().backward()
                return [self.grads[layer] * act for layer, act in self.acts.items()]

            def close(self):
                for handle in self.handles.values():
                    handle.remove()

        def focus(net, x):
            probe = Probe(net, ["mid", "high"])
            try:
                return probe(x)
            finally:
                probe.close()

        def train(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                focus(net, x)

        train(nn.Linear(4, 2), [], None)
    """,
    "handles in each other's place, by flags, in a context that is there": """
        class Probe:
            def __init__(self, net, acts=True, grads=True):
                self.net, self.acts, self.grads, self.handles, self.kept = net, acts, grads, {}, []

            def layers(self):
                for name, layer in self.net.named_modules():
                    if name.endswith("fc"):
                        yield name, layer

            def keep_act(self, layer, given, output):
                print(output.norm().item())

            def keep_grad(self, layer, grad_in, grad_out):
                print(grad_out[0].norm().item())

            def __enter__(self):
                for name, layer in self.layers():
                    if self.acts:
                        self.handles[name] = layer.register_forward_hook(self.keep_act)  # !
                    if self.grads:
                        self.handles[name] = layer.register_full_backward_hook(self.keep_grad)
                return self

            def __exit__(self, *error):
                for handle in (*self.handles.values(), *self.kept):
                    handle.remove()
                self.handles.clear()

        def train(net, loader, optimizer):
            probe = Probe(net)
            for x, y in loader:
                with probe:
                    loss = F.cross_entropy(net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
    """,
    "a context that is there": """
        class Probe:
            def __init__(self, net):
                self.net, self.handles = net, []

            def look(self, layer, given, output):
                print(output.norm().item())

            def __enter__(self):
                for layer in self.net.children():
                    self.handles.append(layer.register_forward_hook(self.look))  # !
                return self

            def __exit__(self, *error):
                print(error)

        def train(net, loader, optimizer):
            probe = Probe(net)
            for x, y in loader:
                with probe:
                    loss = F.cross_entropy(net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
    """,
    "an object that registers one, and is never closed": """
        class Maps:
            def __init__(self, model, layer):
                self.model = model
                self.seen = None
                self.handle = layer.register_forward_hook(self.look)  # !

            def look(self, module, given, output):
                self.seen = output

            def __call__(self, image):
                score = self.model(image).max()
                return torch.autograd.grad(score, self.seen)[0]

            def close(self):
                self.handle.remove()

            def __enter__(self):
                return self

            def __exit__(self, *error):
                self.close()

        def explain(model, loader):
            found = []
            for x, y in loader:
                found.append(Maps(model, model.body)(x).cpu())
            return found
    """,
    "handle dropped": """
        def extract(model, loader, save):
            with torch.no_grad():
                for x in loader:
                    model.layer4.register_forward_hook(save)  # !
                    model(x)
    """,
    "handle kept, never removed": """
        def extract(model, loader, save):
            handles = []
            with torch.no_grad():
                for x in loader:
                    handles.append(model.layer4.register_forward_hook(save))  # !
                    model(x)
    """,
    "every module, every epoch": """
        def train(model, loader, optimizer, hook):
            for epoch in range(10):
                for m in model.modules():
                    m.register_full_backward_hook(hook)  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    """,
    "in a helper": """
        def activations(model, x, store):
            model.backbone.register_forward_hook(lambda m, i, o: store.append(o))  # !
            return model(x)

        def run(model, loader):
            with torch.no_grad():
                for x in loader:
                    store = []
                    activations(model, x, store)
    """,
    "hook on a parameter": """
        def train(model, loader, optimizer, clip):
            for x, y in loader:
                model.fc.weight.register_hook(clip)  # !
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "registered through a variable, on what is looked up": """
        import functools

        def keep(slot, key, module, inputs, output):
            slot[key] = output

        class Cam:
            def __init__(self, model):
                self.model = model

            def __call__(self, layer, x):
                slot = {}
                module = self.model.get_submodule(layer)
                for install in (module.register_forward_hook, module.register_full_backward_hook):
                    install(functools.partial(keep, slot, "a"))  # !
                self.model(x).sum().backward()
                return slot

        def train(net, loader, optimizer):
            cam = Cam(net)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                cam("features.3", x)
    """,
}

CLEAN = {
    "a handle as a context": """
        def train(net, opt, loader):
            for x, y in loader:
                with net.layer.register_forward_hook(lambda module, args, output: None):
                    loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """,
    "handles under keys of their own": twin(
        FLAGGED["a handle in the place of the one before"],
        ("self.handles[name] = layer.register_full", 'self.handles[name + "grad"] = layer.register_full'),
    ),
    "handles under keys of their own, by flags": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("self.handles[name] = layer.register_full", 'self.handles[name, "grad"] = layer.register_full'),
    ),
    "a list of handles, by flags": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("self.handles[name] = layer.register_forward", "self.handles[name, 0] = layer.register_forward"),
    ),
    "one handle or another, by a flag": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("                if self.grads:", "                else:"),
    ),
    "one handle and no more, by a flag": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("(self.keep_act)", "(self.keep_act)\n                        continue"),
    ),
    "one handle for each word": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("if self.acts:", 'if self.acts == "forward":'),
        ("if self.grads:", 'if self.acts == "backward":'),
    ),
    "one handle is kept elsewhere, by flags": twin(
        FLAGGED["handles in each other's place, by flags, in a context that is there"],
        ("(self.keep_act)", "(self.keep_act)\n                        self.kept.append(self.handles[name])"),
    ),
    "a context that is there, and removes": twin(
        FLAGGED["a context that is there"], ("print(error)", "[handle.remove() for handle in self.handles]")
    ),
    "a context that registers once": twin(
        FLAGGED["a context that is there"],
        ("for layer in", "if self.handles:\n                    return self\n                for layer in"),
    ),
    "one handle or another": twin(
        FLAGGED["a handle in the place of the one before"],
        (
            "self.handles[name] = layer.register_forward_hook(self.keep_act)\n                    self",
            "if name:\n                        self.handles[name] = layer.register_forward_hook(self.keep_act)\n"
            "                    else:\n                        self",
        ),
    ),
    "an object that registers one, as a context": twin(
        FLAGGED["an object that registers one, and is never closed"],
        (
            "found.append(Maps(model, model.body)(x).cpu())",
            "with Maps(model, model.body) as maps:\n                    found.append(maps(x).cpu())",
        ),
    ),
    "an object that registers one, and is closed": twin(
        FLAGGED["an object that registers one, and is never closed"],
        (
            "found.append(Maps(model, model.body)(x).cpu())",
            "maps = Maps(model, model.body)\n                found.append(maps(x).cpu())\n                maps.close()",
        ),
    ),
    "once": """
        def extract(model, loader, save):
            model.layer4.register_forward_hook(save)
            with torch.no_grad():
                for x in loader:
                    model(x)
    """,
    "one for each module": """
        def watch(model, hook):
            for name, module in model.named_modules():
                if isinstance(module, nn.Conv2d):
                    module.register_forward_hook(hook)
    """,
    "one for each layer by index": """
        def watch(model, hook, layers):
            for i in layers:
                model.blocks[i].register_forward_hook(hook)
                getattr(model, f"layer{i}").register_forward_hook(hook)
    """,
    "removed": """
        def extract(model, loader, save):
            with torch.no_grad():
                for x in loader:
                    handle = model.layer4.register_forward_hook(save)
                    try:
                        model(x)
                    finally:
                        handle.remove()
    """,
    "all removed": """
        def extract(model, loader, save):
            with torch.no_grad():
                for x in loader:
                    handles = [m.register_forward_hook(save) for m in model.children()]
                    model(x)
                    for h in handles:
                        h.remove()
    """,
    "on a tensor of the iteration": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                out.register_hook(lambda g: g * 2)
                F.cross_entropy(out, y).backward()
                optimizer.step()
    """,
    "a new model each time": """
        def trials(build, loader, hook):
            for _ in range(3):
                net = build()
                net.fc.register_forward_hook(hook)
                with torch.no_grad():
                    for x in loader:
                        net(x)
    """,
    "atexit": """
        import atexit

        def main(model, loader, hook):
            with torch.no_grad():
                for x in loader:
                    atexit.register(hook)
                    model(x)
    """,
    "registered through a variable, once": """
        def prepare(net, hook):
            install = net.head.register_forward_hook
            install(hook)

        def train(net, loader, optimizer, hook):
            prepare(net, hook)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
    """,
    "layers that are made in the constructor": """
        def normalised(module):
            module.register_forward_pre_hook(print)
            return module

        class Stack(nn.Module):
            def __init__(self, size, rnn_cell=nn.LSTMCell):
                super().__init__()
                self.layers = nn.ModuleList()
                for _ in range(3):
                    rnn = rnn_cell(size, size)
                    self.layers.append(normalised(rnn))
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


OF_LAYERS = """
    from contextlib import ExitStack, contextmanager

    def saver(kept, name):
        def hook(module, inputs, output):
            kept[name] = output.detach()
        return hook

    {context}
    def features(net, names):
        kept, handle, handles = {{}}, None, []
        layers = dict(net.named_modules())
        for name in names:
            {register}
        {end}

    def train(net, loader, optimizer, names):
        for x in loader:
            {call}
            loss = net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
LOST = [
    "handle = layers[name].register_forward_hook(saver(kept, name)){mark}",
    "handle = net.get_submodule(name).register_forward_hook(saver(kept, name)){mark}",
    "handle = getattr(net, name).register_forward_hook(saver(kept, name)){mark}",
]


@pytest.mark.parametrize("register", LOST)
@pytest.mark.parametrize("is_context", [True, False])
def test_only_the_last_handle_of_several_is_removed(register: str, is_context: bool) -> None:
    context, end = ("@contextmanager", "yield kept\n        handle.remove()") if is_context else ("", "handle.remove()")
    call = "with features(net, names) as found: net(x)" if is_context else "features(net, names)"

    def written(register: str, end: str) -> str:
        return OF_LAYERS.format(context=context, register=register, end=end, call=call)

    assert_flagged(written(register.format(mark="  # !"), end), CODE)
    each = end.replace("handle.remove()", "for handle in handles: handle.remove()")
    assert_clean(written(register.format(mark="; handles.append(handle)"), each), CODE)


@pytest.mark.parametrize(
    "register",
    [
        "handle = layers[name].register_forward_hook(saver(kept, name)); handle.remove()",
        "handle = layers[name].register_forward_hook(saver(kept, name)); break",
        "if name == 'last': handle = layers[name].register_forward_hook(saver(kept, name))",
    ],
)
def test_one_handle_of_a_loop_over_layers(register: str) -> None:
    snippet = OF_LAYERS.format(context="", register=register, end="handle.remove()", call="features(net, names)")
    assert_clean(snippet, CODE)


@pytest.mark.parametrize(
    "register",
    [
        "stack.callback(layer.register_forward_hook(saver(kept, 'a')).remove)",
        "handle = layer.register_forward_hook(saver(kept, 'a')); stack.callback(handle.remove)",
        "stack.enter_context(layer.register_forward_hook(saver(kept, 'a')))",
    ],
)
def test_what_a_stack_removes(register: str) -> None:
    assert_clean(
        f"""
        from contextlib import ExitStack

        def saver(kept, name):
            def hook(module, inputs, output):
                kept[name] = output.detach()
            return hook

        def train(net, loader, optimizer):
            for x in loader:
                kept = {{}}
                with ExitStack() as stack:
                    for layer in net.children():
                        {register}
                    loss = net(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
        CODE,
    )


ENTERED = """
    class Recorder:
        def __init__(self, net):
            self.net = net

        def __enter__(self):
            self.handle = self.net.register_forward_hook(print)
            return self

        def __exit__(self, *error):
            {leave}

    def train(net, loader, optimizer):
        for x in loader:
            with Recorder(net){name}:
                loss = net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize("name", ["", " as recorder"])
def test_a_hook_that_entering_an_object_registers(name: str) -> None:
    assert [f.code for f in findings(ENTERED.format(leave="pass", name=name), CODE)] == [CODE]
    assert_clean(ENTERED.format(leave="self.handle.remove()", name=name))


WATCHED = """
    class Watch:
        def __init__(self, net, layers):
            self.net, self.layers, self.seen, self.handles = net, layers, {{}}, {{}}
            self.ready, self.handle, self.calls = False, None, 0

        def look(self, module, given, output):
            self.seen[module] = output.detach().mean().item()

        def begin(self):
            {begin}

    def train(net, loader, optimizer):
        watch = Watch(net, ["stem", "head"])
        for x, y in loader:
            watch.begin()
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
EACH = "for name, module in self.net.named_modules(): "
NESTED = """for name, module in self.net.named_modules():
                if {test}:
                    {body}"""


@pytest.mark.parametrize(
    "test",
    [
        "isinstance(module, nn.Conv2d)",
        "name in self.layers",
        "'norm' in name",
        "name.endswith('act') and not isinstance(module, nn.Identity)",
        "len(list(module.children())) == 0",
        "any(part in name for part in self.layers)",
        "type(module) is nn.ReLU",
    ],
)
@pytest.mark.parametrize("holder", ["", "self.handle = ", "self.handles[len(self.handles)] = "])
def test_a_method_that_chooses_among_modules(test: str, holder: str) -> None:
    body = f"{holder}module.register_forward_hook(self.look)  # !"
    assert_flagged(WATCHED.format(begin=NESTED.format(test=test, body=body)), CODE)


FIRST_TIME = [
    "if self.handle is None: self.handle = self.net.register_forward_hook(self.look)",
    "if not self.ready: self.net.register_forward_hook(self.look); self.ready = True",
    "if self.calls == 0: self.net.register_forward_hook(self.look)\n            self.calls += 1",
    "if not self.ready: self.net.register_forward_hook(self.look)\n            self.ready = True",
    "if not hasattr(self.net, 'watched'): self.net.register_forward_hook(self.look); self.net.watched = True",
    "if not getattr(self.net, 'watched', False): self.net.register_forward_hook(self.look); "
    "setattr(self.net, 'watched', True)",
    "if len(self.handles) < 2: self.handles[len(self.handles)] = self.net.register_forward_hook(self.look)",
    "if self.ready: return\n            self.ready = True; self.net.register_forward_hook(self.look)",
    f"if self.handles: return\n            {EACH}self.handles[name] = module.register_forward_hook(self.look)",
    NESTED.format(test="name not in self.handles", body="self.handles[name] = module.register_forward_hook(self.look)"),
    NESTED.format(
        test="name in self.handles",
        body="continue\n                self.handles[name] = module.register_forward_hook(self.look)",
    ),
    NESTED.format(
        test="isinstance(module, nn.Conv2d) and module not in self.seen",
        body="module.register_forward_hook(self.look); self.seen[module] = 0.0",
    ),
    NESTED.format(
        test="not hasattr(module, 'watched')",
        body="module.watched = module.register_forward_hook(self.look)",
    ),
]


@pytest.mark.parametrize("begin", FIRST_TIME)
def test_what_is_done_the_first_time_only(begin: str) -> None:
    assert_clean(WATCHED.format(begin=begin), CODE, Confidence.LOW)


IN_THE_LOOP = """
    class Watch:
        def __init__(self, net):
            self.net, self.ready, self.handle, self.trace = net, False, None, True

        def look(self, module, given, output):
            print(output.mean())

        def install(self):
            self.net.head.register_forward_hook(self.look)
            self.ready = True

        def show(self):
            self.net.head.register_forward_hook(self.look)  # !

    def train(net, loader, optimizer, watch: Watch):
        handle, first, watch = None, True, Watch(net)
        for step, (x, y) in enumerate(loader):
            {begin}
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    "begin",
    [
        "if step == 0: net.head.register_forward_hook(watch.look)",
        "if handle is None: handle = net.head.register_forward_hook(watch.look)",
        "if first: net.head.register_forward_hook(watch.look); first = False",
        "if not watch.ready: watch.install()",
        "if step == 0: watch.install()",
        "handle = handle or None\n            if not handle: handle = net.head.register_forward_hook(watch.look)",
    ],
)
def test_the_first_time_in_the_loop_itself(begin: str) -> None:
    assert_clean(IN_THE_LOOP.replace("  # !", "").format(begin=begin), CODE, Confidence.LOW)


@pytest.mark.parametrize("begin", ["if watch.trace: watch.show()", "if step % 10 == 0: watch.show()", "watch.show()"])
def test_again_and_again_under_a_condition(begin: str) -> None:
    assert_flagged(IN_THE_LOOP.format(begin=begin), CODE)


TAPS = """
    class Taps:
        def __init__(self, net, names):
            self.net, self.names, self.seen, self.handle, self.handles = net, names, {{}}, None, []

        def {enter}(self):
            for name in self.names:
                {register}
            return self.seen

        def saver(self, name):
            def hook(module, inputs, output):
                self.seen[name] = output.detach()
            return hook

        def {leave}(self, *error):
            {end}

    class Trainer:
        def __init__(self, net, opt, names):
            self.net, self.opt, self.names = net, opt, names

        def features(self, x):
            {use}

        def step(self, x):
            loss = self.features(x)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def main(net, opt, loader):
        trainer = Trainer(net, opt, ["0", "2"])
        for x in loader:
            {before}
            trainer.step(x)
"""
IN_CONTEXT = "with Taps(self.net, self.names) as seen:\n                return self.net(x).mean()"
BY_METHODS = "taps = Taps(self.net, names=self.names)\n            taps.open()\n            loss = self.net(x).mean()"
BY_METHODS += "\n            taps.close()\n            return loss"
OVERWRITES = "self.handle = self.net.get_submodule(name).register_forward_hook(self.saver(name)){mark}"
COLLECTS = "self.handles.append(self.net.get_submodule(name).register_forward_hook(self.saver(name))){mark}"
ALSO = f"{OVERWRITES}; self.handles.append(self.handle)"
REMOVES, REMOVES_ALL = "self.handle.remove()", "while self.handles: self.handles.pop().remove()"


def taps(register: str, end: str, use: str = IN_CONTEXT, before: str = "pass", mark: str = "") -> str:
    enter, leave = ("__enter__", "__exit__") if use is IN_CONTEXT else ("open", "close")
    register = register.format(mark=mark)
    return TAPS.format(register=register, end=end, use=use, before=before, enter=enter, leave=leave)


@pytest.mark.parametrize("use", [IN_CONTEXT, BY_METHODS])
def test_an_object_that_removes_the_last_handle_only(use: str) -> None:
    marked = taps(OVERWRITES, REMOVES, use, mark="  # !")
    assert_flagged(marked, CODE)
    assert_flagged(marked.replace("self.net.get_submodule(name)", "self.net[int(name)]"), CODE)
    assert_flagged(marked.replace("Taps(self.net", "Taps(self.net.encoder"), CODE)


@pytest.mark.parametrize("use", [IN_CONTEXT, BY_METHODS])
def test_an_object_that_removes_all_of_its_hooks(use: str) -> None:
    assert_clean(taps(COLLECTS, REMOVES_ALL, use), CODE)
    assert_clean(taps(ALSO, REMOVES_ALL, use), CODE)
    assert_clean(taps(OVERWRITES + "; break", REMOVES, use), CODE)
    assert_clean(taps(f"if name == '0': {OVERWRITES}", REMOVES, use), CODE)
    assert_clean(taps(f"{OVERWRITES}; self.handle.remove()", "pass", use), CODE)
    assert_clean(taps(OVERWRITES, REMOVES, use).replace("for name in self.names:", "if (name := self.names[0]):"), CODE)


def test_an_object_with_hooks_on_a_module_of_this_iteration() -> None:
    anew = taps(OVERWRITES, REMOVES, before="trainer = Trainer(nn.Sequential(nn.Linear(4, 2)), opt, ['0'])")
    assert_clean(anew, CODE)
    copied = taps(OVERWRITES, REMOVES, IN_CONTEXT.replace("with", "net = copy.deepcopy(self.net)\n            with"))
    assert_clean(copied.replace("Taps(self.net,", "Taps(net,").replace("return self.net(x)", "return net(x)"), CODE)


def test_an_object_with_hooks_that_is_opened_once() -> None:
    once = taps(OVERWRITES, REMOVES, "return self.net(x).mean()")
    made = "self.net, self.opt, self.names = net, opt, names"
    assert_clean(once.replace(made, f"{made}\n            Taps(net, names).open()"), CODE)


def tapped(student: str, exit: str = "self.remove()") -> str:
    """Taps of two networks, of which that of the teacher is a context."""
    return f"""
        class Tap:
            def __init__(self, net):
                self.features = {{}}
                self.handle = net.layer.register_forward_hook(self.save)  # !

            def save(self, module, args, output):
                self.features["out"] = output

            def remove(self):
                self.handle.remove()

            def __enter__(self):
                return self

            def __exit__(self, *error):
                {exit}

        class Distiller:
            def __init__(self, teacher, student, optimizer):
                self.teacher, self.student, self.optimizer = teacher, student, optimizer

            def step(self, x):
                with Tap(self.teacher) as tap, torch.no_grad():
                    self.teacher(x)
                wanted = tap.features["out"]
                {student}
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def train(teacher, student, optimizer, loader):
            distiller = Distiller(teacher, student, optimizer)
            for x, _ in loader:
                distiller.step(x)
    """


LOSS = 'loss = F.mse_loss(own.features["out"], wanted)'
BELOW = "\n                "


@pytest.mark.parametrize(
    "student",
    [
        f"own = Tap(self.student){BELOW}self.student(x){BELOW}{LOSS}",
        f"own = Tap(net=self.student){BELOW}y = self.student(x){BELOW}{LOSS} + y.mean()",
    ],
)
def test_a_context_that_is_not_used_as_one(student: str) -> None:
    assert_flagged(tapped(student), CODE)


@pytest.mark.parametrize(
    "student",
    [
        f"with Tap(self.student) as own:{BELOW}    self.student(x){BELOW}{LOSS}",
        f"own = Tap(self.student){BELOW}with own:{BELOW}    self.student(x){BELOW}{LOSS}",
        f"own = Tap(self.student){BELOW}self.student(x){BELOW}{LOSS}{BELOW}own.remove()",
        f"own = Tap(self.student){BELOW}self.student(x){BELOW}{LOSS}{BELOW}own.handle.remove()",
        f"own = stack.enter_context(Tap(self.student)){BELOW}self.student(x){BELOW}{LOSS}",
        f"own = Tap(self.student){BELOW}self.student(x){BELOW}{LOSS}{BELOW}close(own)",
        f"own = Tap(self.student){BELOW}stack.callback(own.remove){BELOW}self.student(x){BELOW}{LOSS}",
        f"own = Tap(self.student){BELOW}closing.append(own.handle){BELOW}self.student(x){BELOW}{LOSS}",
        f"own = Tap(self.student){BELOW}self.student(x){BELOW}{LOSS}{BELOW}own.__exit__(None, None, None)",
        f"own = Tap(self.student){BELOW}self.taps.append(own){BELOW}self.student(x){BELOW}{LOSS}",
    ],
)
def test_a_context_that_may_be_one(student: str) -> None:
    assert_clean(tapped(student), CODE)


def test_a_branch_that_does_nothing_is_read() -> None:
    """It has no last statement."""
    code = """
        class Net(nn.Module):
            def __init__(self, layers, mode):
                super().__init__()
                self.seen = {}
                if mode == "mean":
                    pass
                elif mode:
                    for layer in layers:
                        layer.register_forward_hook(lambda module, args, output: None)
    """
    assert_clean(code)


CALLBACK = """
        class Norms:
            def __init__(self):
                self.handles, self.rows = {}, []

            def note(self, module, given, out):
                self.rows.append(out.detach().norm())

            def METHOD(self, run):
                REGISTER

            def LAST(self, run):
                REMOVE

        class Runner:
            def __init__(self, net, callbacks):
                self.net, self.callbacks = net, callbacks

            def fit(self, loader, optimizer, epochs):
                for epoch in range(epochs):
                    for callback in self.callbacks:
                        callback.METHOD(self)
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.mse_loss(self.net(x), y).backward()
                        optimizer.step()
                for callback in self.callbacks:
                    callback.LAST(self)
"""
REGISTERS = "for name, m in run.net.named_modules(): self.handles[name] = m.register_forward_hook(self.note)  # !"
REMOVES = "for handle in self.handles.values(): handle.remove()"


def callback(method: str, register: str, last: str, remove: str) -> str:
    snippet = CALLBACK.replace("METHOD", method).replace("REGISTER", register)
    return snippet.replace("LAST", last).replace("REMOVE", remove)


@pytest.mark.parametrize("method", ["before_epoch", "on_epoch_start", "on_train_batch_start", "begin_epoch"])
@pytest.mark.parametrize(
    ("register", "last", "remove"),
    [
        (REGISTERS, "after_fit", REMOVES),
        (REGISTERS, "on_train_end", REMOVES),
        (REGISTERS, "report", "print(len(self.rows))"),
        ("run.net.register_forward_hook(self.note)  # !", "after_fit", "print(len(self.rows))"),
    ],
)
def test_a_callback_that_registers_them_again(method: str, register: str, last: str, remove: str) -> None:
    assert_flagged(callback(method, register, last, remove), "GG401")


@pytest.mark.parametrize(
    ("method", "register", "last", "remove"),
    [
        ("before_fit", REGISTERS, "after_fit", REMOVES),
        ("before_epoch", REGISTERS, "after_epoch", REMOVES),
        ("before_epoch", REGISTERS, "clear", REMOVES),
        ("before_epoch", f"if not self.handles:\n                    {REGISTERS}", "after_fit", REMOVES),
        ("before_epoch", f"if run.epoch == 0:\n                    {REGISTERS}", "after_fit", REMOVES),
        ("before_epoch", f"{REMOVES}\n                {REGISTERS}", "after_fit", REMOVES),
        ("before_epoch", f"run.net._forward_hooks.clear()\n                {REGISTERS}", "after_fit", REMOVES),
        ("attach", REGISTERS, "after_fit", REMOVES),
    ],
)
def test_a_callback_that_registers_them_once_or_removes_them(
    method: str, register: str, last: str, remove: str
) -> None:
    assert_clean(callback(method, register, last, remove).replace("  # !", ""), "GG401")


EXTRACTED = """
        class Probe:
            def __init__(self, net, names):
                self.net, self.names, self.handles = net, names, []

            def attach(self, sink):
                modules = dict(self.net.named_modules())
                for name in self.names:
                    def keep(module, inputs, output, name=name):
                        sink[name] = output
                    self.handles.append(modules[name].register_forward_hook(keep))  # !

            def extract(self, x):
                found = {}
                self.attach(found)
                self.net(x)
                return found

            def close(self):
                while self.handles:
                    self.handles.pop().remove()

        def train(gen, critic, steps):
            optimizer = torch.optim.Adam(gen.parameters())
            probe = Probe(critic, ["1", "3"])
            with torch.no_grad():
                wanted = probe.extract(torch.rand(1, 3, 8, 8))
            probe.close()
            for step in range(steps):
                found = probe.extract(gen(torch.randn(2, 8)))
                loss = sum((found[k] - wanted[k]).square().mean() for k in found)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            probe.close()
"""


def test_hooks_that_are_removed_after_the_loop_only() -> None:
    assert_flagged(EXTRACTED, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("optimizer.step()", "optimizer.step()\n                probe.close()"),
        ("self.net(x)\n", "self.net(x)\n                self.close()\n"),
        ("found = {}", "self.close()\n                found = {}"),
        ("for step in range(steps):", "for step in range(steps):\n                probe.close()"),
        ("self.handles.append(modules[name].register_forward_hook(keep))", "print(modules[name], keep)"),
    ],
)
def test_hooks_that_are_removed_in_each_step(edit: tuple[str, str]) -> None:
    assert_clean(twin(EXTRACTED, edit), CODE)


def test_hooks_that_are_removed_after_the_loop_of_a_task() -> None:
    given = ("def train(gen, critic, steps):", "def one_task(gen, critic, optimizer, steps):")
    assert_clean(twin(EXTRACTED, given, ("optimizer = torch.optim.Adam(gen.parameters())", "print(steps)")), CODE)


PRUNES = """
    class Book:
        def __init__(self, net):
            self._layers = dict(net.named_modules())

        def layers(self, kind):
            for name, layer in self._layers.items():
                if isinstance(layer, kind):
                    yield name, layer

    class Pruner:
        def __init__(self, net, train):
            self.net, self.train, self.handles, self.outputs = net, train, [], {}
            self.book = Book(net)

        def register(self):
            self.outputs.clear()
            self.handles.clear()

            def keep(layer, given, output):
                self.outputs[layer] = output

            for name, layer in self.book.layers(nn.Conv2d):
                handle = layer.register_forward_hook(keep)
                self.handles.append(handle)

        def unregister(self):
            for handle in self.handles:
                handle.remove()

        def prune(self):
            self.register()
            loss = self.train(self.net)
            for layer, output in self.outputs.items():
                print(layer, output.mean().item())
            self.unregister()
            return self.train(self.net) - loss

    def epoch(net, batches, optimizer=None):
        net.train()
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        return total

    def shrink(net, loader, count):
        pruner = Pruner(net, lambda model: epoch(model, loader))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        done = 0
        while done < count:
            pruner.prune()
            done += 1
            epoch(pruner.net, loader, optimizer)
"""


def test_one_method_registers_and_removes_them() -> None:
    assert_clean(PRUNES, "GG401")
    begins = "def begin(self):\n            self.register()\n\n        def prune"
    assert_clean(PRUNES.replace("self.register()", "self.begin()").replace("def prune", begins), "GG401")


def test_a_helper_is_told_with_the_call_that_repeats_it() -> None:
    snippet = """
        def damp(emb, weights):
            return emb.weight.register_hook(lambda g: g * weights)

        def train(model, optimizer, batches):
            for x, y, weights in batches:
                damp(model.emb, weights)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """
    (finding,) = findings(snippet, CODE)
    (call,) = finding.related
    assert call.line == finding.span.line + 4
    direct = twin(snippet, ("damp(model.emb, weights)", "model.emb.weight.register_hook(lambda g: g * weights)"))
    (finding,) = findings(direct, CODE)
    assert finding.related == ()
