"""What a visitor sees first: compiled CG beside the textbook, softmax attention, and trained models."""

from ridgeformer.experiments.demonstration.run import demo
