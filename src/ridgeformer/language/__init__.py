"""Language models: prompts in words and numbers, and what is read of a model on them."""
# mypy: implicit-reexport

from ridgeformer.language.fetching import Fetched, default_directory, fetch
from ridgeformer.language.forest import Forest, Tokens
from ridgeformer.language.formats import FORMATS, NumberFormat
from ridgeformer.language.influence import changed_answers, label_flips, log_odds, target_changes
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.numbers import (
    NumberAnswers,
    Tokenization,
    expectations,
    number_answers,
    quantiles,
    tokenization,
)
from ridgeformer.language.prompts import (
    LABELS,
    TokenPrompt,
    class_prompts,
    labels_of,
    number_prompts,
    prompts,
)
from ridgeformer.language.reader import Reader, Seen, Wanted
from ridgeformer.language.readings import Readings, isolated_states, read
from ridgeformer.language.scoring import scores
from ridgeformer.language.tasks import LANGUAGE_TASKS, LanguageTask, Problems
