"""What a visitor sees first: compiled CG beside the textbook, softmax attention, trained models, a decoder."""
# mypy: implicit-reexport

from ridgeformer.experiments.demonstration.run import demo
