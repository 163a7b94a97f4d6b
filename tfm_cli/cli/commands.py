"""The table of commands: what each is called, what it says of itself, its options, and where the function stands that does it."""

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.average import AverageOptions
from tfm_cli.cli.bench import BenchOptions
from tfm_cli.cli.command import Command
from tfm_cli.cli.distill import DistillOptions
from tfm_cli.cli.export import ExportOptions
from tfm_cli.cli.import_ import ImportOptions
from tfm_cli.cli.info import InfoOptions
from tfm_cli.cli.machine import CompileOptions, MachineOptions
from tfm_cli.cli.options import DemoOptions, EvalOptions, InitOptions
from tfm_cli.cli.translate_options import TranslateOptions
from tfm_cli.data.options import PreprocessOptions, TableOptions
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions, NonAutoregressiveOptions
from tfm_cli.recipes import preset
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.transformer.shape import Shape

START, BUILD, USE = "Start", "Build a translator", "Use it"

COMMANDS = (
    Command(
        "demo",
        "See the whole chain at work, in under three minutes.",
        "Writes a small Chinese-English corpus and a tfm.toml, then trains, translates and scores with the commands below.",
        (DemoOptions,),
        "tfm_cli.cli.demo:run",
        examples=("tfm demo", "tfm demo --output /tmp/demo"),
        group=START,
        project=False,
    ),
    Command(
        "import",
        "Turn translation memories into text to train on.",
        "Reads TMX, XLIFF (also SDLXLIFF, MQXLIFF and MXLIFF), PO, and two columns of tab-separated text. Inline codes are left "
        "out, line breaks become spaces, and of equal pairs one is kept. Writes two files, a sentence a line, and nothing where "
        "a file is damaged.",
        (ImportOptions,),
        "tfm_cli.cli.import_:run",
        examples=(
            "tfm import memories/ --source-lang de --target-lang en --test 1000",
            "tfm import a.tmx b.sdlxliff messages.po --source-lang en --target-lang pt-BR --output text/train",
        ),
        group=START,
        project=False,
    ),
    Command(
        "init",
        "Write a tfm.toml for your own text.",
        "Asks a few questions where --source and --target are not given. The text is two files, a sentence a line, line n of "
        "the one the translation of line n of the other.",
        (InitOptions,),
        "tfm_cli.cli.init:run",
        examples=(
            "tfm init",
            "tfm init --source train.de --target train.en --test-source test.de --test-target test.en",
        ),
        group=START,
        project=False,
    ),
    Command(
        "train-tokenizer",
        "Learn the vocabulary from text.",
        "Byte-pair encoding, one vocabulary for both languages. It keeps every text exactly: what it encodes, it gives back.",
        (TokenizerOptions, TableOptions),
        "tfm_cli.cli.train_tokenizer:run",
        examples=("tfm train-tokenizer", "tfm train-tokenizer --input train.de train.en --vocab-size 16000"),
        group=BUILD,
    ),
    Command(
        "preprocess",
        "Clean the sentence pairs and encode them.",
        "Reads the training, validation and test text, drops what no model should learn from and says why, and writes the "
        "folder that `tfm train` reads.",
        (PreprocessOptions,),
        "tfm_cli.cli.preprocess:run",
        examples=(
            "tfm preprocess",
            "tfm preprocess --source train.de --target train.en --valid-source valid.de --valid-target valid.en",
        ),
        group=BUILD,
    ),
    Command(
        "train",
        "Train a model.",
        "Reads the folder that `tfm preprocess` wrote. Ctrl-C saves before it stops, and --resume goes on exactly there.",
        (RunOptions, Shape, LearningOptions, NonAutoregressiveOptions, ValidationOptions),
        "tfm_cli.cli.train:run",
        examples=("tfm train", "tfm train --max-minutes 60", "tfm train --resume"),
        group=BUILD,
        presets=preset,
    ),
    Command(
        "distill",
        "Have a model translate the training text anew, for a student.",
        "Writes a data folder for `tfm train` with the same sources and the translations of a trained model, from which a model "
        "that writes all words at once learns better (Kim and Rush 2016). Stopped, it goes on where it was. Where a source is "
        "too long for the model, or its translation is empty or does not end, the pair keeps its own.",
        (DistillOptions, MachineOptions),
        "tfm_cli.cli.distill:run",
        examples=(
            "tfm distill --model run/ --output data-kd/",
            "tfm distill --model run/ --output data-kd/ --beam 1 --originals 0.2",
        ),
        group=BUILD,
    ),
    Command(
        "translate",
        "Translate text, a sentence a line.",
        "As many lines come out as go in, in their order, on stdout; everything else is on stderr.",
        (TranslateOptions, MachineOptions, CompileOptions, DecodeOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.translate:run",
        examples=(
            "tfm translate < input.txt > output.txt",
            "tfm translate --model run/ --beam 1 --input input.txt.gz",
            'echo "我是谁" | tfm translate',
        ),
        group=USE,
    ),
    Command(
        "eval",
        "Score translations: BLEU, chrF, TER.",
        "Translates --source with the model, or takes --hypothesis, and compares with --reference by sacreBLEU; without "
        "these files, the test pairs that `tfm preprocess` kept. The signature under the scores says how they were computed.",
        (EvalOptions, EvaluateOptions, MachineOptions, DecodeOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.eval:run",
        examples=(
            "tfm eval --bleu",
            "tfm eval --hypothesis output.txt --reference test.en",
            "tfm eval --hypothesis a.txt --compare b.txt --reference test.en",
        ),
        group=USE,
    ),
    Command(
        "bench",
        "Measure models side by side: quality and speed.",
        "All translate the same sentences in turn, in one run on this machine, alone and in batches. The table tells BLEU and "
        "chrF; ms, the time of a sentence in batches of one, median and 90 %; sentences a second at the best of the batch "
        "sizes 16, 64 and 256; passes, how often the decoder runs for a sentence; repeats, tokens in 1,000 that repeat the one "
        "before; length, words written over words in the references.",
        (BenchOptions, MachineOptions, CompileOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.bench:run",
        examples=(
            "tfm bench --model run/ student/",
            "tfm bench --model run/ student/ --source test.de --reference test.en --json bench.json --picture bench.svg",
        ),
        group=USE,
    ),
    Command(
        "average",
        "Average several models' weights into one.",
        "The mean of a run's last checkpoints is often better than the last, and costs no more to use.",
        (AverageOptions,),
        "tfm_cli.cli.average:run",
        examples=("tfm average --output run-average/", "tfm average a/ b/ c/ --output mean/"),
        group=USE,
    ),
    Command(
        "export",
        "Write a model for other programs.",
        "For CTranslate2: a folder that it loads without tfm and without torch, the tokenizer beside it. A dozen sentences are "
        "translated by both before it is there.",
        (ExportOptions,),
        "tfm_cli.cli.export:run",
        examples=("tfm export", "tfm export run/ --quantization int8 --output run-int8/"),
        group=USE,
    ),
    Command(
        "info",
        "Show what a model folder holds.",
        "Languages, size, shape, vocabulary, training data and scores.",
        (InfoOptions,),
        "tfm_cli.cli.info:run",
        examples=("tfm info", "tfm info run/ --json"),
        group=USE,
    ),
)
