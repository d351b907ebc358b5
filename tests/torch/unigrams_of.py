"""Unigram tokenizers as transformers converts those of T5, XLM-R, ALBERT and DeBERTa-v3, trained by sentencepiece on this project's own text."""
import io
import json

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import tokenizers_of

SPACES = Regex(" {2,}")
trained = {}


def fields(message):
    """(number, value) of each field of a protobuf message; numbers that are no texts are left out."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            at += size
            yield key >> 3, message[at - size:at]
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8


def train(rule="nmt_nfkc", **options):
    """The pieces with their scores, and the charsmap of the normalizer."""
    key = json.dumps([rule, options], sort_keys=True)
    if key not in trained:
        lines = [line for text in tokenizers_of.corpus() for line in text.split("\n") if line.strip()]
        out = io.BytesIO()
        options = dict(vocab_size=1500, model_type="unigram", character_coverage=0.995, hard_vocab_limit=False, minloglevel=2,
                       num_threads=1, max_sentence_length=100000) | options
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, normalization_rule_name=rule, **options)
        model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        vocab = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
        spec = dict(fields(dict(fields(out.getvalue()))[3]))
        trained[key] = vocab, spec[2]
    return trained[key]


def t5():
    vocab, charsmap = train(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    t = Tokenizer(models.Unigram(vocab + [(f"<extra_id_{i}>", 0.0) for i in range(9, -1, -1)], unk_id=2))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True), normalizers.Replace(SPACES, "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    t.add_special_tokens(["<pad>", "</s>", "<unk>"] + [f"<extra_id_{i}>" for i in range(10)])
    return t


def xlm_roberta():
    vocab, charsmap = train()
    t = Tokenizer(models.Unigram([("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + vocab[3:] + [("<mask>", 0.0)], unk_id=3))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(SPACES, " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, normalized=False)])
    return t


def albert():
    vocab, charsmap = train(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    t = Tokenizer(models.Unigram([(piece, score - 100 if piece[-1:] == "," and piece[-2:-1].isdigit() else score) for piece, score in vocab], unk_id=1))
    t.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Precompiled(charsmap), normalizers.Replace(SPACES, " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))])
    t.add_special_tokens(["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    return t


def deberta():
    vocab, charsmap = train("nfkc_cf", pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
    t = Tokenizer(models.Unigram(vocab + [("[MASK]", 0.0)], unk_id=3))
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Precompiled(charsmap), normalizers.Replace(SPACES, " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    t.add_special_tokens(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])
    return t


def unigram_bytes():
    """A fallback to bytes, as Unigram models of Llama's kind have it, without pieces of words, and NFKC."""
    vocab, _ = train("identity", byte_fallback=True, vocab_size=1700)
    t = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    return t


KINDS = [t5, xlm_roberta, albert, deberta, unigram_bytes]
