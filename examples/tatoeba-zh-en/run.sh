#!/bin/sh
# Tatoeba, Chinese to English: place the files, then the five commands. sh examples/tatoeba-zh-en/run.sh [FOLDER]
# FOLDER holds train.zh.gz, train.en.gz, dev.zh.gz, dev.en.gz, test.zh.gz, test.en.gz; without it the pairs that
# manythings.org offers (from tatoeba.org, CC-BY 2.0 FR) are fetched and cut into these.
set -eu
cd "$(dirname "$0")"
mkdir -p work
if [ ! -f work/train.zh.gz ]; then
    if [ $# -gt 0 ]; then
        cp "$1"/train.*.gz "$1"/dev.*.gz "$1"/test.*.gz work/
    else
        curl -fL -o work/cmn-eng.zip https://www.manythings.org/anki/cmn-eng.zip
        # One pair a line: English, Chinese, licence. Every 30th goes to dev, the one after it to test.
        unzip -p work/cmn-eng.zip cmn.txt | awk -F '\t' '{
            set = NR % 30 == 0 ? "dev" : NR % 30 == 1 ? "test" : "train"
            print $1 > ("work/" set ".en"); print $2 > ("work/" set ".zh")
        }'
        gzip work/*.en work/*.zh
    fi
fi
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
tfm train-tokenizer
tfm preprocess
tfm train --overwrite
tfm eval --output work/test.hyp.en
printf '我是谁\n你会说中文吗？\n' | tfm translate
