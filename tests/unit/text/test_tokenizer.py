import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.errors import TfmError
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import BYTES, FILES, LONGEST_TOKEN, RESERVED, Tokenizer, Tokenizers, is_unspaced
from tfm_cli.transformer import special

ENGLISH = [
    "The cat sat on the mat.",
    "a cat, the cat and a dog",
    "</s> the <pad> of <s> it's <unk> <0x41>",
    "in 2024",
] * 5
CHINESE = ["我是谁", "他说：“我是王明。”", "你是谁？我是王明。", "我们喜欢猫。"] * 5
TRICKY = [
    "  a  b , c 'd' !",
    "今日は、いい天気ですね。",
    "</s>",
    "<s> <pad> <mask> <blank> <unk>",
    "x</s></s>y",
    "<0x41><0x0A>",
    "▁a▁ ▁",
    "ﬁ … ＡＢＣ　１２３",
    "👨‍👩‍👧 ❤️",
    "e\u0301 \u0301",
    "\x00\x07\x1b\x1c\x85\u2028\u2029\t\r\n\v\f",
    " ",
    "   ",
    "\u3000",
    " 我",
    "नमस्ते می‌خواهم ข้อความ 한국어",
    "\U00010348\U000e0001\ufffd\ufffe",
]
TEXTS = (
    st.text()
    | st.text("abc </s>pad<0x41>▁我是。　ー１\u0301\u200d\u200c👩'’ \t\n", max_size=30)
    | st.sampled_from(TRICKY)
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(ENGLISH + CHINESE, TokenizerOptions(vocab_size=400))


@pytest.fixture(scope="module")
def reloaded(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(path)
    return Tokenizer.load(path)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_round_trip_on_every_text_without_a_control_id(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids, default=special.COUNT) >= special.COUNT


@pytest.mark.parametrize("text", TRICKY)
def test_round_trip_after_reloading(tokenizer: Tokenizer, reloaded: Tokenizer, text: str) -> None:
    assert reloaded.encode(text) == tokenizer.encode(text)
    assert reloaded.decode(reloaded.encode(text)) == text
    assert min(reloaded.encode(text)) >= special.COUNT


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_nfc_round_trip_is_the_normal_form(text: str) -> None:
    assert _NFC.decode(_NFC.encode(text)) == _NFC.normalize(text)


_NFC = Tokenizer.train(ENGLISH, TokenizerOptions(vocab_size=320, normalization="nfc"))


def test_nothing_is_normalized_unless_asked(tokenizer: Tokenizer) -> None:
    decomposed = "e\u0301 ﬁ … Ａ\u3000"
    assert tokenizer.normalize(decomposed) == decomposed
    assert _NFC.normalize(decomposed) == unicodedata.normalize("NFC", decomposed) == "\u00e9 ﬁ … Ａ\u3000"


def test_no_learnt_token_spells_a_control_or_byte_token(tokenizer: Tokenizer) -> None:
    # The training text holds these names many times, so a merge across would be learnt if it could.
    learnt = [tokenizer.token(i) for i in range(RESERVED, tokenizer.vocab_size)]
    assert not {piece.strip() for piece in learnt} & {*special.NAMES, *BYTES}
    assert len(set(learnt)) == len(learnt)


def test_control_names_and_bytes_come_first(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token(i) for i in range(RESERVED)] == [*special.NAMES, *BYTES]
    assert (special.NAMES[special.PAD], special.NAMES[special.END]) == ("<pad>", "</s>")


def test_the_first_word_is_the_same_token_as_in_mid_sentence(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("the cat") == tokenizer.encode("x the cat")[-2:]
    assert [tokenizer.token(i) for i in tokenizer.encode("the cat")] == [" the", " cat"]


def test_no_space_goes_before_an_ideograph(tokenizer: Tokenizer) -> None:
    assert tokenizer.token(tokenizer.encode("我是谁")[0])[0] == "我"


def test_no_token_splits_a_character_of_the_training_text(tokenizer: Tokenizer) -> None:
    characters = set("".join(ENGLISH + CHINESE))
    assert all(not tokenizer.token(i).startswith("<0x") for text in ENGLISH + CHINESE for i in tokenizer.encode(text))
    assert characters <= {tokenizer.token(i) for i in range(RESERVED, tokenizer.vocab_size)}


def test_an_unseen_character_is_its_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a Ж")
    assert [tokenizer.token(i) for i in ids[-2:]] == ["<0xD0>", "<0x96>"]
    assert tokenizer.decode(ids) == "a Ж"


def test_tokens_do_not_mix_letters_digits_and_punctuation(tokenizer: Tokenizer) -> None:
    for i in range(RESERVED, tokenizer.vocab_size):
        kinds = {unicodedata.category(c)[0] for c in tokenizer.token(i) if c not in " '’"} - {"M"}
        assert len(kinds) <= 1 or not kinds & {"L", "N"}, tokenizer.token(i)
        assert sum(c.isdigit() for c in tokenizer.token(i)) <= 1
        assert len(tokenizer.token(i)) <= LONGEST_TOKEN


def test_the_empty_text_and_control_ids_are_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == []
    assert tokenizer.encode_batch(["", "a", ""]) == [[], tokenizer.encode("a"), []]
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([special.BEGIN, *tokenizer.encode("the cat"), special.END, special.PAD]) == "the cat"


def test_batches_agree_with_single_texts(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_batch(TRICKY) == [tokenizer.encode(text) for text in TRICKY]
    assert tokenizer.decode_batch(tokenizer.encode_batch(TRICKY)) == TRICKY


def test_bytes_that_make_no_character_decode_to_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([special.COUNT + 0xE4]) == "\ufffd"


def test_token_names_the_id_that_does_not_exist(tokenizer: Tokenizer) -> None:
    for i in (-1, tokenizer.vocab_size):
        with pytest.raises(IndexError, match=str(i)):
            tokenizer.token(i)


def test_training_is_deterministic(tokenizer: Tokenizer) -> None:
    again = Tokenizer.train(iter(ENGLISH + CHINESE), TokenizerOptions(vocab_size=400))
    assert again.fingerprint == tokenizer.fingerprint


def test_fingerprint_depends_on_the_content_and_not_on_its_layout(tokenizer: Tokenizer, reloaded: Tokenizer) -> None:
    compact = Tokenizer(json.dumps(json.loads(reloaded._content)))
    assert compact.fingerprint == reloaded.fingerprint == tokenizer.fingerprint
    other = Tokenizer.train(ENGLISH, TokenizerOptions(vocab_size=320))
    assert len(other.fingerprint) == 64 and other.fingerprint != tokenizer.fingerprint != _NFC.fingerprint


def test_a_vocabulary_too_small_names_the_smallest_size_that_works() -> None:
    needed = RESERVED + len(set("".join(CHINESE)))
    with pytest.raises(TfmError, match=f"smallest size that works is {needed}") as caught:
        Tokenizer.train(CHINESE, TokenizerOptions(vocab_size=needed - 1))
    assert caught.value.where == "--vocab-size"
    assert Tokenizer.train(CHINESE, TokenizerOptions(vocab_size=needed)).vocab_size == needed


def test_a_small_text_gives_a_small_vocabulary_and_no_text_an_error() -> None:
    assert RESERVED < Tokenizer.train(["ab ab"], TokenizerOptions(vocab_size=8000)).vocab_size < RESERVED + 10
    with pytest.raises(TfmError, match="no text"):
        Tokenizer.train(["", ""])


def test_an_error_while_reading_reaches_the_caller() -> None:
    def lines():
        yield "a"
        raise TfmError("broken file")

    with pytest.raises(TfmError, match="broken file"):
        Tokenizer.train(lines())


def test_joint_and_separate_folders(tokenizer: Tokenizer, tmp_path) -> None:
    joint, separate = Tokenizers(tokenizer), Tokenizers(tokenizer, _NFC)
    joint.save(tmp_path)
    loaded = Tokenizers.load(tmp_path)
    assert loaded.shared and loaded.source is loaded.target and loaded.fingerprint == tokenizer.fingerprint
    separate.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES[1:])
    loaded = Tokenizers.load(tmp_path)
    assert not loaded.shared and loaded.target.fingerprint == _NFC.fingerprint
    assert loaded.fingerprint == separate.fingerprint != joint.fingerprint
    assert Tokenizers(_NFC, tokenizer).fingerprint != separate.fingerprint


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": 3}', "\x00"])
def test_a_file_that_is_no_tokenizer(tmp_path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(TfmError, match="tokenizer") as caught:
        Tokenizers.load(tmp_path)
    assert caught.value.where.endswith("tokenizer.json")


def test_another_programs_tokenizer_and_a_missing_one_are_refused(tmp_path) -> None:
    from tokenizers import Tokenizer as Other
    from tokenizers import models

    Other(models.BPE({"a": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TfmError, match="another program"):
        Tokenizers.load(tmp_path)
    with pytest.raises(TfmError, match="no such folder"):
        Tokenizers.load(tmp_path / "missing")


def test_a_line_of_a_megabyte(tokenizer: Tokenizer) -> None:
    text = "我是谁" * 100_000 + "abc " * 50_000
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("我是谁。", True), ("Tom 说", False), ("ประเทศไทย", True), ("Ein Haus", False), ("한국어", False)],
)
def test_unspaced_scripts(text: str, expected: bool) -> None:
    assert is_unspaced(text) is expected
