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

SUPPORTS, WARM, DRAGS, TURNS = 64, 15, 10, 4
"""The first updates of a page are slow in every browser, until its code is compiled."""


def rows() -> Iterator[tuple[str, float, float, bool, str]]:
    from browsing import opened_explorer, started_browser

    with tempfile.TemporaryDirectory() as directory, started_browser() as browser:
        path = Path(directory) / "explorer.html"
        path.write_text(page())
        yield "explorer: size of the page", path.stat().st_size / 1e6, 8, True, " MB"
        for world in WORLDS:
            trained = [m.name for m in MODELS if m.world == world and m.trained] or ["none"]
            compiled = [m.name for m in MODELS if m.world == world and not m.trained]
            pairs = [(name, trained[0]) for name in compiled]
            for name, beside in pairs + [(compiled[0], other) for other in trained[1:]]:
                view = f"world={world}&model={name}&trained={beside}&count={SUPPORTS}&ridge=1"
                opened, _ = opened_explorer(browser, path, 1366, view)
                opened.evaluate("n => explorer.drags(n)", WARM)
                session = opened.context.new_cdp_session(opened)
                session.send("Performance.enable", {"timeDomain": "threadTicks"})
                own = processor_time(session)
                took: Any = [opened.evaluate("n => explorer.drags(n)", DRAGS) for _ in range(TURNS)]
                busy = (processor_time(session) - own) / DRAGS / TURNS
                opened.context.close()
                what = f"explorer: a drag, {name} beside {beside}, k = {SUPPORTS}"
                yield (
                    f"{what} (of the processor: {busy:.0f} ms)",
                    min(map(median, took)),
                    50,
                    True,
                    " ms",
                )


def processor_time(session: Any) -> float:
    """Milliseconds for which the page kept the processor busy: on a busy machine, less than what has passed."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")
