#!/bin/sh
# Multi30k, German to English: place the files, then the five commands. sh examples/multi30k/run.sh [FOLDER]
# FOLDER is as for place.sh.
set -eu
sh "$(dirname "$0")/place.sh" "$@"
cd "$(dirname "$0")"
sh ../../setup-venv.sh
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH
tfm train-tokenizer
tfm preprocess
tfm train --overwrite
tfm eval --output work/test.hyp.en
gzip -dc work/test_2016_flickr.de.gz | head -n 3 | tfm translate
