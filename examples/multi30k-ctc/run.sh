#!/bin/sh
# Multi30k, German to English, all words at once; four hours on two CPU cores. sh examples/multi30k-ctc/run.sh [FOLDER]
# FOLDER is as for ../multi30k/place.sh; ../multi30k/run.sh comes first: its ten minutes place the files and encode the pairs.
# Each training can be interrupted; delete what is half done in work/, or finish it by hand with `tfm train --resume`.
set -eu
sh "$(dirname "$0")/../multi30k/run.sh" "$@"
cd "$(dirname "$0")"
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
base=../multi30k/work
longer="--preset small --max-minutes 60 --dropout 0.3 --ema 0.999 --valid-every 0"
[ -f work/teacher/config.json ] || tfm train --config ../multi30k/tfm.toml --output work/teacher $longer
tfm preprocess --source $base/train.en.gz --target $base/train.de.gz --valid-source $base/val.en.gz --valid-target $base/val.de.gz \
    --tokenizer $base/tokenizer --source-lang en --target-lang de --output work/data-reverse
[ -f work/reverse/config.json ] ||
    tfm train --config ../multi30k/tfm.toml --data work/data-reverse --output work/reverse $longer
for seed in 1 2; do
    [ -f work/more-$seed.de ] || gzip -dc $base/train.en.gz | tfm translate --model work/reverse --sample --top-p 0.9 --seed $seed \
        --precision bfloat16 --output work/more-$seed.de
done
tfm distill
tfm train --overwrite
tfm eval --output work/test.hyp.en
tfm eval --ctc-beam 10 --rerank work/teacher
tfm bench --model work/teacher work/ctc --data $base/data --ctc-beam 10 --rerank work/teacher
