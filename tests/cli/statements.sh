# SPDX-License-Identifier: Apache-2.0
# What the documents say is what their commands give: tests/house/statements.txt, those that take no time. And the check
# notices a figure that is wrong, a text that is no longer there, and a statement with a part missing.
. "$(dirname "$0")/lib.sh"

check=$here/../../scripts/check_statements.sh
export CHECKMATE
sh "$check" > out.txt 2>&1 || fail "$(cat out.txt)"
grep -q '^[0-9][0-9]* statements hold' out.txt || fail "how many hold: $(cat out.txt)"

# noticed WHAT LINE...: a list of these lines fails, and the check says this.
noticed() {
    what=$1
    shift
    printf '%s\n' "$@" > list.txt
    if sh "$check" "$PWD/list.txt" > out.txt 2>&1; then
        fail "not noticed: $what"
    fi
    grep -qF -e "$what" out.txt || fail "'$what' is not said: $(cat out.txt)"
}
good='says 5.32 GB for this ResNet50'
command='run checkmate graph ResNet50 --batch 64'
printf '%s\n' 'in README.md' "$good" "$command" 'gives 5\.32 GB' > list.txt
sh "$check" "$PWD/list.txt" > out.txt 2>&1 || fail "a statement that holds: $(cat out.txt)"
noticed "does not give '5\\.33 GB'" 'in README.md' "$good" "$command" 'gives 5\.33 GB'
noticed "does not say '5.33 GB for this ResNet50'" 'in README.md' 'says 5.33 GB for this ResNet50' "$command" 'gives 5\.32 GB'
noticed 'lacks one of in, says, run, gives' 'in README.md' "$good" "$command"
noticed 'cannot read this line' 'in README.md' "$good" "$command" 'given 5\.32 GB'
noticed 'has no statements' '# nothing'
finish
