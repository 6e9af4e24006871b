"""Errors planted one at a time in a copy of the sources, to see which statement or test notices each.

`make mutants` runs them all and writes docs/mutants.md. The errors are listed in `planted`, one file for each
part of the library; `run` plants them, `catchers` runs what may notice, and `document` writes the table.
"""
