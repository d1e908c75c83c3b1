"""Two runs side by side, for programs: version 1 of the JSON form."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gradguard import __version__
from gradguard.compare import Comparison
from gradguard.findings import RunReport
from gradguard.report.run_json import leak_as_dict

VERSION = 1


def render(comparison: Comparison) -> str:
    """``comparison`` as a JSON document; ASCII only."""
    document: dict[str, Any] = {
        "version": VERSION,
        "tool": {"name": "gradguard", "version": __version__},
        "before": _summary(comparison.before),
        "after": _summary(comparison.after),
        "leaks_more": comparison.leaks_more,
        "changes": [asdict(change) for change in comparison.changes],
        "gone": [leak_as_dict(leak) for leak in comparison.gone],
        "new": [leak_as_dict(leak) for leak in comparison.new],
        "still": [{"before": leak_as_dict(a), "after": leak_as_dict(b)} for a, b in comparison.still],
    }
    return json.dumps(document, indent=1) + "\n"


def _summary(run: RunReport) -> dict[str, Any]:
    return {"command": list(run.command), "verdict": run.verdict, "steps": run.steps, "exit_status": run.exit_status}
