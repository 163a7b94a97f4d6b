#!/bin/sh
# Multi30k, English to German, with back-translation; an hour on two CPU cores. sh examples/multi30k-en-de/run.sh [FOLDER]
# FOLDER is as for ../multi30k/place.sh.
# Each training can be interrupted; delete what is half done in work/, or finish it by hand with `tfm train --resume`.
set -eu
sh "$(dirname "$0")/../multi30k/place.sh" "$@"
cd "$(dirname "$0")"
sh ../../setup-venv.sh
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
mkdir -p work
lower='import sys; sys.stdout.buffer.writelines(line.decode().lower().encode() for line in sys.stdin.buffer)'
for name in train val test_2016_flickr; do
    for language in de en; do
        gzip -dc ../multi30k/work/$name.$language.gz | python -c "$lower" > work/$name.$language
    done
done
tfm train-tokenizer
# From German to English, in eight minutes.
[ -f work/data-reverse/data.json ] ||
    tfm preprocess --source work/train.de --target work/train.en --valid-source work/val.de --valid-target work/val.en \
        --test-source work/test_2016_flickr.de --test-target work/test_2016_flickr.en --source-lang de --target-lang en \
        --output work/data-reverse
[ -f work/reverse/config.json ] ||
    tfm train --data work/data-reverse --output work/reverse --preset small \
        --max-minutes 8 --warmup-steps 100 --dropout 0.15 --ema 0.998 --valid-every 600
# Other English for the same German: each of its lines three times, drawn at random.
for seed in 1 2 3; do
    [ -f work/sampled-$seed.en ] ||
        tfm translate --model work/reverse --sample --top-p 0.9 --seed $seed --precision bfloat16 \
            --input work/train.de --output work/sampled-$seed.en
done
cat work/train.en work/sampled-1.en work/sampled-2.en work/sampled-3.en > work/mixed.en
cat work/train.de work/train.de work/train.de work/train.de > work/mixed.de
tfm preprocess
[ -f work/run/config.json ] || tfm train
tfm eval --output work/test.hyp.de
