#!/bin/sh
# Multi30k, English to German: three small networks that translate together; an hour on two CPU cores.
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
[ -f work/run-1/config.json ] || tfm train --output work/run-1
[ -f work/run-2/config.json ] || tfm train --output work/run-2 --seed 2
# The third learns in another way, so that its errors are others.
[ -f work/run-3/config.json ] ||
    tfm train --output work/run-3 --optimizer adam --learning-rate 4e-3 --warmup-steps 600
tfm translate --model work/run-1 --model work/run-2 --model work/run-3 \
    --input work/test_2016_flickr.en --output work/test.hyp.de
tfm eval --hypothesis work/test.hyp.de --reference work/test_2016_flickr.de
