"""``gradguard rules``: the list of rules."""

from __future__ import annotations

import json

import click

from gradguard.catalogue import Rule
from gradguard.cli._common import all_rules, console
from gradguard.findings import Confidence


@click.command("rules")
@click.option("--format", "style", type=click.Choice(["console", "json"]), default="console", help="How to list.")
def command(style: str) -> None:
    """List the rules."""
    rules = all_rules()
    if style == "json":
        click.echo(json.dumps([_as_dict(rule) for rule in rules], indent=1))
        return
    rows = [(rule.code, rule.name, rule.severity.value, _on_by_default(rule), rule.summary) for rule in rules]
    out = console()
    if not out.is_terminal:  # one line for each rule, however narrow
        for row in rows:
            click.echo("  ".join([f"{row[0]:<6}", f"{row[1]:<25}", f"{row[2]:<8}", f"{row[3]:<4}", row[4]]))
        return
    from rich.table import Table

    table = Table("code", "name", "severity", "on", "what it finds", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print("\nA rule's page: gradguard explain CODE. Those that are not on are asked with --min-confidence low.")


def _on_by_default(rule: Rule) -> str:
    return "yes" if rule.confidence is Confidence.HIGH else "no"


def _as_dict(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "confidence": rule.confidence.value,
        "summary": rule.summary,
    }
