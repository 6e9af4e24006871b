"""Models of other projects as subjects, one adapter per file."""
# mypy: implicit-reexport

from ridgeformer.models.adapters.gpt2 import GPT2Subject
from ridgeformer.models.adapters.module import ModuleSubject
