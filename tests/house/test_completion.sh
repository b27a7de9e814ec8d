#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Completion answers for every command, option and kind of name: bash and fish are asked, zsh reads its file and completes
# at a terminal. fish and zsh where they are there.
set -eu
folder="$CKM_BINARY_DIR/pages/completions"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
cd "$scratch"
touch model.onnx graph.json plan.json notes.txt "two words.json"
mkdir images
bin=$(dirname "$CHECKMATE")

# What bash does with a line before it calls the function: words end at blanks and before and after = and :.
cat >ask.bash <<'END'
source "$1"
line=$2
words=()
for word in $line; do
    while [[ $word =~ ^([^=:]*)([=:])(.*)$ ]]; do
        [[ -z ${BASH_REMATCH[1]} ]] || words+=("${BASH_REMATCH[1]}")
        words+=("${BASH_REMATCH[2]}")
        word=${BASH_REMATCH[3]}
    done
    [[ -z $word ]] || words+=("$word")
done
[[ $line != *" " ]] || words+=("")
COMP_WORDS=("${words[@]}")
COMP_CWORD=$((${#words[@]} - 1))
COMP_LINE=$line
COMP_POINT=${#line}
compopt() { :; }
_checkmate
printf '%s\n' "${COMPREPLY[@]}"
END
ask_bash() { bash ask.bash "$folder/checkmate" "$1"; }
ask_fish() { fish --no-config -c "source $folder/checkmate.fish; complete -C \"$1\"" | cut -f 1; }

# answers LINE WORD...: after LINE all these words are offered; a word with ! in front is not.
answers() {
    line=$1
    shift
    got=$($ask "$line" 2>errors) || true
    [ ! -s errors ] || { echo "$ask: \"$line\": $(cat errors)"; bad=1; }
    for word in "$@"; do
        case $word in
        !*) ! printf '%s\n' "$got" | grep -Fqx -e "${word#!}" || { echo "$ask: \"$line\" offers ${word#!}"; bad=1; } ;;
        *) printf '%s\n' "$got" | grep -Fqx -e "$word" || { echo "$ask: \"$line\" offers no $word: $(echo $got)"; bad=1; } ;;
        esac
    done
}

commands=$("$CHECKMATE" --help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
check_shell() {
    ask=$1
    before=$bad
    # shellcheck disable=SC2086 # the commands are words
    answers "checkmate " $commands
    for command in $commands; do
        # shellcheck disable=SC2046
        answers "checkmate $command --" $("$CHECKMATE" help "$command" | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p')
    done
    answers "checkmate solve " ResNet50 GPT2 model.onnx graph.json !solve
    answers "checkmate solve Mob" MobileNet !ResNet50 !graph.json
    # shellcheck disable=SC2046
    answers "checkmate solve VGG16 --strategy " $("$CHECKMATE" strategies | sed 's/ .*//')
    answers "checkmate solve VGG16 -s ch" chen-sqrt chain !auto
    answers "checkmate solve VGG16 --budget " auto min
    answers "checkmate train VGG16 --budget " auto min
    answers "checkmate solve VGG16 --formulation " paper frontier unpartitioned
    answers "checkmate solve VGG16 --output gr" graph.json
    answers "checkmate max-batch VGG16 --compute-limit " extra-forward
    answers "checkmate report plan.json --figure " memory arena matrices transfers graph
    answers "checkmate verify " graph.json !ResNet50
    answers "checkmate verify graph.json pl" plan.json
    answers "checkmate help sw" sweep
    [ "$ask" = ask_bash ] && folder_name=images || folder_name=images/  # bash adds the / later
    answers "checkmate train VGG16 --data i" "$folder_name"
    answers "checkmate train VGG16 --data s" synthetic
    answers "checkmate train VGG16 --optimizer " sgd adam adamw
    answers "checkmate train VGG16 --back-end " cpu reference
    answers "checkmate sweep VGG16 --strategies auto,che" auto,chen-sqrt auto,chen-greedy
    answers "checkmate train VGG16 --costs m" measured model.onnx
    [ "$bad" -ne "$before" ] || echo "${ask#ask_} completes"
}

ask_in_terminal() { python3 "$CKM_SOURCE_DIR/tests/house/type_in_shell.py" "$1" "$folder" "$bin" "$2"; }
# typed LINE RESULT: one way to go on, which the shell writes.
typed() {
    got=$(ask_in_terminal "$shell" "$1") || { echo "$shell: $got"; bad=1; }
    case $got in
    *"$2"*) ;;
    *)
        echo "$shell at a terminal: \"$1\" does not become \"$2\": $got"
        bad=1
        ;;
    esac
}
check_terminal() {
    shell=$1
    typed "checkmate strat" "checkmate strategies "
    typed "checkmate solve MobileNetV2 --form" "checkmate solve MobileNetV2 --formulation"
    typed "checkmate solve --costs=device:V" "--costs=device:V100"
    typed "checkmate solve --costs device:V" "--costs device:V100"
    typed "checkmate solve -s lp-ro" "-s lp-round"
    typed "checkmate verify gra" "checkmate verify graph.json"
    typed "checkmate verify two" 'checkmate verify two\ words.json'
    typed "checkmate solve model.o" "checkmate solve model.onnx"
    typed "checkmate train VGG16 --data im" "--data images/"
    echo "$shell completes at a terminal"
}

check_shell ask_bash
answers "checkmate solve VGG16 --costs=dev" device:H100 device:this
answers "checkmate solve VGG16 --costs device:H" H100 H200 !device:H100
answers "checkmate solve VGG16 --strategy=lp-" lp-round
answers "checkmate nonsense " !ResNet50 !graph.json
check_terminal bash
if command -v fish >/dev/null; then
    check_shell ask_fish
else
    echo "no fish here: its completion is not tested"
fi
if command -v zsh >/dev/null; then
    zsh -n "$folder/_checkmate" || bad=1
    check_terminal zsh
else
    echo "no zsh here: its completion is not tested"
fi
exit $bad
