"""Pages of commands, opened in a real browser that is off the network, at three widths."""

import pytest
from browsing import problems_at_every_width
from fork_server import cli

from ridgeformer.experiments.studies import STUDIES

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

COMMANDS = {
    "demo": ["demo"],
    "evaluate": ["evaluate", "linear-attention", "--prompts", 24],
    **{name: ["study", name, "--prompts", 8] for name in STUDIES},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_is_drawn_at_every_width(name, browser, tmp_path):
    done = cli(*COMMANDS[name], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert problems_at_every_width(browser, tmp_path / "index.html") == {}
