"""The options of `tfm train`, besides the network's shape."""

from dataclasses import dataclass

from tfm_cli.families import FAMILIES
from tfm_cli.options import AUTO, check, option

RUN, LEARNING, VALIDATION = "Run", "Learning", "Validation and checkpoints"


@dataclass(frozen=True)
class RunOptions:
    """Where a run reads and writes, and when it ends."""

    data: str = option("data", "Folder that `tfm preprocess` wrote.", is_path=True, metavar="FOLDER", group=RUN)
    output: str = option("run", "Folder for the model and its checkpoints.", is_path=True, metavar="FOLDER", group=RUN)
    preset: str = option(
        AUTO,
        "Network size, or auto, by the number of training pairs. Dropout, batches, rate and schedule fit the network, the pairs "
        "and the run's limit; single options override each.",
        choices=(AUTO, "tiny", "mini", "small", "base", "big"),
        group=RUN,
    )
    family: str = option(
        "autoregressive",
        "How the model writes a sentence: word after word, all words at once (oneshot, ctc, dag), or in a few passes.",
        choices=tuple(FAMILIES),
        group=RUN,
    )
    init_from: str | None = option(
        None,
        "Model folder with the same tokenizer: start from its weights, those of fitting name and shape.",
        is_path=True,
        metavar="FOLDER",
        group=RUN,
    )
    resume: bool = option(False, "Continue the run in the output folder exactly where it stopped.", group=RUN)
    overwrite: bool = option(False, "Delete a run that stands in the output folder.", group=RUN)
    max_minutes: float | None = option(
        None,
        "Stop by the clock: minutes of training, sittings added up, the closing validation (once one has been timed) included.",
        minimum=0.01,
        group=RUN,
    )
    max_steps: int | None = option(None, "Stop after this many updates.", minimum=1, group=RUN)
    max_epochs: int | None = option(None, "Stop after this many passes over the data.", minimum=1, group=RUN)
    seed: int = option(1, "Seed of weights, shuffling and dropout.", minimum=0, group=RUN)
    device: str = option("auto", "cpu, cuda, mps, or auto for the best one here.", group=RUN)
    precision: str = option(
        "auto",
        "Float type of the products; weights and optimizer stay float32. auto: bfloat16 where the hardware has it.",
        choices=("auto", "float32", "bfloat16"),
        group=RUN,
    )
    threads: int | None = option(
        None, "CPU threads (default: OMP_NUM_THREADS, else the cores here).", minimum=1, group=RUN
    )
    compile: bool = option(
        False, "Have torch.compile write kernels for this network; pays off in long runs.", group=RUN
    )
    tensorboard: bool = option(False, "Also write TensorBoard events (needs tfm-cli[tensorboard]).", group=RUN)

    def __post_init__(self) -> None:
        check(self)

    @property
    def has_end(self) -> bool:
        """Whether the share of the run that has passed can be told."""
        return bool(self.max_minutes or self.max_steps or self.max_epochs)


@dataclass(frozen=True)
class LearningOptions:
    """Batches, loss and optimizer (sections 5.1 to 5.4 of the paper)."""

    batch_tokens: int | str = option(
        2048,
        "Token budget of a batch: sentences times the longest, source and target each. auto: what memory has room for.",
        minimum=1,
        words=(AUTO,),
        group=LEARNING,
    )
    accumulate: int = option(
        1, "Batches per update (and process), weighted by their real target tokens.", minimum=1, group=LEARNING
    )
    optimizer: str = option(
        "muon",
        "muon for the matrices of the layers, which learns more from each batch, and adam for the rest; or adam for all.",
        choices=("muon", "adam"),
        group=LEARNING,
    )
    learning_rate: float = option(1e-3, "Peak learning rate.", minimum=0, group=LEARNING)
    warmup_steps: int = option(400, "Updates of linear warm-up to the peak.", minimum=0, group=LEARNING)
    schedule: str = option(
        "inverse-sqrt",
        "After warm-up: inverse square root, constant, or down to zero over the run along a cosine or a line.",
        choices=("inverse-sqrt", "cosine", "linear", "constant"),
        group=LEARNING,
    )
    label_smoothing: float = option(
        0.1, "Share of probability spread over the vocabulary.", minimum=0, maximum=0.9, group=LEARNING
    )
    r_drop: float = option(
        0.0,
        "Weight of R-Drop: two passes with different dropout shall agree. Good values are 1 to 5; doubles the time of a step.",
        minimum=0,
        group=LEARNING,
    )
    beta1: float = option(0.9, "Adam's first decay.", minimum=0, maximum=0.9999, group=LEARNING)
    beta2: float = option(0.98, "Adam's second decay.", minimum=0, maximum=0.99999, group=LEARNING)
    weight_decay: float = option(0.0, "Decoupled weight decay (AdamW).", minimum=0, group=LEARNING)
    clip_norm: float = option(1.0, "Clip the gradient's norm; 0: never.", minimum=0, group=LEARNING)
    ema: float = option(
        0.999,
        "Decay of the moving average of weights that is validated and saved; 0: the last weights.",
        minimum=0,
        maximum=0.99999,
        group=LEARNING,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class ValidationOptions:
    """How a run watches itself, and what it keeps."""

    valid_every: int = option(
        0, "Updates between validations; 0: after each epoch, held below 5 % of the time.", minimum=0, group=VALIDATION
    )
    valid_sentences: int = option(
        500, "Validation sentences to translate for BLEU and chrF.", minimum=0, group=VALIDATION
    )
    valid_beam: int = option(1, "Beam of those translations.", minimum=1, group=VALIDATION)
    best_by: str = option(
        "bleu", "Which validation figure picks the best model.", choices=("bleu", "chrf", "loss"), group=VALIDATION
    )
    patience: int = option(
        10, "Stop after this many validations without a new best; 0: never.", minimum=0, group=VALIDATION
    )
    samples: int = option(2, "Sample translations shown at each validation.", minimum=0, group=VALIDATION)
    keep: int = option(2, "Newest checkpoints to keep; the best always stays.", minimum=1, group=VALIDATION)
    log_every: int = option(50, "Updates between log lines.", minimum=1, group=VALIDATION)

    def __post_init__(self) -> None:
        check(self)
