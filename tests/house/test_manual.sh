#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual page names every command and every option that the program's help knows, and no others.
set -eu
manual="$CKM_SOURCE_DIR/docs/man/checkmate.1"
bad=0
# The page as text: font changes and escaped dashes removed.
text=$(sed -e 's/\\f[A-Z]//g' -e 's/\\-/-/g' -e 's/"//g' "$manual")

"$CHECKMATE" --help >/dev/null
commands=$("$CHECKMATE" --help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ -n "$commands" ] || { echo "the program's help lists no commands"; exit 1; }
known=""
for command in $commands; do
    printf '%s\n' "$text" | grep -q -e "checkmate $command\$" -e "\.BI* $command\( \|\$\)" -e "help\$" ||
        { echo "the manual does not describe the command $command"; bad=1; }
    for option in $("$CHECKMATE" help "$command" | grep -o -e '--[a-z][a-z-]*' | sort -u); do
        known="$known $option"
        printf '%s\n' "$text" | grep -q -e "$option\([^a-z-]\|\$\)" ||
            { echo "the manual does not describe $option of $command"; bad=1; }
    done
done
for option in $(printf '%s\n' "$text" | grep -o -e '--[a-z][a-z-]*' | sort -u); do
    case " $known --version --help " in
    *" $option "*) ;;
    *)
        echo "the manual describes $option, which no command knows"
        bad=1
        ;;
    esac
done
[ $bad -eq 0 ] && echo "manual and help agree"
exit $bad
