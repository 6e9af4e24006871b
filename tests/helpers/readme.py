"""The code and the commands of the README, as its readers copy them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def snippets(language):
    """The blocks of a language; those of none have the language ''."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M)
    return [text for kind, text in blocks if kind == language]


def commands(*languages):
    """Every `ridgeformer …` of these blocks, in order, without comments."""
    lines = [
        line.split("#")[0].strip()
        for language in languages
        for block in snippets(language)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [" ".join(line.split()) for line in lines if line.startswith("ridgeformer ")]
