"""Train a Marian network from scratch by Hugging Face's Seq2SeqTrainer, which has no command for that:

    python huggingface.py SETTINGS.json

After each update it prints ``update TIME TOKENS``: seconds since the epoch, and the update's real target tokens, END counted.
"""

import json
import sys
import time
from pathlib import Path

import sentencepiece
from transformers import (
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    set_seed,
)


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    set_seed(42)
    tokenizer = make_tokenizer(settings)
    model = MarianMTModel(network(tokenizer, settings["attention_dropout"]))
    counter = Counter(DataCollatorForSeq2Seq(tokenizer, model=model))
    Seq2SeqTrainer(
        model=model,
        args=training(settings),
        train_dataset=encode(tokenizer, settings),
        data_collator=counter,
        processing_class=tokenizer,
        callbacks=[Reporter(counter)],
    ).train()


def make_tokenizer(settings: dict) -> MarianTokenizer:
    """Marian's tokenizer takes a vocabulary beside the BPE model; here the two have the same ids."""
    model = f"{settings['text']}/bpe.model"
    pieces = sentencepiece.SentencePieceProcessor(model_file=model)
    vocabulary = Path(settings["run"]) / "vocab.json"
    ids = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    vocabulary.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    languages = {"source_lang": settings["source"], "target_lang": settings["target"]}
    return MarianTokenizer(source_spm=model, target_spm=model, vocab=str(vocabulary), model_max_length=128, **languages)


def encode(tokenizer: MarianTokenizer, settings: dict) -> list[dict]:
    sides = [
        Path(settings["text"], f"train.{settings[side]}").read_text(encoding="utf-8").splitlines()
        for side in ("source", "target")
    ]
    encoded = tokenizer(sides[0], text_target=sides[1], truncation=True, max_length=128)
    return [dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)]


def network(tokenizer: MarianTokenizer, attention_dropout: float) -> MarianConfig:
    stacks = {"layers": 3, "ffn_dim": 1024, "attention_heads": 4}
    return MarianConfig(
        vocab_size=len(tokenizer.get_vocab()),
        d_model=256,
        **{f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in stacks.items()},
        dropout=0.1,
        attention_dropout=attention_dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id,
        forced_eos_token_id=None,
    )


def training(settings: dict) -> Seq2SeqTrainingArguments:
    return Seq2SeqTrainingArguments(
        output_dir=settings["run"],
        per_device_train_batch_size=settings["sentences"],
        train_sampling_strategy="group_by_length",
        label_smoothing_factor=0.1,
        learning_rate=1e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=400,
        adam_beta1=0.9,
        adam_beta2=0.98,
        weight_decay=0.0,
        max_grad_norm=1.0,
        max_steps=1_000_000,
        bf16=settings["mixed"],
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        seed=42,
        disable_tqdm=True,
        dataloader_num_workers=0,
        remove_unused_columns=False,
    )


class Counter:
    """A collator that keeps the real target tokens of each batch in the order of making: the Trainer makes some ahead."""

    def __init__(self, collate: DataCollatorForSeq2Seq) -> None:
        self.collate, self.tokens = collate, []

    def __call__(self, rows: list[dict]) -> dict:
        batch = self.collate(rows)
        self.tokens.append(int((batch["labels"] != -100).sum()))
        return batch


class Reporter(TrainerCallback):
    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def on_step_end(self, args, state, control, **kwargs) -> None:
        print("update", time.time(), self.counter.tokens[state.global_step - 1], flush=True)


if __name__ == "__main__":
    main()
