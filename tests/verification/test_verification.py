"""The kernel against exact theory and an independent program. Run by name: ``make verify``.

Each case draws a figure and has a p-value gate. All keys are fixed, so a case passes always or never; were they drawn anew, a
correct kernel would fail the suite with probability at most FALSE_ALARM, by Bonferroni over cases and their comparisons.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verification import float_cases, skill_cases, world_cases
from tests.verification.finding import FALSE_ALARM, draw

CASES = {
    case.__name__: case
    for case in (
        skill_cases.operating_curves,
        skill_cases.random_rounds,
        skill_cases.renewal,
        skill_cases.floors,
        skill_cases.radii,
        world_cases.failures,
        world_cases.clustered_rates,
        world_cases.writing,
        world_cases.routing,
        world_cases.eviction,
        world_cases.rollbacks,
        world_cases.sampled_eval,
        float_cases.spurious_skills,
        float_cases.float_model,
        float_cases.float_model_without_bins,
    )
}
GATE = FALSE_ALARM / len(CASES)
FOLDER = Path(__file__).resolve().parents[2] / "outputs" / "verification"


@pytest.mark.parametrize("name", CASES)
def test_kernel(name: str) -> None:
    case = CASES[name]
    finding = case()
    FOLDER.mkdir(parents=True, exist_ok=True)
    draw(finding, name, " ".join((case.__doc__ or "").split()), GATE, FOLDER)
    row = f"| {name} | {len(finding.p)} | {finding.worst:.3g} | {GATE:.2g} |\n"
    (FOLDER / f"{name}.md").write_text(row)
    assert finding.worst > GATE, row
