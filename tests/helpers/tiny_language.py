"""A small Llama with random weights and a tokenizer of bytes, made on the fly."""

import torch


def byte_letters():
    """The letter that stands for each byte in byte-level BPE: itself if it prints, else one from 256 on."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    letters = {byte: chr(byte) for byte in printed}
    return letters | {byte: chr(256 + i) for i, byte in enumerate(others)}


def vocabulary(merges):
    letters = byte_letters()
    tokens = ["<end>", *(letters[byte] for byte in range(256)), *(a + b for a, b in merges)]
    return {token: i for i, token in enumerate(tokens)}


# " A", " B", " f", " fo", " foo" and "at" are tokens; digits and all else are bytes.
MERGES = [("Ġ", "A"), ("Ġ", "B"), ("Ġ", "f"), ("Ġf", "o"), ("Ġfo", "o"), ("a", "t")]


def tiny_tokenizer(merges=MERGES, start=False):
    from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(BPE(vocabulary(merges), merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if start:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<end> $A", special_tokens=[("<end>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<end>", eos_token="<end>")


def tiny_network(vocab_size=300, seed=0, **shape):
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "initializer_range": 0.3,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **settings | shape)).eval()


def tiny_model(seed=0, merges=MERGES, start=False, **shape):
    from ridgeformer.language import LanguageModel

    return LanguageModel(tiny_network(seed=seed, **shape), tiny_tokenizer(merges, start), "tiny")


def save_tiny(folder, **shape):
    """A directory as Hugging Face writes it."""
    tiny_network(**shape).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
