"""What every exporter promises, ours and the user's alike."""

import pytest
from fork_server import cli, refused

from ridgeformer.export import EXPORTERS
from ridgeformer.transformer import Transformer, TransformerConfig, save
from ridgeformer.types import Refusal

OWN = """
import json
from dataclasses import dataclass, field
from pathlib import Path

import ridgeformer as rf
from ridgeformer.transformer import whole_directory


@rf.register
@dataclass(frozen=True)
class Shape(rf.Exporter):
    indent: int = field(default=2, metadata={"help": "Spaces of indentation."})

    name = "shape"
    summary = "the shape in one file"

    def save(self, model, directory, saved=None, force=False):
        with whole_directory(directory, force) as partial:
            text = json.dumps(model.config.to_dict(), indent=self.indent)
            (partial / "config.json").write_text(text)
"""


def small_model():
    """Softmax attention, ReLU and no norms: compiled models look like this."""
    shape = {"attention": "softmax", "mlp": "relu", "norm": "none", "dtype": "float64"}
    return Transformer(TransformerConfig(4, 1, 8, 2, 2, 4, 4, **shape))


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_exporter_writes_a_directory_whole_and_replaces_none_unasked(name, tmp_path):
    exporter = EXPORTERS[name]()
    assert exporter.name == name
    assert exporter.summary
    exporter.save(small_model(), tmp_path / "out")
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert first
    with pytest.raises(Refusal, match="not empty"):
        exporter.save(small_model(), tmp_path / "out")
    exporter.save(small_model(), tmp_path / "out", force=True)
    assert set(first) == {path.name for path in (tmp_path / "out").iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_exporter_of_the_users_own_is_a_choice_of_the_command(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    save(small_model(), tmp_path / "model")
    command = ["--import", tmp_path / "own.py", "export", tmp_path / "model", "--to", "shape"]
    done = cli(*command, "--out", tmp_path / "out", "--indent", "7")
    assert done.returncode == 0, done.stderr
    assert "the shape in one file" in done.stdout
    assert '{\n       "d_in": 4' in (tmp_path / "out/config.json").read_text()
    words = "--positions is not an option of the shape exporter", "--to gpt2"
    refused(cli(*command, "--out", tmp_path / "other", "--positions", "9"), *words)
    refused(
        cli("export", tmp_path / "model", "--to", "shap", "--out", tmp_path / "other"),
        "no exporter 'shap'",
    )
    assert not (tmp_path / "other").exists()
