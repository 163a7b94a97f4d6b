import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu import BLEU

from tfm_cli.errors import TfmError
from tfm_cli.evaluation.metrics import compare, evaluate, looks_tokenized, quick_scores, tokenizer_for
from tfm_cli.evaluation.options import TOKENIZERS, EvaluateOptions

REFERENCE = [
    "A man in an orange hat starring at something.",
    "A Boston Terrier is running on lush green grass in front of a white fence.",
    "A girl in karate uniform breaking a stick with a front kick.",
    "Five people wearing winter jackets and helmets stand in the snow, with snowmobiles in the background.",
    "People are fixing the roof of a house, aren't they?",
]
HYPOTHESIS = [
    "A man with an orange hat is staring at something.",
    "A Boston terrier runs on lush green grass in front of a white fence.",
    "A girl breaking a stick in a karate uniform with a front kick.",
    "In the snow stand five people in winter jackets and helmets, snowmobiles in the background.",
    "People fix the roof of a house.",
]
OTHER = ["A man.", "A dog runs.", "A girl breaking a stick.", "Five people stand in the snow.", "People are fixing."]
REFERENCE_ZH = ["我们试试看！", "我该去睡觉了。", "你在干什么啊？", "今天是6月18号，也是Muiriel的生日！"]
HYPOTHESIS_ZH = ["让我们试试看！", "我要睡觉去了。", "你在做什么？", "今天是6月18日，Muiriel的生日！"]

PLAIN = EvaluateOptions(confidence=False)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def sacrebleu_command(folder: Path, hypotheses: list[str], references: list[list[str]], *arguments: str) -> list[dict]:
    files = [str(write(folder / f"ref{n}", lines)) for n, lines in enumerate(references)]
    command = [sys.executable, "-m", "sacrebleu", *files, "-i", str(write(folder / "hyp", hypotheses))]
    command += ["-m", "bleu", "chrf", "ter", "-f", "json", "-w", "8", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "SACREBLEU_SEED"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8", env=environment)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("hypotheses", "references", "language", "options", "arguments"),
    [
        (HYPOTHESIS, [REFERENCE], "en", EvaluateOptions(), ["-ci"]),
        (HYPOTHESIS, [REFERENCE, OTHER], None, PLAIN, []),
        (HYPOTHESIS, [REFERENCE], "en", EvaluateOptions(lowercase=True, confidence=False), ["-lc", "--chrf-lowercase"]),
        (
            HYPOTHESIS_ZH,
            [REFERENCE_ZH],
            "zh-CN",
            EvaluateOptions(bootstrap_samples=200),
            ["-ci", "-cin", "200", "-tok", "zh", "--ter-normalized", "--ter-asian-support"],
        ),
    ],
    ids=["en", "two references", "lowercase", "zh"],
)
def test_equals_the_sacrebleu_command(tmp_path, hypotheses, references, language, options, arguments):
    expected = sacrebleu_command(tmp_path, hypotheses, references, *arguments)
    scores = evaluate(hypotheses, references, options, language)
    assert [score.metric for score in scores] == ["BLEU", "chrF", "TER"]
    assert [score.signature for score in scores] == [row["signature"] for row in expected]
    for score, row in zip(scores, expected, strict=True):
        assert score.value == pytest.approx(row["score"], abs=1e-7)
        assert 0 < score.value < 100
        if "-ci" in arguments:
            mean, half = row["confidence_mean"], row["confidence_var"]
            assert score.interval == pytest.approx((mean - half, mean + half), abs=1e-6)
        else:
            assert score.interval is None


def test_only_the_metrics_asked_for():
    assert [score.metric for score in evaluate(HYPOTHESIS, [REFERENCE], EvaluateOptions(ter=True), "en")] == ["TER"]


def test_details_and_json():
    bleu, chrf, ter = (score.as_dict() for score in evaluate(HYPOTHESIS, [REFERENCE], EvaluateOptions(), "en"))
    assert set(bleu["details"]) == {"brevity_penalty", "length_ratio", *(f"precision_{n}" for n in range(1, 5))}
    assert bleu["details"]["length_ratio"] < 1
    assert bleu["details"]["brevity_penalty"] < 1
    assert chrf["details"] == {}
    assert ter["value"] == pytest.approx(100 * ter["details"]["edits"] / ter["details"]["reference_length"])
    for score in (bleu, chrf, ter):
        assert json.loads(json.dumps(score))["interval"] == list(score["interval"])


def test_chinese_is_not_scored_as_one_word_per_sentence():
    bleu, _, ter = evaluate(HYPOTHESIS_ZH, [REFERENCE_ZH], PLAIN, "zh")
    assert "tok:zh" in bleu.signature
    assert "asian:yes" in ter.signature
    by_hand = evaluate(HYPOTHESIS_ZH, [REFERENCE_ZH], EvaluateOptions(tokenize="zh", confidence=False), None)
    assert [bleu.value, ter.value] == [by_hand[0].value, by_hand[2].value]
    one_word = evaluate(HYPOTHESIS_ZH, [REFERENCE_ZH], PLAIN, None)
    assert bleu.value > one_word[0].value + 10
    assert ter.value < one_word[2].value - 10


@pytest.mark.parametrize(("language", "asian"), [("ja-JP", "yes"), ("zh_Hant", "yes"), ("ko", "no"), ("de", "no")])
def test_ter_splits_characters_where_words_are_not_spaced(language, asian):
    (ter,) = evaluate(["a"], [["b"]], EvaluateOptions(ter=True), language)
    assert f"asian:{asian}" in ter.signature


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        *[(code, "zh") for code in ("zh", "zh-CN", "zh_Hans", "ZH-hant-TW", "zho_Hans", "cmn", "yue")],
        *[(code, "ja-mecab") for code in ("ja", "ja-JP", "jpn_Jpan")],
        *[(code, "ko-mecab") for code in ("ko", "ko_KR", "kor")],
        *[(code, "char") for code in ("th", "lo", "km", "my", "th-TH", "khm_Khmr")],
        *[(code, "13a") for code in ("en", "de-AT", "fr", "no", "za", "jam", "", None)],
    ],
)
def test_tokenizer_for(language, tokenizer):
    assert tokenizer_for(language) == tokenizer


def test_tokenizers_offered_are_those_of_sacrebleu_for_plain_text():
    assert set(TOKENIZERS) == set(BLEU.TOKENIZERS) - {"none", "spm"}


@pytest.mark.parametrize(("language", "module"), [("ja", "MeCab"), ("ko", "mecab_ko")])
def test_a_missing_extra_names_its_install(language, module):
    if importlib.util.find_spec(module):
        assert f"tok:{language}-mecab" in evaluate(["a"], [["a"]], EvaluateOptions(bleu=True), language)[0].signature
        return
    with pytest.raises(TfmError, match=rf"pip install 'tfm-cli\[{language}\]'"):
        quick_scores(["a"], ["a"], language)
    assert evaluate(["a"], [["a"]], EvaluateOptions(chrf=True), language)[0].value == 100


def test_an_unknown_tokenizer_is_a_user_error():
    with pytest.raises(TfmError, match="Did you mean 13a"):
        evaluate(HYPOTHESIS, [REFERENCE], EvaluateOptions(tokenize="13b"), "en")


def test_numbers_of_lines_must_agree():
    with pytest.raises(TfmError, match="5 hypotheses but 4 lines in the reference"):
        evaluate(HYPOTHESIS, [REFERENCE[:4]], PLAIN, "en")
    with pytest.raises(TfmError, match="5 hypotheses but 6 lines in reference set 2"):
        evaluate(HYPOTHESIS, [REFERENCE, [*REFERENCE, "more"]], PLAIN, "en")
    with pytest.raises(TfmError, match="second: 3 hypotheses but 5 lines"):
        compare({"first": HYPOTHESIS, "second": HYPOTHESIS[:3]}, [REFERENCE], EvaluateOptions(), "en")


def test_nothing_to_score():
    with pytest.raises(TfmError, match="no hypotheses"):
        evaluate([], [[]], PLAIN, "en")
    with pytest.raises(TfmError, match="no references"):
        evaluate(HYPOTHESIS, [], PLAIN, "en")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_empty_lines_do_not_crash(language):
    bleu, chrf, ter = evaluate([""] * 5, [REFERENCE], EvaluateOptions(), language)
    assert (bleu.value, chrf.value, ter.value) == (0, 0, 100)
    assert bleu.interval == (0, 0)
    assert quick_scores(["", ""], ["", ""], language)[0].value == 0
    assert [c.value for c in compare({"a": [""] * 5, "b": [""] * 5}, [REFERENCE], PLAIN, "en")] == [
        0,
        0,
        0,
        0,
        100,
        100,
    ]


def test_the_seed_decides_the_interval_and_leaves_the_environment_alone(monkeypatch):
    def interval(seed):
        return evaluate(HYPOTHESIS, [REFERENCE], EvaluateOptions(bleu=True, seed=seed), "en")[0].interval

    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    first = interval(1)
    assert "SACREBLEU_SEED" not in os.environ
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    assert interval(1) == first != interval(2)
    assert os.environ["SACREBLEU_SEED"] == "99"


def test_compare():
    systems = {"base": OTHER * 20, "twin": OTHER * 20, "better": HYPOTHESIS * 20}
    options = EvaluateOptions(bootstrap_samples=200)
    rows = compare(systems, [REFERENCE * 20], options, "en")
    assert [(row.metric, row.system) for row in rows] == [(m, s) for m in ("BLEU", "chrF", "TER") for s in systems]
    assert rows == compare(systems, [REFERENCE * 20], options, "en")
    alone = {s: evaluate(systems[s], [REFERENCE * 20], PLAIN, "en") for s in systems}
    for position, row in enumerate(rows):
        assert row.value == alone[row.system][position // 3].value
        assert row.interval[0] <= row.mean <= row.interval[1]
        assert "bs:200|seed:12345" in row.signature
    assert [rows[i].p_value for i in (0, 3, 6)] == [None] * 3
    assert [rows[i].p_value for i in (1, 4, 7)] == [1.0] * 3, "equal systems never differ significantly"
    assert all(rows[i].p_value < 0.05 for i in (2, 5, 8))
    assert [json.loads(json.dumps(row.as_dict()))["mean"] for row in rows] == [row.mean for row in rows]


def test_compare_equals_the_sacrebleu_command(tmp_path):
    nearly = [*HYPOTHESIS[:4], REFERENCE[4]]
    files = [write(tmp_path / name, lines) for name, lines in (("ref", REFERENCE), ("a", HYPOTHESIS), ("b", nearly))]
    command = [sys.executable, "-m", "sacrebleu", str(files[0]), "-i", *map(str, files[1:])]
    # As JSON, sacrebleu 2.6 crashes on its own float32.
    command += ["--paired-bs", "-m", "bleu", "chrf", "ter", "-f", "latex", "-w", "4", "--no-color"]
    environment = {k: v for k, v in os.environ.items() if k != "SACREBLEU_SEED"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, encoding="utf-8")
    table = [line.split("&")[1:] for line in done.stdout.splitlines() if line.count("&") == 3][1:]
    expected = [[float(x) for x in re.findall(r"\d+\.\d{4}", cell)] for system in table for cell in system]

    rows = compare({"a": HYPOTHESIS, "b": nearly}, [REFERENCE], EvaluateOptions(), "en")
    rows.sort(key=lambda row: row.system)
    actual = [[row.value, row.mean, (row.interval[1] - row.interval[0]) / 2] for row in rows]
    assert [len(cell) for cell in expected] == [3] * 3 + [4] * 3
    assert [cell[:3] for cell in expected] == [pytest.approx(cell, abs=1e-4) for cell in actual]
    assert [cell[3] for cell in expected[3:]] == pytest.approx([row.p_value for row in rows[3:]], abs=1e-4)
    assert any(row.p_value > 0.05 for row in rows[3:])


def test_compare_needs_two_systems_and_resamples():
    with pytest.raises(TfmError, match="two systems"):
        compare({"only": HYPOTHESIS}, [REFERENCE], EvaluateOptions(), "en")
    with pytest.raises(TfmError, match="--bootstrap-samples"):
        compare({"a": HYPOTHESIS, "b": OTHER}, [REFERENCE], EvaluateOptions(bootstrap_samples=0), "en")


def test_quick_scores_are_the_full_scores():
    bleu, chrf, _ = evaluate(HYPOTHESIS, [REFERENCE], PLAIN, "en")
    assert [(s.metric, s.value) for s in quick_scores(HYPOTHESIS, REFERENCE, "en")] == [
        ("BLEU", bleu.value),
        ("chrF", chrf.value),
    ]


def test_tokenized_text_is_noticed_by_us_and_not_by_sacrebleu(caplog, capsys):
    tokenized = ["A man , in a hat ."] * 150
    with caplog.at_level(logging.WARNING):
        evaluate(tokenized, [["A man, in a hat."] * 150], EvaluateOptions(bootstrap_samples=10), "en")
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
    assert looks_tokenized(tokenized)
    assert looks_tokenized(["我 该 去 睡觉 了 。\n", ""])
    assert not looks_tokenized(REFERENCE)
    assert not looks_tokenized(["one .", "two."])
    assert not looks_tokenized(["", ""])


WORDS = st.lists(st.sampled_from(["the", "cat", "Hund", "猫", "sat,", "on", "3.5", "mat."]), min_size=4, max_size=9)
SENTENCES = st.lists(WORDS.map(" ".join), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(sentences=SENTENCES)
def test_a_perfect_translation_is_perfect(sentences):
    values = [score.value for score in evaluate(sentences, [sentences], PLAIN, "en")]
    assert values == pytest.approx([100, 100, 0])


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(WORDS.map(" ".join), WORDS.map(" ".join)), min_size=1, max_size=5), data=st.data())
def test_the_order_of_lines_does_not_matter(pairs, data):
    shuffled = data.draw(st.permutations(pairs))
    values = [
        [score.value for score in evaluate([h for h, _ in order], [[r for _, r in order]], PLAIN, "en")]
        for order in (pairs, shuffled)
    ]
    assert values[0] == pytest.approx(values[1])


def test_a_thousand_sentences_take_seconds():
    hypotheses = [f"{n} {line}" for n in range(200) for line in HYPOTHESIS]
    references = [f"{n} {line}" for n in range(200) for line in REFERENCE]
    start = time.perf_counter()
    evaluate(hypotheses, [references], EvaluateOptions(), "en")
    assert time.perf_counter() - start < 20


def test_resamples_of_which_some_match_nothing_still_make_an_interval():
    hypotheses, references = ["a b c d e f", "x", "y", "z"], [["a b c d e f", "1", "2", "3"]]
    for score in evaluate(hypotheses, references, EvaluateOptions(bootstrap_samples=200), "en"):
        assert score.interval is not None
        assert score.interval[0] < score.interval[1]
