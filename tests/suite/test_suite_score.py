"""The scorer: right answers have 1, wrong ones next to nothing, and each component is judged by itself."""

import copy
import json

import numpy as np
import pytest
import torch
from fork_server import cli, refused
from scipy.linalg import subspace_angles

from ridgeformer.suite import check_predictions, score, similarity
from ridgeformer.suite.score import GROUPS
from ridgeformer.suite.submission import FORMAT
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")  # shapes are checked where answers are


def planted(suite):
    """The right answers of every case, as they stand in PREDICTIONS.json."""
    cases = {}
    for name, case in suite.cases.items():
        labels = case.labels
        cases[name] = {
            "subspaces": [
                {
                    "state": place["state"],
                    "step": place["step"],
                    "site": place["sites"][-1],
                    "basis": (case.subspaces[place["basis"]] * 3).tolist(),
                }
                for place in labels["states"]
            ],
            "matvec": labels["matvec"] or [],
            "solver": labels["solver"]["right"][-1],
            "interventions": {
                asked["id"]: case.intervened[f"{asked['id']}.expected"].tolist()
                for asked in labels["interventions"]
            },
        }
    return {"format": FORMAT, "cases": cases}


@pytest.fixture(scope="module")
def right(suite):
    return planted(suite)


@pytest.fixture
def said(right):
    """Right answers, to be spoilt."""
    return copy.deepcopy(right)


def summary(suite, said):
    found = score(suite, check_predictions(said, suite))["summary"]
    return {row: {c: v["mean"] for c, v in columns.items()} for row, columns in found.items()}


def kind(suite, name, group="channels"):
    [found] = [
        case.name
        for case in suite.cases.values()
        if (case.labels["kind"], case.labels["group"]) == (name, group)
    ]
    return found


PERFECT = {
    row: {"channels": 1.0, "rotated": 1.0, "controls": None if row == "interventions" else 1.0}
    for row in ("subspaces", "directions", "matvec", "solver", "interventions")
}


def test_right_answers_are_right(suite, said):
    found = summary(suite, said)
    for row, columns in PERFECT.items():
        assert found[row] == pytest.approx(columns, abs=1e-12), row


def test_indices_are_a_basis(suite, said):
    """In the ordinary basis; and the same indices are wrong in the rotated one."""
    for name, case in suite.cases.items():
        if case.labels["group"] in ("channels", "rotated"):
            twin = suite.cases[kind(suite, case.labels["kind"])]
            for place, claim in zip(
                case.labels["states"], said["cases"][name]["subspaces"], strict=True
            ):
                rows = twin.subspaces[place["basis"]].abs().sum(1).nonzero()[:, 0]
                claim.pop("basis")
                claim["indices"] = rows.tolist()
    found = summary(suite, said)["subspaces"]
    assert found["channels"] == pytest.approx(1.0, abs=1e-12)
    assert found["rotated"] < 0.4


def test_similarity_is_that_of_the_principal_angles():
    """Against SciPy's angles, for subspaces of one dimension or several."""
    generator = np.random.default_rng(0)
    for m, n in ((1, 1), (2, 2), (3, 1), (1, 4), (4, 2)):
        U, V = (np.linalg.qr(generator.normal(size=(9, size)))[0] for size in (m, n))
        cosines = np.cos(subspace_angles(U, V)) ** 2
        precision, recall = cosines.sum() / m, cosines.sum() / n
        expected = 2 * precision * recall / (precision + recall)
        assert similarity(torch.tensor(U), torch.tensor(V)) == pytest.approx(expected, abs=1e-12)


def spoil(said, part, change):
    """Changes one component of every case that says something in it."""
    for entry in said["cases"].values():
        if entry[part]:
            entry[part] = change(entry[part])


def only(suite, said, *rows):
    """Every component but these is as good as before; returns the summary."""
    found = summary(suite, said)
    for row in PERFECT.keys() - set(rows):
        assert found[row] == pytest.approx(PERFECT[row], abs=1e-12), row
    return found


def test_the_whole_stream_holds_everything_and_says_nothing(suite, said):
    for name, entry in said["cases"].items():
        d = suite.cases[name].transformer.config.d_model
        for claim in entry["subspaces"]:
            claim["basis"] = torch.eye(d).tolist()
    found = only(suite, said, "subspaces", "directions")
    assert max(found["subspaces"][column] for column in ("channels", "rotated")) < 0.25


def test_a_direction_beside_the_state_has_nothing(suite, said):
    for name, entry in said["cases"].items():
        case = suite.cases[name]
        for claim, place in zip(entry["subspaces"], case.labels["states"], strict=True):
            basis = case.subspaces[place["basis"]]
            beside = torch.linalg.svd(basis, full_matrices=True).U[:, basis.shape[1] :]
            claim["basis"] = beside[:, : basis.shape[1]].tolist()
    found = only(suite, said, "subspaces", "directions")
    for row in ("subspaces", "directions"):
        for group in ("channels", "rotated"):
            assert found[row][group] == pytest.approx(0.0, abs=1e-12)


def test_the_right_direction_at_another_site_is_half_an_answer(suite, said):
    spoil(said, "subspaces", lambda claims: [claim | {"site": "embed"} for claim in claims])
    found = only(suite, said, "subspaces")
    assert found["subspaces"]["channels"] == found["subspaces"]["rotated"] == 0.0


def test_half_of_the_states_is_two_thirds_and_twice_as_many_claims_too(suite, said):
    """F1 over claims: a missing one costs as much as a wrong one."""
    name = kind(suite, "cg-linear")
    claims = said["cases"][name]["subspaces"]
    case = {"subspaces": claims[:2]}
    assert case_score(suite, said, name, case)["score"] == pytest.approx(2 * 2 / (2 + 5))
    wrong = [claims[0] | {"state": "inverse", "step": t} for t in range(5)]
    case = {"subspaces": claims + wrong}
    assert case_score(suite, said, name, case)["score"] == pytest.approx(2 * 5 / (10 + 5))


def case_score(suite, said, name, entry, part="subspaces"):
    said["cases"][name] |= entry
    return score(suite, check_predictions(said, suite))["cases"][name][part]


def test_what_is_stored_in_no_one_place_is_not_counted(suite, said):
    name = kind(suite, "gd-linear", "rotated")
    claims = said["cases"][name]["subspaces"]
    more = [
        claims[0] | {"state": state, "step": t} for state in ("r", "unexplained") for t in (1, 2)
    ]
    more.append(claims[0] | {"step": 1})  # α₁ is a multiple of y
    assert case_score(suite, said, name, {"subspaces": claims + more})["score"] == pytest.approx(
        1.0
    )


@pytest.mark.parametrize("group", GROUPS["controls"])
def test_a_claim_about_a_control_is_wrong(suite, said, group):
    name = next(n for n, case in suite.cases.items() if case.labels["group"] == group)
    claim = {"state": "alpha", "step": 2, "site": "embed", "indices": [0]}
    assert case_score(suite, said, name, {"subspaces": [claim]})["score"] == 0.0
    assert case_score(suite, said, name, {"matvec": [[0, 0]]}, "matvec")["score"] == 0.0
    assert case_score(suite, said, name, {"solver": "cg"}, "solver")["score"] == 0.0
    assert case_score(suite, said, name, {"solver": ["none", "cg"]}, "solver")["score"] == 0.5


def test_all_heads_are_not_the_matvec(suite, said):
    name = kind(suite, "cg-linear", "rotated")
    config = suite.cases[name].transformer.config
    everything = [[layer, h] for layer in range(config.n_layers) for h in range(config.n_heads)]
    true = said["cases"][name]["matvec"]
    found = case_score(suite, said, name, {"matvec": everything}, "matvec")
    assert found["recall"] == 1.0
    assert found["precision"] == pytest.approx(len(true) / len(everything))
    assert found["score"] == 0.0
    found = case_score(suite, said, name, {"matvec": []}, "matvec")
    assert (found["score"], found["precision"]) == (0.0, None)
    found = case_score(suite, said, name, {"matvec": true[:1]}, "matvec")
    among = [head in true for head in everything], [head == true[0] for head in everything]
    assert found["score"] == pytest.approx(np.corrcoef(*among)[0, 1], abs=1e-12)
    assert (found["precision"], found["recall"]) == (1.0, pytest.approx(1 / len(true)))
    others = [head for head in everything if head not in true]
    assert case_score(suite, said, name, {"matvec": others}, "matvec")["score"] == 0.0


def test_naming_all_heads_or_one_of_each_layer_where_there_is_one_says_nothing(suite, said):
    for name, entry in said["cases"].items():
        config = suite.cases[name].config
        entry["matvec"] = [
            [layer, h] for layer in range(config.n_layers) for h in range(config.n_heads)
        ]
    assert only(suite, said, "matvec")["matvec"] == {
        "channels": 0.0,
        "rotated": 0.0,
        "controls": 0.0,
    }


@pytest.mark.parametrize("kind_of", ["newton-linear", "heavy-ball-unrolled-loop"])
def test_heads_that_no_label_names_or_that_are_all_right_are_not_asked(suite, said, kind_of):
    name = kind(suite, kind_of)
    assert case_score(suite, said, name, {"matvec": [[0, 0]]}, "matvec")["score"] is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("gd", 1.0),
        ("richardson", 1.0),  # the same without a preconditioner
        (["gd", "richardson"], 1.0),
        (["gd", "cg"], 0.5),
        (["gd", "richardson", "cg", "none"], 1 / 3),
        ("cg", 0.0),
        ("none", 0.0),
    ],
)
def test_sets_of_solvers(suite, said, names, expected):
    name = kind(suite, "gd-linear")
    assert case_score(suite, said, name, {"solver": names}, "solver")["score"] == expected


def test_the_effect_that_an_intervention_explains(suite, said):
    """Doing nothing explains nothing, half of the effect three quarters, and the opposite of it nothing."""
    for share, expected in ((0.0, 0.0), (0.5, 0.75), (2.0, 0.0), (-1.0, 0.0)):
        for name, entry in said["cases"].items():
            values = suite.cases[name].intervened
            entry["interventions"] = {
                asked: (values["unchanged"] + share * (values[f"{asked}.expected"] - values["unchanged"])).tolist()
                for asked in entry["interventions"]
            }  # fmt: skip
        found = only(suite, said, "interventions")["interventions"]
        assert found["channels"] == pytest.approx(expected, abs=1e-9)
        assert found["rotated"] == pytest.approx(expected, abs=1e-9)


def test_a_component_may_be_left_out_of_all_cases(suite, said):
    for entry in said["cases"].values():
        del entry["interventions"], entry["subspaces"]
    assert list(summary(suite, said)) == ["matvec", "solver"]


def claimed(**change):
    return lambda entry: entry["subspaces"].append(
        {"state": "alpha", "step": 9, "site": "embed", "indices": [0]} | change
    )


def predicted(change):
    def spoil(entry):
        name, values = next(iter(entry["interventions"].items()))
        entry["interventions"][name] = change(values)

    return spoil


def without(part):
    return lambda entry: entry.pop(part)


FAULTS = [
    (lambda e: e.update(heads=[]), "'heads' is none of"),
    (without("solver"), "'solver' is missing, which other cases have"),
    (claimed(state="beta"), "state must be one of alpha"),
    (claimed(state=["alpha"]), "state must be one of alpha"),
    (claimed(step=-1), "step must be a whole number ≥ 0; got -1"),
    (claimed(step=True), "step must be a whole number ≥ 0; got True"),
    (claimed(site="blocks.99.resid_post"), "site must be embed, blocks.L.resid_mid"),
    (claimed(site="blocks.0.attn_out"), "site must be embed, blocks.L.resid_mid"),
    (claimed(indices=[0, 0]), "none of them twice"),
    (claimed(indices=[17]), "must be a whole number from 0 to 16; got 17"),
    (claimed(indices=[]), "at least one column"),
    (claimed(basis=[[1.0]]), "either basis or indices"),
    (lambda e: e["subspaces"].append([1]), "must have state, step, site"),
    (lambda e: e["subspaces"].append(e["subspaces"][0]), "is claimed twice"),
    (lambda e: e["subspaces"][0].update(basis=[[1.0]] * 16), "must be a matrix [17, m]"),
    (lambda e: e["subspaces"][0].update(basis=[[1.0]] * 16 + [[1.0, 2.0]]), "all rows of one length"),
    (lambda e: e["subspaces"][0].update(basis=[[0.0]] * 17), "must not be zero"),
    (lambda e: e["subspaces"][0].update(basis=[[float("nan")]] * 17), "NaN or infinite"),
    (lambda e: e["subspaces"][0].update(basis=[["a"]] * 17), "of numbers"),
    (lambda e: e.update(subspaces={}), "must be a list"),
    (lambda e: e["matvec"].append([22, 0]), "layer must be a whole number from 0 to 21; got 22"),
    (lambda e: e["matvec"].append([0, 0.5]), "head must be a whole number from 0 to 4; got 0.5"),
    (lambda e: e["matvec"].append([0]), "must be [layer, head]"),
    (lambda e: e["matvec"].append(e["matvec"][0]), "has a head twice"),
    (lambda e: e.update(solver="sor"), "must be among gd, "),
    (lambda e: e.update(solver=[]), "at least one"),
    (lambda e: e.update(solver=[["cg"]]), "must be among"),
    (without("interventions"), "'interventions' is missing"),
    (lambda e: e["interventions"].pop("p@2"), "'p@2' is missing"),
    (lambda e: e["interventions"].update(q=[]), "'q' is no question of this case"),
    (predicted(lambda values: values[:1]), "must be an array [8, 4, 1]; got [1, 4, 1]"),
    (predicted(lambda values: [[[float("inf")]] * 4] * 8), "NaN or infinite"),
    (predicted(lambda values: None), "must be an array [8, 4, 1] of numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_a_fault_is_named_with_its_place(suite, said, fault, words):
    name = kind(suite, "cg-linear")
    fault(said["cases"][name])
    with pytest.raises(Refusal) as refusal:
        check_predictions(said, suite)
    assert words in str(refusal.value)
    assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        ([], "does not say format"),
        ({"format": "other"}, "does not say format"),
        ({"format": FORMAT}, "must have `format` and `cases`"),
        ({"format": FORMAT, "cases": {"case-99": {}}}, "'case-99', which is no case"),
        ({"format": FORMAT, "cases": {"case-01": {}}}, "lacks case-02"),
    ],
)
def test_a_file_of_another_form_is_refused(suite, whole, words):
    with pytest.raises(Refusal) as refusal:
        check_predictions(whole, suite)
    assert words in str(refusal.value)


def test_nothing_said_is_refused(suite):
    with pytest.raises(Refusal, match="says nothing"):
        check_predictions({"format": FORMAT, "cases": {name: {} for name in suite.cases}}, suite)


def test_the_command_prints_a_table_and_writes_all_scores(exported, suite, right, tmp_path):
    path = tmp_path / "PREDICTIONS.json"
    path.write_text(json.dumps(right))
    result = cli("suite", "score", path, "--suite", exported)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "subspaces, any site  1.00 [1.00, 1.00]" in result.stdout
    table = result.stdout[: result.stdout.index("All scores:")]
    assert max(map(len, table.splitlines()[1:])) <= 80
    assert "…" not in table
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["cases"].keys() == suite.cases.keys()


def test_the_command_refuses_in_one_sentence(exported, right, tmp_path):
    path = tmp_path / "PREDICTIONS.json"
    path.write_text(json.dumps(right).replace('"solver": "', '"solver": "x', 1))
    refused(cli("suite", "score", path, "--suite", exported), "must be among")
    refused(
        cli("suite", "score", "/dev/null", "--suite", exported), "JSON: it is a device or a pipe"
    )
    path.write_text("{")
    refused(cli("suite", "score", path, "--suite", exported), "cannot be read as JSON")
    refused(cli("suite", "score", tmp_path / "none", "--suite", exported), "There is no file")
    path.write_text(json.dumps(right))
    refused(cli("suite", "score", path, "--suite", tmp_path), "holds no suite")
    refused(cli("suite", "score", path, "--suite", exported, "--out", path), "choose another name")
    assert json.loads(path.read_text()) == right
    assert not (tmp_path / "scores.json").exists()
