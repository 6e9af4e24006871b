"""How `make site` builds the documentation: pages that are made from the code, and Sphinx for the rest."""
