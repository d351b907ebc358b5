"""Tokenizers of the kinds of well-known models, trained by the tokenizers package on this project's own text."""
import json
import os
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
STRANGE = ("naïve café Ünïcode Ελληνικά σίγμα Русский текст 中文分词 日本語テキスト 한국어 문장 العربية עברית हिन्दी ไทย "
           "e\u0301 a\u0308\u0301 ﬁ 𝔘𝔫𝔦 👩‍👩‍👧‍👦 🇩🇪 ½ ² Ⅷ １２３ \u00a0\u2003\u3000 ") * 40


def corpus():
    """Text of which a third is C, a third prose, and some is of other scripts."""
    files = sorted((ROOT / "docs").glob("*.md"))[:6] + sorted((ROOT / "nn").glob("*.c"))[:12]
    return [path.read_text() for path in files] + [STRANGE]


def bpe(tokenizer, size=2500, special=(), **options):
    alphabet = pre_tokenizers.ByteLevel.alphabet() if options.pop("bytes", True) else []
    texts = options.pop("texts", None) or corpus()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                  initial_alphabet=alphabet, **options)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.decoder = decoders.ByteLevel()
    return bpe(t, special=["<|endoftext|>"])


def roberta():
    """GPT-2's rules with a prefix space, trimmed ranges, and a mask token that takes the white space before it."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    bpe(t, special=["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    t.add_tokens([AddedToken("wor", single_word=True), AddedToken("<sp>", rstrip=True), AddedToken("  "), AddedToken("    ")])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def split_bytes(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama3(texts=None):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = split_bytes(LLAMA3)
    t.decoder = decoders.ByteLevel()
    bpe(t, texts=texts)
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(250)]
    t.add_special_tokens(names + ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    bos = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
        special_tokens=[("<|begin_of_text|>", bos)])])
    return t


def qwen2():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = split_bytes(QWEN2)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False, add_prefix_space=False, use_regex=False)
    bpe(t)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("e\u0301t", normalized=True)])
    return t


def smollm():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
    return bpe(t, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"])


def of_sentencepiece(edit):
    """BPE of characters with a fallback to bytes; `edit` sets the rest of the file."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    bpe(t, special=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)], bytes=False, limit_alphabet=300)
    file = json.loads(t.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    file["decoder"] = {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    edit(file)
    t = Tokenizer.from_str(json.dumps(file))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def llama2():
    def edit(file):
        file["pre_tokenizer"] = None
        file["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    return of_sentencepiece(edit)


def metaspace():
    def edit(file):
        file["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        file["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    t = of_sentencepiece(edit)
    t.add_tokens([AddedToken("<x>", normalized=True), AddedToken("<y>", normalized=False, lstrip=True, rstrip=True)])
    return t


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, show_progress=False,
                                                              limit_alphabet=400))
    t.add_tokens([AddedToken("ÉTÉ"), AddedToken("the", single_word=True)])
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def of_file():
    """The tokenizer of a file, as ct_encode sees it: without truncation and padding."""
    t = Tokenizer.from_file(os.environ["TOKENIZER_FILE"])
    t.no_truncation()
    t.no_padding()
    return t


KINDS = [of_file] if "TOKENIZER_FILE" in os.environ else [gpt2, roberta, llama3, qwen2, smollm, llama2, metaspace, bert]
