"""What all tests of the watch need."""

from __future__ import annotations

import pytest

from gradguard.runtime import census, escalation, tracer


@pytest.fixture(autouse=True)
def _time_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look may cost is for a user's comfort; on a loaded machine it would decide what a test sees."""
    for module in (census, escalation, tracer):
        monkeypatch.setattr(module, "MAX_SECONDS", 60.0)
