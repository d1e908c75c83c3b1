"""What to store instead, in words and as an edit."""

from __future__ import annotations

from gradguard.findings import Fix
from gradguard.static import tree as t
from gradguard.static.fixes.edits import detached, one_line
from gradguard.static.knowledge import LOSS_NAME
from gradguard.static.model import Form, Scope, Store
from gradguard.static.reading.certain import is_used_as_dict, surely_tensor
from gradguard.static.reading.scalars import bound_to, is_scalar
from gradguard.static.source import Site
from gradguard.static.values import Kind, Source, Value


def without_graph(store: Store) -> str:
    """The value without its graph."""
    if _is_several(store):
        return f"the values in `{store.value_code}` without their graphs (`.detach()` each of them)"
    return f"`{_called(store, 'detach')}`"


def or_a_number(store: Store) -> str:
    """As a number, where it surely is one: a loss, a mean; not a module's output, nor a parameter."""
    if _is_several(store) or store.is_of_leaves or not _is_number(store):
        return ""
    return f", or `{_called(store, 'item')}` where a number is meant"


def instead(store: Store, do: str, *, number: bool = False) -> str:
    """The edit: without its graph, or where a backward may need that, not for longer.

    Args:
        do: what is to be done with the value: ``store``.
        number: that it may become a number is said, too.
    """
    if store.is_kept_as_key:
        return f"key {store.place} by numbers, `tuple({store.value_code}.tolist())`: each tensor is another key"
    if store.may_be_needed:
        return f"empty {store.place} when it was used; if nothing backpropagates it, {do} {without_graph(store)}"
    return f"{do} {without_graph(store)}" + (or_a_number(store) if number else "")


def grows_all_the_same(store: Store) -> str:
    """That more than the graphs piles up, where an object keeps whole tensors and nothing empties it."""
    source = store.source
    stays = isinstance(source, Store) and source.scope in (Scope.ATTRIBUTE, Scope.GLOBAL)
    adds = store.form in (Form.APPEND, Form.ITEM) and not (store.few_keys or store.may_be_needed)
    return f"; {store.place} grows all the same: bound it, or empty it" if stays and adds and _is_large(store) else ""


def detach(store: Store) -> Fix | None:
    """Store the value without its graph; of what is written out, each part that has one."""
    site = store.value_site
    is_elsewhere = store.inner is not None and not store.parameter
    if site is None or store.goes_on or (is_elsewhere and site.chunk is not store.site.chunk):
        return None
    if store.is_kept_as_key or store.may_be_needed:
        return None
    if _is_several(store):
        return _detach_parts(site, store.value)
    edit = detached(site)
    # In a function that is called, somebody else may want the graph.
    is_safe = store.is_tensor is not None and not is_elsewhere and surely_tensor(site)
    return Fix(f"detach `{one_line(site.code)}`", (edit,), is_safe) if edit else None


def _is_several(store: Store) -> bool:
    """Whether it is no tensor itself, but a tuple, or a dict, with some in it."""
    site = store.value_site
    return (store.is_tensor is False or (site is not None and is_used_as_dict(site))) and not _is_handed_on(store)


def _is_handed_on(store: Store) -> bool:
    """Whether what a call is given is one tensor, which the callee puts into a record, or keeps among others."""
    return store.parameter and store.value_site is not None and surely_tensor(store.value_site)


def _detach_parts(site: Site, value: Value) -> Fix | None:
    """Detach the elements that surely are tensors with a graph, if no other has one: ``(step, loss)``."""
    carrying = [(part_site, part) for part_site, part in written_parts(site, value) if part.roots]
    edits = [detached(part_site) for part_site, part in carrying if _is_tensor(part)]
    if not edits or len(edits) != len(carrying) or None in edits:
        return None
    names = ", ".join(f"`{one_line(part_site.code)}`" for part_site, _ in carrying)
    return Fix(f"detach {names}", tuple(edit for edit in edits if edit is not None), safe=False)


def written_parts(site: Site, value: Value) -> list[tuple[Site, Value]]:
    """The elements of a tuple, a list or a dict that is written out, each with its value; none where not all are."""
    node = site.node
    items = node.items if isinstance(node, t.Display) else []
    if isinstance(node, t.DictDisplay):
        items = [item for _, item in node.entries]
    if len(items) != len(value.parts) or any(isinstance(item, t.Starred) for item in items):
        return []
    return [(Site(site.chunk, item), part) for item, (_, part) in zip(items, value.parts)]


def _is_tensor(value: Value) -> bool:
    return value.kind is Kind.TENSOR or any(root.source is Source.LOSS for root in value.roots)


def _is_number(store: Store) -> bool:
    """Whether it has one element, as what computes it tells, or else its name: a loss."""
    site = store.value_site
    told = is_scalar(site.node, site.chunk.statements) if site is not None else None
    return LOSS_NAME.search(store.value_code.rsplit(".", 1)[-1]) is not None if told is None else told


def _is_large(store: Store) -> bool:
    """Whether it surely is more than a few numbers: a dict of weights, a callback with its tensors, an output."""
    site = store.value_site
    if site is None or LOSS_NAME.search(store.value_code):
        return False
    node, body = site.node, site.chunk.statements
    made = [node, *(bound_to(node.id, body) if isinstance(node, t.Name) else ())]
    outputs = {root.key for root in store.value.roots if root.source is Source.GRAPH}
    is_many = any(isinstance(each, t.Comprehension) or each in outputs for each in made)
    return is_many or store.value.kind is Kind.FUNCTION or is_scalar(node, body) is False


def _called(store: Store, method: str) -> str:
    node = store.value_site.node if store.value_site else None
    primary = node is None or isinstance(node, t.Name | t.Attribute | t.Subscript | t.Call)
    return f"{store.value_code}.{method}()" if primary else f"({store.value_code}).{method}()"
