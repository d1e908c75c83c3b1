"""What a statement stores, as its source says."""

from __future__ import annotations

import ast

import pytest

from gradguard.runtime.stores import (
    form_of_carried,
    keeps_no_graph,
    makes_a_place,
    only_begins,
    only_binds_others,
    target_code,
    value_code,
    value_name,
)


def statement(code: str) -> ast.stmt:
    return ast.parse(code).body[0]


@pytest.mark.parametrize(
    ("code", "variable"),
    [
        ("total += loss", "loss"),
        ("total += loss * n", "loss"),
        ("total = total + loss", "loss"),
        ("total = loss + total", "loss"),
        ("total = d * total + (1 - d) * loss", "loss"),
        ("total = (1 - d) * loss + d * total", "loss"),
        ("self.total = self.total * self.d + loss * (1 - self.d)", "loss"),
        ("self.total = d * self.total + (1 - d) * onehot.t() @ flat", "flat"),
        ("row['total'] = row['total'] + loss", "loss"),
        ("row.total = d * row.total + (1 - d) * loss", "loss"),
        ("row['total'] += loss * n", "loss"),
        ("self.rows['total'] = loss", "loss"),
        ("total = loss", "loss"),
        ("total.append(loss)", "loss"),
        ("total.append({'loss': loss})", "loss"),
        ("total = a * b + c", "a"),
        ("total = d * total + (1 - d) * model(x)", None),
        ("total.append((loss, output))", None),
        ("total = total + ((step, loss),)", None),
        ("total = total + [loss]", "loss"),
        ("total.append(model(x))", None),
        ("total.append(out if keep else out.mean().item())", "out"),
        ("total = loss if total is None else total + loss", "loss"),
    ],
)
def test_the_variable_that_is_stored(code: str, variable: str | None) -> None:
    assert value_name(statement(code), "total") == variable
    assert value_code(statement(code), "total") == variable


@pytest.mark.parametrize(
    ("code", "variable", "written"),
    [
        ("total[key] += losses[key]", "losses", "losses[key]"),
        ("total.append(losses['ce'])", "losses", "losses['ce']"),
        ("total.append(outputs[0][-1])", "outputs", "outputs[0][-1]"),
        ("total += losses[key] * weight", "losses", "losses[key]"),
        ("total += weight[0] * losses[key]", "weight", "weight[0]"),
        ("total += loss * scale(loss[0])", "loss", "loss"),
        ("total.append(model(x)[0])", None, None),
    ],
)
def test_an_item_is_named_as_it_is_written(code: str, variable: str | None, written: str | None) -> None:
    assert value_name(statement(code), "total") == variable
    assert value_code(statement(code), "total") == written


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("sums[key] += loss", "sum"),
        ("sums[key] = sums[key] + loss", "sum"),
        ("shadow[k] = d * shadow[k] + (1 - d) * p", "average"),
        ("shadow[k] = blend(shadow[k], p)", "carried"),
        ("rows[at] = error.abs() + eps", "carried"),
        ("rows[at] *= scale", "carried"),
    ],
)
def test_how_an_entry_is_made_from_what_it_was(code: str, form: str) -> None:
    assert form_of_carried(statement(code), code.partition("[")[0]) == form
    assert form_of_carried(statement(code), "behind_another_name") == form


@pytest.mark.parametrize(
    ("value", "begins"),
    [
        ("[]", True),
        ("dict()", True),
        ("dict(loss=[], best=None)", True),
        ("deque(maxlen=size)", True),
        ("deque([], size)", True),
        ("defaultdict(list)", True),
        ("collections.defaultdict(Meter)", True),
        ("torch.zeros(3)", True),
        ("dict(y=y)", False),
        ("dict([('y', y)])", False),
        ("list(rows)", False),
        ("deque([y], size)", False),
        ("collections.Counter(rows)", False),
        ("kept + [y]", False),
    ],
)
def test_what_a_collection_begins_with(value: str, begins: bool) -> None:
    assert only_begins(statement(f"kept = {value}")) is begins
    assert only_begins(statement(f"self.kept: Kept = {value}")) is begins


@pytest.mark.parametrize(
    ("code", "binds"),
    [
        ("h = torch.relu(adj @ self.w1(x))", True),
        ("a = b = f(x)", True),
        ("return f(self.net(x))", True),
        ("return self.rows", False),
        ("return kept.append(x)", False),
        ("h = f(self.rows)", False),
        ("rows = f(x)", False),
        ("h = kept.append(x)", False),
        ("self.h = f(x)", False),
        ("h[0] = f(x)", False),
        ("h += f(x)", False),
        ("f(x)", False),
    ],
)
def test_what_only_gives_others_a_value(code: str, binds: bool) -> None:
    assert only_binds_others(statement(code), "rows") is binds


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("state = cell(x, state)", "state"),
        ("self.kv = [k[-8:] for k in kv]", "self.kv"),
        ("out, self.kv = net(x, self.kv)", "self.kv"),
        ("self.parts[0].kv = step(self.parts[0].kv)", "self.parts[0].kv"),
        ("kv *= 2", "kv"),
    ],
)
def test_what_is_bound_as_it_is_written(code: str, target: str) -> None:
    assert target_code(statement(code), target.rpartition(".")[2]) == target


@pytest.mark.parametrize(
    ("code", "makes"),
    [
        ("rows.append(None)", True),
        ("self.rows.insert(0, 0.0)", True),
        ("rows.append(row)", False),
        ("rows.insert(0, row)", False),
        ("rows.append([])", False),
        ("rows.clear()", False),
        ("rows[place] = row", False),
    ],
)
def test_a_place_for_what_comes(code: str, makes: bool) -> None:
    assert makes_a_place(statement(code)) is makes


@pytest.mark.parametrize(
    ("code", "keeps_none"),
    [
        ("losses.append(loss.item())", True),
        ("losses.append(float(loss))", True),
        ("self.losses[step] = loss.detach()", True),
        ("losses.append(loss.detach().cpu().numpy())", True),
        ("total += 1", True),
        ("losses.append(loss)", False),
        ("losses.append(loss.sum())", False),
        ("losses.append((step.item(), loss))", False),
        ("losses[step.item()] = loss", False),
        ("total = total + loss", False),
        ("losses.append(model(x.detach()))", False),
    ],
)
def test_what_keeps_no_graph(code: str, keeps_none: bool) -> None:
    name = "total" if "total" in code else "losses"
    assert keeps_no_graph(statement(code), name) is keeps_none
