#!/bin/sh
# Multi30k, English to German, with back-translation: two small networks that translate together; an hour on two CPU cores.
# sh examples/multi30k-en-de/run.sh [FOLDER]; FOLDER is as for ../multi30k/place.sh.
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
tfm preprocess
# From German to English; then other English for the same German, drawn at random, each line twice.
tfm preprocess --source work/train.de --target work/train.en --valid-source work/val.de --valid-target work/val.en \
    --test-source work/test_2016_flickr.de --test-target work/test_2016_flickr.en --source-lang de --target-lang en \
    --output work/data-reverse
[ -f work/reverse/config.json ] ||
    tfm train --data work/data-reverse --output work/reverse --max-minutes 7 --dropout 0.2 --ema 0.998
for seed in 11 12; do
    [ -f work/sampled-$seed.en ] ||
        tfm translate --model work/reverse --sample --top-p 0.9 --seed $seed --precision bfloat16 --batch-tokens 4096 \
            --input work/train.de --output work/sampled-$seed.en
done
cat work/train.en work/sampled-11.en work/sampled-12.en > work/mixed.en
cat work/train.de work/train.de work/train.de > work/mixed.de
tfm preprocess --source work/mixed.en --target work/mixed.de --output work/data-mixed
# One network reads all of it and goes on with the pairs alone; the other, which has seen nothing else, errs elsewhere.
[ -f work/base/config.json ] ||
    tfm train --data work/data-mixed --output work/base --max-minutes 17.5 --schedule constant --learning-rate 4e-3
[ -f work/run-1/config.json ] ||
    tfm train --output work/run-1 --init-from work/base --max-minutes 9 --learning-rate 3e-3
[ -f work/run-2/config.json ] || tfm train --output work/run-2 --max-minutes 17.5
tfm eval --output work/test.hyp.de
