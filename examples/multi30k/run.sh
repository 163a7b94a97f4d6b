#!/bin/sh
# Multi30k, German to English: place the files, then the five commands. sh examples/multi30k/run.sh [FOLDER]
# FOLDER holds train.de.gz, train.en.gz, val.de.gz ... test_2016_flickr.en.gz; without it they are fetched from the
# corpus's own repository (Elliott et al. 2016; for research).
set -eu
folder=${1:+$(cd "$1" && pwd)}
cd "$(dirname "$0")"
sh ../../setup-venv.sh
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
mkdir -p work
for name in train val test_2016_flickr; do
    for language in de en; do
        file=$name.$language.gz
        [ -f "work/$file" ] && continue
        if [ -n "$folder" ]; then
            cp "$folder/$file" "work/$file"
        else
            curl -fL -o "work/$file" "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$file"
        fi
    done
done
tfm train-tokenizer
tfm preprocess
tfm train --overwrite
tfm eval --output work/test.hyp.en
gzip -dc work/test_2016_flickr.de.gz | head -n 3 | tfm translate
