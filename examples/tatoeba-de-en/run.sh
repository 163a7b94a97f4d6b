#!/bin/sh
# Tatoeba, German to English, with a student; two and a half hours on one CPU core. sh examples/tatoeba-de-en/run.sh FOLDER
# FOLDER holds train.de.gz, train.en.gz, dev.de.gz, dev.en.gz, test.de.gz, test.en.gz.
# Each training can be interrupted; delete what is half done in work/, or finish it by hand with `tfm train --resume`.
set -eu
folder=$(cd "${1:?FOLDER is missing}" && pwd)
cd "$(dirname "$0")"
sh ../../setup-venv.sh
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
mkdir -p work
[ -f work/train.de.gz ] || cp "$folder"/train.*.gz "$folder"/dev.*.gz "$folder"/test.*.gz work/
tfm train-tokenizer
tfm preprocess
[ -f work/teacher/config.json ] ||
    tfm train --output work/teacher --max-minutes 50 --learning-rate 5e-3 --warmup-steps 150
tfm distill --model work/teacher --data work/data --output work/data-kd --precision int8
tfm train --data work/data-kd --init-from work/teacher --output work/ctc --family ctc --glancing --max-minutes 90 \
    --learning-rate 4e-3 --warmup-steps 50 --overwrite
tfm eval --model work/ctc --output work/test.hyp.en
tfm eval --model work/ctc --ctc-beam 10 --rerank work/teacher
tfm bench --model work/teacher work/ctc --data work/data --ctc-beam 10 --rerank work/teacher
