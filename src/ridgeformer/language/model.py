"""`LanguageModel`: a causal language model of Hugging Face, read from a directory and never from a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.language.extra import check_installed, first_line, quiet
from ridgeformer.language.forest import Forest, Tokens
from ridgeformer.language.packed import pack
from ridgeformer.language.reader import CHUNK, Reader, Wanted
from ridgeformer.language.record import check_record
from ridgeformer.types import Refusal, counted

AGREEMENT = 1e-3
"""How far log-probabilities may be apart when beginnings are shared; they differ by round-off, near 1e-5."""


class LanguageModel:
    """A network and its tokenizer, in float32 and in evaluation mode; every call runs on one thread."""

    def __init__(self, network: Any, tokenizer: Any, name: str) -> None:
        self.network = network.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        config = network.config.get_text_config()
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        self.vocabulary = int(config.vocab_size)
        self.context = int(getattr(config, "max_position_embeddings", None) or 2**31)
        """The most tokens that it reads."""
        self.known: dict[str, Tokens] = {}
        pack(self.network, CHUNK)

    @staticmethod
    def load(directory: str | Path) -> LanguageModel:
        """Reads a model's directory; a missing, damaged or incomplete one is refused."""
        check_installed("transformers", "tokenizers")
        folder = Path(directory)
        if not folder.is_dir():
            raise Refusal(
                f"There is no directory {folder} with a language model: `ridgeformer lm fetch` gets one."
            )
        if not (folder / "config.json").is_file():
            raise Refusal(f"{folder} holds no language model: there is no config.json in it.")
        check_record(folder)
        network = load_network(folder)
        return LanguageModel(network, load_tokenizer(folder), folder.name)

    def untrained(self, seed: int) -> LanguageModel:
        """The same architecture with random weights, drawn as those of the model were before its training."""
        from transformers import AutoModelForCausalLM

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = AutoModelForCausalLM.from_config(self.network.config, dtype=torch.float32)
        return LanguageModel(network, self.tokenizer, f"{self.name} (untrained)")

    @property
    def parameters(self) -> int:
        """The number of weights; those that two layers share count once."""
        with torch.device("meta"):
            return int(type(self.network)(self.network.config).num_parameters())

    def tokens(self, text: str) -> Tokens:
        """The tokens of a piece of text, without any that mark its beginning or end."""
        if text not in self.known:
            self.known[text] = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        return self.known[text]

    @cached_property
    def start(self) -> Tokens:
        """The tokens that the tokenizer puts before every text; most small models have none."""
        bare, whole = self.tokens("a"), tuple(self.tokenizer.encode("a"))
        return next((whole[:i] for i in range(len(whole)) if whole[i : i + len(bare)] == bare), ())

    def text(self, tokens: Sequence[int]) -> str:
        """The text that tokens stand for."""
        return str(self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    def ends_line(self, token: int) -> bool:
        """Whether a token ends the line or the text."""
        return token in self.tokenizer.all_special_ids or self.text([token])[:1] == "\n"

    def states(
        self, sequences: Sequence[Tokens], positions: Int[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n layers d"]:
        """The states at positions of each sequence: the embedding, then what each block has written."""
        forest, nodes = grown(sequences, positions)
        seen = Reader(self, forest).read(Wanted(states=nodes.flatten()))
        return seen.states.reshape(*positions.shape, *seen.states.shape[1:])

    def log_probabilities(
        self, sequences: Sequence[Tokens], tokens: Int[Tensor, "batch c"]
    ) -> Float[Tensor, "batch c"]:
        """The log-probabilities of tokens that may follow each sequence."""
        forest, nodes = grown(sequences, torch.full((len(sequences), 1), -1))
        wanted = Wanted(next_after=nodes[:, 0], next_tokens=tokens)
        return Reader(self, forest).read(wanted).log_probabilities

    def attention(
        self, sequences: Sequence[Tokens], positions: Int[Tensor, "batch t"]
    ) -> Float[Tensor, "batch layers heads t"]:
        """The attention from the last token of each sequence to positions in it."""
        ends = torch.full((len(sequences), 1), -1)
        forest, nodes = grown(sequences, torch.cat([ends, positions], dim=1))
        wanted = Wanted(attention_from=nodes[:, 0], attention_to=nodes[:, 1:])
        return Reader(self, forest).read(wanted).attention

    @contextmanager
    def attention_that_is_seen(self, seen: bool) -> Iterator[None]:
        """Within this, the network returns its attention if it must; it is faster where it need not."""
        before = self.network.config._attn_implementation
        if seen:
            self.network.set_attn_implementation("eager")
        try:
            yield
        finally:
            if seen:
                self.network.set_attn_implementation(before)

    @cached_property
    def branches(self) -> bool:
        """Whether sequences may share their beginnings in one call, found by trying.

        A network that has a state besides keys and values, or positions of its own counting, does not see
        several branches apart. Its sequences are then run one by one, which is slower.
        """
        first, second, third, fourth = (i * (self.vocabulary - 1) // 4 for i in (1, 2, 3, 4))
        forest = Forest()
        for sequence in ((first, second, third), (first, second, fourth), (first, fourth, third)):
            forest.grow(sequence)
        nodes = torch.arange(len(forest))
        every_token = torch.arange(self.vocabulary).expand(len(forest), -1)
        wanted = Wanted(next_after=nodes, next_tokens=every_token)
        apart = Reader(self, forest, shared=False).read(wanted).log_probabilities
        try:
            together = Reader(self, forest, shared=True).read(wanted).log_probabilities
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError):
            return False
        return bool((together - apart).abs().max() < AGREEMENT)

    def __repr__(self) -> str:
        return (
            f"LanguageModel {self.name}: {counted(self.layers, 'layer')} of {counted(self.heads, 'head')}, "
            f"width {self.width}, {self.vocabulary:,} tokens, {self.context:,} of them at once"
        )


def grown(
    sequences: Sequence[Tokens], positions: Int[Tensor, "batch n"]
) -> tuple[Forest, Int[Tensor, "batch n"]]:
    """A forest of sequences, and the nodes at positions in them."""
    forest = Forest()
    nodes = [
        [path[position] for position in wanted]
        for path, wanted in zip(map(forest.grow, sequences), positions.tolist(), strict=True)
    ]
    return forest, torch.tensor(nodes, dtype=torch.long).reshape(positions.shape)


def load_network(folder: Path) -> Any:
    """The network of a directory, with every weight that its configuration asks for."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        with quiet():
            network, found = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, dtype=torch.float32,
                attn_implementation="sdpa", output_loading_info=True,
            )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise Refusal(
            f"{folder} cannot be read as a causal language model: {first_line(error)}"
        ) from error
    if missing := sorted([*found["missing_keys"], *(str(key) for key in found["mismatched_keys"])]):
        raise Refusal(
            f"{folder} is damaged or incomplete: weight {missing[0]} is missing or does not fit."
        )
    for name, weight in network.named_parameters():
        if not weight.isfinite().all():
            raise Refusal(f"{folder} is damaged: weight {name} has NaN or infinite entries.")
    return network


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # tokenizers raises bare exceptions when it cannot read its file
        raise Refusal(f"{folder} has no tokenizer that can be read: {first_line(error)}") from error
    if not tokenizer.encode("a", add_special_tokens=False):
        raise Refusal(f"{folder} has an empty tokenizer: copy its tokenizer files, too.")
    return tokenizer
