#!/bin/sh
# Tatoeba, Chinese to English: place the files, then the five commands. sh examples/tatoeba-zh-en/run.sh [FOLDER]
# FOLDER holds train.zh.gz, train.en.gz, dev.zh.gz, dev.en.gz, test.zh.gz, test.en.gz; without it the pairs that
# manythings.org offers (from tatoeba.org, CC-BY 2.0 FR) are fetched and cut into these.
set -eu
folder=${1:+$(cd "$1" && pwd)}
cd "$(dirname "$0")"
sh ../../setup-venv.sh
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
mkdir -p work
if [ ! -f work/train.zh.gz ]; then
    if [ -n "$folder" ]; then
        cp "$folder"/train.*.gz "$folder"/dev.*.gz "$folder"/test.*.gz work/
    else
        curl -fL -o work/cmn-eng.zip https://www.manythings.org/anki/cmn-eng.zip
        python split.py work/cmn-eng.zip work
    fi
fi
tfm train-tokenizer
tfm preprocess
tfm train --overwrite
tfm eval --output work/test.hyp.en
printf '我是谁\n你会说中文吗？\n' | tfm translate
