"""``gradguard explain``: a rule's page."""

from __future__ import annotations

import click

from gradguard.cli._common import all_rules, console
from gradguard.config import did_you_mean


@click.command("explain")
@click.argument("code")
def command(code: str) -> None:
    """Show the page of a rule.

    CODE is a rule's code (GG103) or its name (loss-accumulation).
    """
    rules = {rule.code: rule for rule in all_rules()}
    by_name = {rule.name: rule for rule in rules.values()}
    rule = rules.get(code.upper()) or by_name.get(code.lower())
    if rule is None:
        hint = did_you_mean(code, rules) or did_you_mean(code, by_name) or "; `gradguard rules` lists them"
        raise click.UsageError(f"unknown code `{code}`{hint}")
    out = console()
    title = f"{rule.code} {rule.name} [{rule.severity.value}]"
    if not out.is_terminal:  # a pipe gets the Markdown itself
        click.echo(f"{title}\n\n{rule.page}")
        return
    from rich.markdown import Markdown

    out.print(title, style="bold")
    out.print()
    out.print(Markdown(rule.page, code_theme="ansi_dark"))
