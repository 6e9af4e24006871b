"""Every format asks the same problems where it can, and its numbers are those of its answers."""

import pytest
import torch
from tiny_language import MERGES, save_tiny, tiny_tokenizer

from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.language import number_formats
from ridgeformer.experiments.language.asked import packed
from ridgeformer.experiments.language.number_formats import format_prompts_of, score, unwritten
from ridgeformer.experiments.language.number_part import NumberPart
from ridgeformer.language import FORMATS, LANGUAGE_TASKS


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), seed=5))


def test_answers_are_scored_in_their_own_units(directory):
    """Answers that are off by a tenth of the format's range, and by none: the ratio knows both."""
    tasks = format_prompts_of(directory, "", LANGUAGE_TASKS["linear"](), 30, 1)
    assert list(tasks) == list(FORMATS)
    assert {len(own) for own in tasks.values()} == {number_formats.PROMPTS}
    results, errors = {}, {}
    for name, own in tasks.items():
        off = 0.0 if name == "integers" else 0.1
        values, results[name], squares = FORMATS[name].values, [], []
        for job in own:
            problem = job.problem()
            truth = problem.query_targets[0]
            squares.append((problem.targets[0].mean() - truth).square().mean())
            results[name].append({
                "expected": packed(truth + off * (values[-1] - values[0])),
                "mass": packed(torch.full((6,), 0.5)), "unparseable": 3,
            })  # fmt: skip
        errors[name] = off * float(values[-1] - values[0]) / float(torch.stack(squares).mean().sqrt())  # fmt: skip
    out = Collector(12, 1)
    settings = score(tasks, results, out)
    finding = Finding("planted", 0, 12, numbers=out.numbers)
    for name, error in errors.items():
        ratio = finding.get("RMSE over the mean's, by format", "language model", format=name)
        assert ratio.mean == pytest.approx(error, rel=1e-4, abs=1e-5)
        assert finding.get("unparseable, by format", "language model", format=name).mean == 0.5
        assert finding.get("mass, by format", "language model", format=name).mean == 0.5
        assert settings[name]["digits apart"]
    assert [settings[name]["tokens"] for name in FORMATS] == [2, 3, 4, 3]


def test_formats_of_as_many_numbers_ask_the_same(directory):
    tasks = format_prompts_of(directory, "", LANGUAGE_TASKS["linear"](), 2, 1)
    shares = []
    for name in ("integers", "one-decimal", "separated-digits"):
        problem, values = tasks[name][0].problem(), FORMATS[name].values
        shares.append((problem.targets - values[0]) / (values[-1] - values[0]))
    torch.testing.assert_close(shares[0], shares[1])
    torch.testing.assert_close(shares[0], shares[2])


def test_a_format_that_the_tokenizer_writes_unevenly_is_left_out(tmp_path):
    folder = save_tiny(tmp_path / "uneven")
    tiny_tokenizer([*MERGES, ("4", "2")]).save_pretrained(folder)
    why = unwritten(str(folder))
    assert "choose another format" in why["integers"]
    assert not why["separated-digits"]
    tasks = format_prompts_of(str(folder), "", LANGUAGE_TASKS["linear"](), 2, 1)
    assert "integers" not in tasks
    assert "separated-digits" in tasks


def test_a_prompt_that_two_parts_ask_for_is_asked_once(directory):
    part = NumberPart.of(directory, "", [LANGUAGE_TASKS["linear"]()], 4, 0, named=True)
    jobs = part.jobs
    assert len(set(jobs)) == len(jobs) == 3 * 4 + 2 * 4 + 3 * 4
    every = [LANGUAGE_TASKS[name]() for name in ("linear", "quadratic")]
    assert list(NumberPart.of(directory, "", every, 4, 0, named=False).changes) == ["linear"]
    assert list(NumberPart.of(directory, "", every, 4, 0, named=True).changes) == [
        "linear",
        "quadratic",
    ]
