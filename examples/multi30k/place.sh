#!/bin/sh
# Place Multi30k's files in work/ beside this script. sh examples/multi30k/place.sh [FOLDER]
# FOLDER holds train.de.gz, train.en.gz, val.de.gz ... test_2016_flickr.en.gz; without it they are fetched from the
# corpus's own repository (Elliott et al. 2016; for research).
set -eu
folder=${1:+$(cd "$1" && pwd)}
cd "$(dirname "$0")"
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
