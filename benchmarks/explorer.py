"""The explorer in a real browser: its size, and how long the page takes to follow a dot that is dragged."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ridgeformer.experiments.explorer.build import page
from ridgeformer.experiments.explorer.shown import MODELS, WORLDS

sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))

SUPPORTS, DRAGS, WARM = 64, 40, 15
"""The first updates of a page are slow in every browser, until its code is compiled."""


def rows() -> Iterator[tuple[str, float, float, bool, str]]:
    from browsing import opened_explorer, started_browser

    with tempfile.TemporaryDirectory() as directory, started_browser() as browser:
        path = Path(directory) / "explorer.html"
        path.write_text(page())
        yield "explorer: size of the page", path.stat().st_size / 1e6, 8, True, " MB"
        for world in WORLDS:
            trained = [m.name for m in MODELS if m.world == world and m.trained][:1] or ["none"]
            for shown in (m for m in MODELS if m.world == world and not m.trained):
                view = f"world={world}&model={shown.name}&trained={trained[0]}&count={SUPPORTS}&ridge=1"
                opened, _ = opened_explorer(browser, path, 1366, view)
                took: Any = opened.evaluate("n => explorer.drags(n)", DRAGS)
                opened.context.close()
                what = f"explorer: a drag, {shown.name} beside {trained[0]}, k = {SUPPORTS}"
                yield what, median(took[WARM:]), 50, True, " ms"
