"""The house keeps its shape: one class, short files, no solver's name in the transformer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeformer
from ridgeformer.transformer import Transformer

ROOT = Path(__file__).parent.parent
EXPLORER = "src/ridgeformer/experiments/explorer/js"
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_the_transformer_has_no_word_of_any_solver():
    words = re.compile(
        r"conjugate|ridge(?!former)|krr|richardson|chebyshev|\bcg\b|newton|solver|α", re.I
    )
    for path in (ROOT / "src/ridgeformer/transformer").glob("*.py"):
        found = [line for line in path.read_text().splitlines() if words.search(line)]
        assert found == [], path


def test_the_explorer_runs_models_without_a_word_of_any_solver():
    words = re.compile(r"conjugate|ridge|krr|richardson|chebyshev|\bcg\b|newton|solver|α", re.I)
    texts = {p.stem: p.read_text() for p in (ROOT / EXPLORER).glob("*.js")}
    run = ["models"]  # what loads and runs a model, and all that it imports
    for name in run:
        found = re.findall(r'^import .* from "(\w+)";', texts[name], re.M)
        run += [other for other in found if other not in run]
        assert not words.search(texts[name]), name
    assert {"transformer", "matrix", "functions", "files", "layouts", "readings"} <= set(run)


def test_a_compiled_model_is_an_instance_of_the_generic_class():
    model = ridgeformer.compile(
        ridgeformer.ConjugateGradient(),
        features=2,
        steps=1,
        ridge=1.0,
        to=ridgeformer.LinearAttention(max_eigenvalue=1.0),
    )
    assert type(model.transformer) is Transformer


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_fit_in_one_sitting(path):
    limit = 300 if path.name == "model.py" else 400
    assert len(path.read_text().splitlines()) <= limit


def test_no_pickle_anywhere():
    """A state dict of others is read as tensors alone, which runs nothing that it holds."""
    banned = re.compile(r"pickle(?!=False)|torch\.save\(|torch\.load\((?!.*weights_only=True\))")
    for path in SOURCES:
        assert not banned.search(path.read_text()), path


def test_every_public_name_loads():
    for name in ridgeformer.__all__:
        assert getattr(ridgeformer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ridgeformer.nonsense


def test_every_door_offers_what_it_imports_to_type_checkers_too():
    """Users who check types strictly could import nothing from a room without that line."""
    doors = [path for path in SOURCES if path.name == "__init__.py" and path.parent.name != "cli"]
    doors = [path for path in doors if re.search(r"^ *from ridgeformer\b", path.read_text(), re.M)]
    assert len(doors) > 20
    own_names_alone = {"zoo", "recipes", "language"}
    for path in doors:
        marked = "\n# mypy: implicit-reexport\n" in path.read_text()
        assert marked or path.parent.name in own_names_alone, path


def test_importing_the_package_is_free():
    code = "import sys, ridgeformer; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
