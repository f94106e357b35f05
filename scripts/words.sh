#!/bin/sh
# words.sh: rejects words that are not the field's. docs/glossary.md has the words to use.
set -eu
cd "$(dirname "$0")/.."

words='mend|mends|mended|anew|errand|errands|in a hurry|by turns|in the mean|outlook|vault|cargo|desk|half heads'
words="$words|is told|are told|told of|tell of|tells of|besides that|tooNear|nowhere|noPlace|judgeQuotes|enterAndLeave|ROLL|SELDOM|MOSTLY"
if git grep --untracked -nIwE "$words|(Mend|Anew|Errand)s?" -- . ':!docs/glossary.md' ':!scripts/words.sh' ':!go.sum' ':!*/testdata/fuzz/*'; then
	echo "words.sh: replace these words (docs/glossary.md)" >&2
	exit 1
fi
