"""`python -m mutants`: plants the errors, says what notices each, and writes docs/mutants.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mutants.document import NEEDED, document, share_caught
from mutants.mutant import Unfit
from mutants.planted import MUTANTS
from mutants.run import Campaign

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/mutants.md"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="names of mutants; all of them if left out")
    parser.add_argument("--workers", type=int, default=2, help="processes beside each other")
    parser.add_argument("--kept", type=Path, default=ROOT / "results/mutants", help="where results are kept")  # fmt: skip
    parser.add_argument("--narrow", action="store_true", help="leave out the statements and tests that a mutant does not name")  # fmt: skip
    parser.add_argument("--table", action="store_true", help="run nothing, and write the table from the results that are kept")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    if options.list:
        for mutant in MUTANTS.values():
            say(f"{mutant.name:<40} {mutant.breaks}")
        return 0
    unknown = [name for name in options.only if name not in MUTANTS]
    if unknown:
        say(f"There is no mutant {unknown[0]!r}: `python -m mutants --list` names them all.")
        return 2
    chosen = [m for m in MUTANTS.values() if not options.only or m.name in options.only]
    campaign = Campaign(ROOT, options.kept, options.workers, say, wider=not options.narrow)
    if options.table:
        kept = {m.name: campaign.read(m) for m in MUTANTS.values()}
        known = {name: outcome[0] for name, outcome in kept.items() if outcome is not None}
        PAGE.write_text(document(list(MUTANTS.values()), known))
        say(f"{len(known)} of {len(kept)} have been run")
        return 0
    try:
        caught = campaign.run(chosen)
    except Unfit as unfit:
        say(str(unfit))
        return 2
    survivors = [m for m in chosen if caught[m.name] is None]
    for mutant in survivors:
        say(f"survives: {mutant.name}: {mutant.survives or 'not explained'}")
    say(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    if not options.only:
        PAGE.write_text(document(chosen, caught))
    good = share_caught(caught) >= NEEDED and all(m.survives for m in survivors)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
