"""The names of what is compared, which the study writes and the page reads."""

MODEL = "language model"
WHOLE, SHIFTED = "states", "states less their mean"
FROZEN, PRINCIPAL, RANDOM = "frozen subspace", "principal subspace", "random subspace"
UNTRAINED = ", untrained weights"
"""What is added to a name."""
