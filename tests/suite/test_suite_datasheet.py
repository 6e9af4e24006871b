"""docs/suite.md says what is written and what is scored."""

import json
import re
from pathlib import Path

import pytest

from ridgeformer.suite import BASELINES, check_predictions, score
from ridgeformer.suite.score import GROUPS, ROWS
from ridgeformer.suite.states import MEANINGS
from ridgeformer.suite.submission import COMPONENTS, FORMAT
from ridgeformer.types import Refusal

TEXT = (Path(__file__).parents[2] / "docs" / "suite.md").read_text()

DIGITS = str.maketrans("₀₁₂₃₄", "01234")
SYMBOLS = {"α": "alpha", "w": "alpha", "X": "inverse", "H": "features"}


def places(cell):
    """The states of a cell such as "α₂ p₁ with r₁ w₁ … w₄ previous₂"."""
    cell = cell.split(",")[0] if "which is" in cell else cell
    found = set()
    for first, last in re.findall(r"(\w+) … (\w+)", cell):
        found |= {
            (first[0], t)
            for t in range(int(first[1:].translate(DIGITS)), int(last[1:].translate(DIGITS)) + 1)
        }
    found |= {
        (name, int(t.translate(DIGITS))) for name, t in re.findall(r"([^\W\d_]+)([₀-₉])", cell)
    }
    return {f"{SYMBOLS.get(name, name)}@{t}" for name, t in found}


def test_the_table_of_models_is_that_of_the_cases(suite):
    """Steps, sizes, states and interventions, one row for each compiled model."""
    rows = re.findall(r"^\| ([^|]+) \| (\d) \| (\d+) × (\d+) \| ([^|]+) \| ([^|]+) \|$", TEXT, re.M)
    said = sorted(
        (int(steps), int(layers), int(width), sorted(places(states)), sorted(places(exchanged)))
        for _, steps, layers, width, states, exchanged in rows
    )
    found = []
    for case in suite.cases.values():
        labels, config = case.labels, case.transformer.config
        if labels["group"] == "channels":
            states = sorted(place["basis"] for place in labels["states"])
            parts = {
                f"{state}@{question['step']}"
                for question in case.questions
                for state in question["states"]
            }
            found.append((labels["steps"], config.n_layers, config.d_model, states, sorted(parts)))
    assert said == sorted(found)


def test_the_format_names_what_is_checked(suite):
    for name in MEANINGS:
        assert f"`{name}`" in TEXT
    [example] = re.findall(r"```json\n(.*?)```", TEXT, re.S)
    said = json.loads(example)
    assert said["format"] == FORMAT
    assert tuple(said["cases"]["case-01"]) == COMPONENTS
    with pytest.raises(Refusal, match="lacks case-02"):
        check_predictions(said, suite)


@pytest.mark.slow
def test_the_baselines_have_the_scores_that_are_told(suite):
    for baseline in BASELINES:
        answers = check_predictions(baseline(0).answers(suite), suite)
        found = score(suite, answers)["summary"]
        for row, name in ROWS.items():
            [line] = [x for x in TEXT.splitlines() if x.startswith(f"| {name} | {baseline.name} |")]
            cells = [cell.strip() for cell in line.split("|")[3:6]]
            for group, cell in zip(GROUPS, cells, strict=True):
                mean = found[row][group]["mean"]
                assert (cell == "") == (mean is None)
                if cell:
                    assert float(cell.split()[0]) == pytest.approx(mean, abs=0.05), line
